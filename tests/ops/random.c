// SPDX-License-Identifier: MIT
/*
 * Random numbers: the generator's words are those of its authors' known answers,
 * on all kernels that the processor has; elements are those of a plain generator
 * at their position, for any threads, strides and beginnings; what is uniform and
 * what is normal has the moments that it should have.
 */
#include <tarn/ops.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernels.h"
#include "tests/kit/tap.h"
#include "tests/ops/tensors.h"

/* ---- known answers --------------------------------------------------------- */

/* Of Random123's kat_vectors: counter, key, answer. */
static const uint32_t known[3][10] = {
	{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
	{~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
		0x6d5451fd},
	{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
		0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};

static void answers(const struct kernels *k, const char *name, bool has)
{
	uint32_t words[4][RANDOM_BLOCKS];
	bool good = true;

	if (!has || !k->random_words) {
		skip(1,
			"known answers of the kernels %s: the processor has "
			"none of them",
			name);
		return;
	}
	for (int i = 0; i < 3; i++) {
		k->random_words(known[i], known[i] + 4, words);
		for (int j = 0; j < 4; j++)
			good = good && words[j][0] == known[i][6 + j];
	}
	ok(good, "the kernels %s give the known answers", name);
}

/* ---- plainly ---------------------------------------------------------------- */

static void block(uint64_t seed, uint64_t number, uint32_t w[4])
{
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

	w[0] = (uint32_t)number;
	w[1] = (uint32_t)(number >> 32);
	w[2] = w[3] = 0;
	for (int i = 0; i < 10; i++) {
		uint64_t x = (uint64_t)w[0] * 0xd2511f53;
		uint64_t y = (uint64_t)w[2] * 0xcd9e8d57;
		uint32_t next[4] = {(uint32_t)(y >> 32) ^ w[1] ^ k0,
			(uint32_t)y, (uint32_t)(x >> 32) ^ w[3] ^ k1,
			(uint32_t)x};

		memcpy(w, next, sizeof(next));
		k0 += 0x9e3779b9;
		k1 += 0xbb67ae85;
	}
}

static void plainly(uint64_t seed, uint64_t position, int64_t n, double *single,
	double *wide, double *normal)
{
	uint32_t w[4];

	for (int64_t i = 0; i < n; i++) {
		uint64_t e = position + (uint64_t)i, two;
		double angle, radius;

		block(seed, e / 4, w);
		single[i] = (w[e % 4] >> 8) * 0x1p-24;
		/* Near 1 F32 has 24 bits of it. */
		radius = (double)((float)w[e % 4 / 2 * 2] + 1) * 0x1p-32;
		radius = sqrt(-2 * log(radius));
		angle = w[e % 4 / 2 * 2 + 1] * 0x1p-31 * 3.14159265358979323846;
		normal[i] = radius * (e % 2 ? sin(angle) : cos(angle));
		block(seed, e / 2, w);
		two = w[e % 2 * 2] | (uint64_t)w[e % 2 * 2 + 1] << 32;
		wide[i] = (double)(two >> 11) * 0x1p-53;
	}
}

static bool one_case(uint64_t seed)
{
	struct random_state r = {seed};
	int64_t shape[TARN_NDIM_MAX], n = 1;
	int ndim = random_shape(&r, 3, shape);
	uint64_t key = random_next(&r), at = random_next(&r) >> 1;
	tarn_tensor *single, *wide, *normal, *half = NULL;
	double *wanted[3];
	bool good;

	for (int i = 0; i < ndim; i++)
		n *= shape[i];
	for (int i = 0; i < 3; i++)
		wanted[i] = calloc((size_t)n + 1, sizeof(double));
	plainly(key, at, n, wanted[0], wanted[1], wanted[2]);
	single = random_tensor(&r, TARN_F32, ndim, shape, false);
	wide = random_tensor(&r, TARN_F64, ndim, shape, false);
	normal = random_tensor(&r, TARN_F32, ndim, shape, false);
	must(tarn_random_uniform(
		key, at, 0, 1, TARN_F32, ndim, shape, &single));
	must(tarn_random_uniform(key, at, 0, 1, TARN_F64, ndim, shape, &wide));
	must(tarn_random_normal(key, at, 0, 1, TARN_F32, ndim, shape, &normal));
	must(tarn_random_normal(key, at, 0, 1, TARN_F16, ndim, shape, &half));
	good = tensor_agrees(single, n, wanted[0], 0) &&
	       tensor_agrees(wide, n, wanted[1], 0) &&
	       tensor_agrees(normal, n, wanted[2], 1e-5) &&
	       tensor_agrees(half, n, wanted[2], 2e-3);
	tarn_tensor_unref(single);
	tarn_tensor_unref(wide);
	tarn_tensor_unref(normal);
	tarn_tensor_unref(half);
	for (int i = 0; i < 3; i++)
		free(wanted[i]);
	return good;
}

static void random_cases(void)
{
	unsigned n = test_cases(200), good = 0;

	for (unsigned i = 0; i < n && good == i; i++)
		if (one_case(i))
			good++;
		else
			diag("seed %u", i);
	is_int(n, good,
		"elements are those of a plain generator at their position");
}

/* ---- long sequences ----------------------------------------------------------- */

static void integers(void)
{
	int64_t n = 3001, words[2];
	tarn_tensor *t = NULL, *die = NULL;
	uint32_t w[4];
	double *numbers;
	bool good = true, seen[7] = {0};

	must(tarn_random_int(9, 1, INT64_MIN, INT64_MAX, TARN_I64, 1, &n, &t));
	memcpy(words, tarn_tensor_data(t), sizeof(words));
	block(9, 0, w);
	is_hex((w[2] | (uint64_t)w[3] << 32) + (UINT64_C(1) << 63),
		(uint64_t)words[0], "an integer of all of I64 has two words");
	must(tarn_random_int(9, 0, 1, 6, TARN_U8, 1, &n, &die));
	numbers = tensor_numbers(die);
	for (int64_t i = 0; i < n; i++) {
		good = good && numbers[i] >= 1 && numbers[i] <= 6;
		if (good)
			seen[(int)numbers[i]] = true;
	}
	ok(good && seen[1] && seen[2] && seen[3] && seen[4] && seen[5] &&
			seen[6],
		"a die shows 1 to 6 and nothing else");
	tarn_tensor_unref(t);
	tarn_tensor_unref(die);
	free(numbers);
}

static void moments(enum tarn_dtype dtype)
{
	int64_t n = 1000001, rest = n - 77;
	tarn_tensor *one = NULL, *two = NULL, *tail = NULL, *end = NULL;
	double *x, sum = 0, squares = 0, fourth = 0;

	must(tarn_ops_set_threads(1));
	must(tarn_random_normal(1, 3, 2, 3, dtype, 1, &n, &one));
	must(tarn_ops_set_threads(2));
	must(tarn_random_normal(1, 3, 2, 3, dtype, 1, &n, &two));
	must(tarn_random_normal(1, 80, 2, 3, dtype, 1, &rest, &tail));
	must(tarn_tensor_narrow(one, 0, 77, rest, &end));
	ok(tensors_same_bits(one, two), "%s: two threads give the same bits",
		tarn_dtype_name(dtype));
	ok(tensors_same_bits(end, tail),
		"%s: a sequence that begins later goes on the same",
		tarn_dtype_name(dtype));
	x = tensor_numbers(one);
	for (int64_t i = 0; i < n; i++) {
		double z = (x[i] - 2) / 3;

		sum += z;
		squares += z * z;
		fourth += z * z * z * z;
	}
	ok(fabs(sum / (double)n) < 0.005 &&
			fabs(squares / (double)n - 1) < 0.01 &&
			fabs(fourth / (double)n - 3) < 0.06,
		"%s: normal numbers have their moments",
		tarn_dtype_name(dtype));
	tarn_tensor_unref(one);
	tarn_tensor_unref(two);
	tarn_tensor_unref(tail);
	tarn_tensor_unref(end);
	free(x);
}

static void refused(void)
{
	int64_t n = 3;
	tarn_tensor *x, *locked, *out = NULL;

	must(tarn_tensor_ones(TARN_F32, 1, &n, &x));
	locked = tensor_read_only(x);
	is_int(-EROFS,
		tarn_random_uniform(0, 0, 0, 1, TARN_F32, 1, &n, &locked),
		"a read-only tensor is not filled");
	is_int(-EINVAL, tarn_random_uniform(0, 0, 1, 0, TARN_F32, 1, &n, &out),
		"limits in the wrong order are refused");
	is_int(-EINVAL, tarn_random_normal(0, 0, 0, 1, TARN_I32, 1, &n, &out),
		"normal numbers of I32 are refused");
	is_int(-EINVAL, tarn_random_int(0, 0, 0, 256, TARN_U8, 1, &n, &out),
		"integers that the dtype cannot hold are refused");
	is_str("random_int: from 0 to 256; for U8 they must lie within 0 to "
	       "255, in that order",
		tarn_error_message(), "the sentence says what is possible");
	is_int(-EINVAL,
		tarn_random_int(0, UINT64_MAX, 0, 1, TARN_U8, 1, &n, &out),
		"positions past the last one are refused");
	ok(!out, "a refused call makes no tensor");
	tarn_tensor_unref(x);
	tarn_tensor_unref(locked);
}

int main(void)
{
	bool avx2 = false, avx512 = false;

#ifdef __x86_64__
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
	avx512 = __builtin_cpu_supports("avx512bw") &&
		 __builtin_cpu_supports("avx512dq") &&
		 __builtin_cpu_supports("avx512vl");
#endif
	answers(&kernels_c, "c", true);
	answers(&kernels_avx2, "avx2", avx2);
	answers(&kernels_avx512, "avx512", avx512);
	random_cases();
	integers();
	moments(TARN_F32);
	moments(TARN_F64);
	refused();
	return done(3 + 1 + 2 + 6 + 7);
}
