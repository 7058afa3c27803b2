/* SPDX-License-Identifier: MIT */
/*
 * Random numbers: Philox4x32-10 of Salmon, Moraes, Dror and Shaw ("Parallel random
 * numbers: as easy as 1, 2, 3"), and floats of its words. A batch is 16 blocks of
 * four words. Included by kernels_all.h.
 */

static void philox(const uint32_t counter[4], const uint32_t key[2],
	uint32_t words[4][RANDOM_BLOCKS])
{
	uint64_t low = counter[0] | (uint64_t)counter[1] << 32;
	uint64_t high = counter[2] | (uint64_t)counter[3] << 32;
	uint32_t k0 = key[0], k1 = key[1];
	uint32_t *a = words[0], *b = words[1], *c = words[2], *d = words[3];

	for (unsigned i = 0; i < RANDOM_BLOCKS; i++) {
		uint64_t at = low + i, carried = high + (at < low);

		a[i] = (uint32_t)at;
		b[i] = (uint32_t)(at >> 32);
		c[i] = (uint32_t)carried;
		d[i] = (uint32_t)(carried >> 32);
	}
	for (int round = 0; round < 10; round++) {
		_Pragma("GCC ivdep") for (int i = 0; i < RANDOM_BLOCKS; i++)
		{
			uint64_t x = (uint64_t)a[i] * 0xd2511f53u;
			uint64_t y = (uint64_t)c[i] * 0xcd9e8d57u;

			a[i] = (uint32_t)(y >> 32) ^ b[i] ^ k0;
			b[i] = (uint32_t)y;
			c[i] = (uint32_t)(x >> 32) ^ d[i] ^ k1;
			d[i] = (uint32_t)x;
		}
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
}

/* From low on and below high, which a rounded sum might reach. */
#define UNIFORM(T, w) (T)(low + (T)(w) * (high - low))

static void uniform_f32(const uint32_t words[4][RANDOM_BLOCKS], double from,
	double to, void *dst)
{
	float *d = dst, low = (float)from, high = (float)to;

	for (int i = 0; i < RANDOM_BLOCKS; i++)
		for (int j = 0; j < 4; j++) {
			float x = UNIFORM(
				float, (float)(words[j][i] >> 8) * 0x1p-24f);

			d[4 * i + j] = x >= high ? low : x;
		}
}

static void uniform_f64(const uint32_t words[4][RANDOM_BLOCKS], double low,
	double high, void *dst)
{
	double *d = dst;

	for (int i = 0; i < RANDOM_BLOCKS; i++)
		for (int j = 0; j < 2; j++) {
			uint64_t w = words[2 * j][i] |
				     (uint64_t)words[2 * j + 1][i] << 32;
			double x = UNIFORM(double, (double)(w >> 11) * 0x1p-53);

			d[2 * i + j] = x >= high ? low : x;
		}
}

/* Box and Muller: of two words, or of two pairs of them, two numbers. The
 * logarithm is that of 2^-32 (2^-53) to 1. */
static void normal_f32(const uint32_t words[4][RANDOM_BLOCKS], double mean,
	double deviation, void *dst)
{
	float r[RANDOM_BLOCKS], t[RANDOM_BLOCKS], s[RANDOM_BLOCKS], *d = dst;
	float m = (float)mean, f = (float)deviation;

	for (int j = 0; j < 4; j += 2) {
		_Pragma("GCC ivdep") for (int i = 0; i < RANDOM_BLOCKS; i++)
		{
			t[i] = (float)words[j + 1][i] * 0x1.921fb6p-30f;
			r[i] = sqrtf(
				-2 * logf(((float)words[j][i] + 1) * 0x1p-32f));
		}
		_Pragma("GCC ivdep") for (int i = 0; i < RANDOM_BLOCKS; i++)
		{
			s[i] = m + f * r[i] * sinf(t[i]);
			r[i] = m + f * r[i] * cosf(t[i]);
		}
		for (int i = 0; i < RANDOM_BLOCKS; i++) {
			d[4 * i + j] = r[i];
			d[4 * i + j + 1] = s[i];
		}
	}
}

static void normal_f64(const uint32_t words[4][RANDOM_BLOCKS], double mean,
	double deviation, void *dst)
{
	double r[RANDOM_BLOCKS], t[RANDOM_BLOCKS], s[RANDOM_BLOCKS], *d = dst;

	for (int i = 0; i < RANDOM_BLOCKS; i++) {
		uint64_t a = words[0][i] | (uint64_t)words[1][i] << 32;
		uint64_t b = words[2][i] | (uint64_t)words[3][i] << 32;

		r[i] = (double)((a >> 11) + 1) * 0x1p-53;
		t[i] = (double)(b >> 11) * 0x1.921fb54442d18p-51;
	}
	_Pragma("GCC ivdep") for (int i = 0; i < RANDOM_BLOCKS; i++)
	{
		r[i] = deviation * sqrt(-2 * log(r[i]));
		s[i] = mean + r[i] * sin(t[i]);
		r[i] = mean + r[i] * cos(t[i]);
	}
	for (int i = 0; i < RANDOM_BLOCKS; i++) {
		d[2 * i] = r[i];
		d[2 * i + 1] = s[i];
	}
}
