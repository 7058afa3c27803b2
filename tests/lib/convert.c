// SPDX-License-Identifier: MIT
/*
 * Conversion of runs between all pairs of the 22 dtypes. Every pattern of a
 * source of up to 16 bits, and edges and seeded patterns of the wider ones, in
 * both roundings, beside an oracle (convert_oracle.h). What the CPU's own
 * instructions make is, bit for bit, what portable C makes.
 *
 * TARN_TEST_SAMPLE=N: of all but 256 patterns only each Nth, for where it is
 * slow (valgrind).
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/number/convert.h"
#include "lib/number/number.h"
#include "tests/kit/convert_oracle.h"
#include "tests/kit/tap.h"

#define MANY 65536
#define GUARD 0xa5

static uint64_t values[MANY];
static size_t count;
static unsigned char in[MANY * 8 + 16], out[MANY * 8 + 16],
	plain_c[MANY * 8 + 16];

static uint64_t seed = 4;

static uint64_t rnd(void) /* splitmix64 */
{
	uint64_t z = (seed += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* ---- the values ----------------------------------------------------- */

static void add(int dtype, uint64_t raw)
{
	values[count++] = raw & oracle_ones(tarn_dtype_bits(dtype));
}

/* Around all powers of 2 and all halves of them, of both signs. */
static void add_edges(int dtype)
{
	for (int e = -1080; e <= 1024; e++)
		for (int i = 0; i < 8; i++) {
			double d = ldexp(1 + i / 8., e);
			uint64_t raw = oracle_raw(dtype, i & 1 ? -d : d);

			add(dtype, raw);
			if (e % 8 == 0 || (e > -30 && e < 70)) {
				add(dtype, raw + 1);
				add(dtype, raw - 1);
			}
		}
}

static void add_integers(int dtype)
{
	for (int bit = 0; bit < tarn_dtype_bits(dtype); bit++)
		for (int64_t near = -3; near <= 3; near++) {
			add(dtype, (1ull << bit) + (uint64_t)near);
			add(dtype, 0 - (1ull << bit) + (uint64_t)near);
			add(dtype, (3ull << bit) + (uint64_t)near);
			/* Halves between neighbours of F64, F32, F16, BF16. */
			for (int kept = 8; kept <= 53; kept++)
				if (bit > kept)
					add(dtype,
						(1ull << bit) +
							(3ull << (bit - kept)) +
							(uint64_t)near);
		}
}

static void add_random(int dtype, size_t more)
{
	for (size_t i = 0; i < more; i++) {
		uint64_t raw = rnd();

		/* Of all sizes: also small integers, also floats near 1. */
		if (number_is_integer(dtype))
			raw >>= rnd() % 64;
		else if (i % 2)
			raw = oracle_raw(
				dtype, ldexp((double)(int64_t)rnd(),
					       (int)(rnd() % 100) - 110));
		add(dtype, raw);
	}
}

static void thin_out(size_t each)
{
	count /= each;
	for (size_t i = 0; i < count; i++)
		values[i] = values[i * each + i % each];
}

static void fill(int dtype)
{
	static const double special[] = {0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5,
		254.5, 255.5, -128.5, 127.5, 65535.5, 0x1p31 - 0.5, 0x1p32,
		0x1p63, -0x1p63, 0x1p64, 464, 465, 248, 61440, 65520, 65519.99,
		0x1p-25, 0x1.0001p-25, 0x1p-127, 0x1.8p-127, 0x1.80001p-127,
		INFINITY, -INFINITY, NAN};
	const char *sample = getenv("TARN_TEST_SAMPLE");
	int bits = tarn_dtype_bits(dtype);
	uint64_t step = sample && bits >= 16 ? strtoul(sample, NULL, 10) : 1;

	count = 0;
	if (bits <= 16) {
		for (uint64_t raw = 0; raw < 1ull << bits; raw += step)
			add(dtype, raw);
	} else if (number_is_integer(dtype)) {
		add_integers(dtype);
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(special); i++)
			add(dtype, oracle_raw(dtype, special[i]));
		if (dtype == TARN_F64) {
			add(dtype, 0x7ff0000000000001); /* signalling */
			add(dtype, 0xfff0000000000001);
		} else {
			add(dtype, 0x7f800001);
			add(dtype, 0xff800001);
		}
		add_edges(dtype);
	}
	if (bits > 16)
		add_random(dtype, 12000);
	if (bits > 16)
		thin_out(step);
	while (count % 4) /* whole packs */
		add(dtype, 0);
}

static void put_values(int dtype)
{
	memset(in, 0, sizeof(in));
	for (size_t i = 0; i < count; i++)
		number_store(dtype, in + 1, (int64_t)i, values[i]);
}

/* ---- one pair ------------------------------------------------------- */

static size_t bytes(int dtype, size_t n)
{
	return n * (size_t)tarn_dtype_bits(dtype) / 8;
}

static int64_t first_wrong(
	int dst, int src, bool even, const unsigned char *seen)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t wanted = oracle_convert(dst, src, values[i], even);
		uint64_t got = number_load(dst, seen, (int64_t)i);

		if (oracle_same(dst, wanted, got))
			continue;
		diag("%s 0x%llx (%.17g) to %s: wanted 0x%llx, seen 0x%llx",
			tarn_dtype_name(src), (unsigned long long)values[i],
			number_f64(src, values[i]), tarn_dtype_name(dst),
			(unsigned long long)wanted, (unsigned long long)got);
		return (int64_t)i;
	}
	return -1;
}

static void run(const struct convert *c, unsigned char *to, size_t at)
{
	memset(to, GUARD, bytes(c->dst_dtype, count) + 16);
	convert_run(c, to + at, in + 1, count, 0, 0);
}

static void pair(int dst, int src, enum tarn_rounding rounding)
{
	struct convert c;
	size_t end = 3 + bytes(dst, count);

	convert_portable(true);
	if (convert_plan(&c, dst, src, rounding, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	run(&c, plain_c, 3);
	convert_portable(false);
	convert_plan(&c, dst, src, rounding, NULL, NULL);
	run(&c, out, 3);
	is_int(-1,
		first_wrong(dst, src, rounding == TARN_ROUND_EVEN, plain_c + 3),
		"%s to %s%s: %zu values", tarn_dtype_name(src),
		tarn_dtype_name(dst), rounding ? " (even)" : "", count);
	ok(memcmp(out, plain_c, end + 1) == 0,
		"the CPU's own instructions make the same bits as portable C");
	ok(out[2] == GUARD && out[end] == GUARD,
		"a conversion writes nothing beside its destination");
}

static void pairs(int src)
{
	fill(src);
	put_values(src);
	for (int dst = 1; dst <= TARN_DTYPE_MAX; dst++) {
		if (dst == src)
			continue;
		pair(dst, src, TARN_ROUND_TRUNCATE);
		if (number_is_integer(dst) && !number_is_integer(src))
			pair(dst, src, TARN_ROUND_EVEN);
	}
}

/* ---- scale ---------------------------------------------------------- */

static bool wide(int dtype)
{
	return dtype == TARN_F64 ||
	       (number_is_integer(dtype) && tarn_dtype_bits(dtype) >= 32);
}

static uint64_t scaled(
	int dst, int src, uint64_t raw, bool even, double scale, double bias)
{
	double value = number_f64(src, raw);

	if (wide(dst) || wide(src)) {
		value = value * scale;
		value = value + bias;
	} else {
		float product = (float)value * (float)scale;

		value = (double)(product + (float)bias);
	}
	if (dst == TARN_BOOL)
		return value != 0;
	return oracle_from_double(dst, value, even);
}

#define CHANNELS 1600
static double scales[CHANNELS], biases[CHANNELS];

/* n elements from the channel-th on, and where the first is wrong. */
static int64_t scaled_run(const struct convert *c, size_t n, int64_t channel,
	int64_t step, unsigned char *to)
{
	memset(to, GUARD, bytes(c->dst_dtype, n) + 16);
	convert_run(c, to + 3, in + 1, n, channel, step);
	for (size_t i = 0; i < n; i++) {
		int64_t at = channel + (int64_t)i * step;
		uint64_t wanted = scaled(c->dst_dtype, c->src_dtype, values[i],
			c->rounding == TARN_ROUND_EVEN,
			c->scale ? scales[at] : 1, c->bias ? biases[at] : -0.0);
		uint64_t seen = number_load(c->dst_dtype, to + 3, (int64_t)i);

		if (oracle_same(c->dst_dtype, wanted, seen))
			continue;
		diag("%s %g * %g + %g as %s: wanted 0x%llx, seen 0x%llx",
			tarn_dtype_name(c->src_dtype),
			number_f64(c->src_dtype, values[i]), scales[at],
			biases[at], tarn_dtype_name(c->dst_dtype),
			(unsigned long long)wanted, (unsigned long long)seen);
		return (int64_t)i;
	}
	return to[2] != GUARD || to[3 + bytes(c->dst_dtype, n)] != GUARD
		       ? (int64_t)n
		       : -1;
}

/* NaN may be another after arithmetic: only what is no NaN is compared. */
static bool agree(int dtype, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!oracle_same(dtype,
			    number_load(dtype, plain_c + 3, (int64_t)i),
			    number_load(dtype, out + 3, (int64_t)i)))
			return false;
	return true;
}

static void scaled_pair(int dst, int src)
{
	static const struct {
		size_t n;
		int64_t channel, step;
	} shapes[] = {{1536, 5, 0}, {1536, 7, 1}, {1036, 1590, -1}, {516, 0, 3},
		{4, 9, 1}};
	struct convert c;
	int64_t wrong = -1;
	bool agreed = true;
	/* By threes too each shape comes, and each way to leave one out. */
	int by = getenv("TARN_TEST_SAMPLE") ? 3 : 1;

	for (int i = 0; i < 20 && wrong < 0; i += by) {
		const double *scale = i % 4 == 3 ? NULL : scales;
		const double *bias = i % 4 == 2 ? NULL : biases;
		size_t n = MIN(shapes[i % 5].n, count);
		int64_t channel = shapes[i % 5].channel;
		int64_t step = shapes[i % 5].step;

		convert_portable(true);
		convert_plan(&c, dst, src, i & 1, scale, bias);
		wrong = scaled_run(&c, n, channel, step, plain_c);
		convert_portable(false);
		convert_plan(&c, dst, src, i & 1, scale, bias);
		if (wrong < 0)
			wrong = scaled_run(&c, n, channel, step, out);
		agreed = agreed && agree(dst, n);
	}
	is_int(-1, wrong,
		"%s to %s converts every value with a scale and a bias",
		tarn_dtype_name(src), tarn_dtype_name(dst));
	ok(agreed, "the CPU's own instructions make the same scaled bits");
}

/* A sample that fits a run of some blocks. */
static void scaled_pairs(int src)
{
	size_t all;

	fill(src);
	all = count;
	if (all > 1536)
		for (count = 0; count < 1536; count++)
			values[count] = values[rnd() % (all - count) + count];
	put_values(src);
	for (int dst = 1; dst <= TARN_DTYPE_MAX; dst++)
		if (dst != TARN_C64)
			scaled_pair(dst, src);
}

/* ---- the rest ------------------------------------------------------- */

/* Every length up to some vectors, and across the border of a block. */
static void lengths(int dst, int src)
{
	struct convert c;
	bool right = true;

	fill(src);
	while (count < 1200) {
		values[count] = values[count - 256];
		count++;
	}
	put_values(src);
	convert_plan(&c, dst, src, TARN_ROUND_TRUNCATE, NULL, NULL);
	run(&c, plain_c, 0);
	for (size_t n = 0; n < 1100 && right; n += n < 80 || n > 500 ? 1 : 30) {
		size_t size = bytes(dst, n);

		memset(out, GUARD, size + 16);
		convert_run(&c, out + n % 8, in + 1, n, 0, 0);
		right = memcmp(out + n % 8, plain_c, size) == 0 &&
			out[n % 8 + size] == GUARD;
	}
	ok(right, "%s to %s converts runs of any length at any address",
		tarn_dtype_name(src), tarn_dtype_name(dst));
}

static void refused(void)
{
	struct convert c;
	double one = 1;

	is_int(-ENOTSUP,
		convert_plan(&c, TARN_F32, TARN_C64, TARN_ROUND_TRUNCATE, &one,
			NULL),
		"a plan to convert C64 with a scale is refused");
	has_str("C64 to F32", tarn_error_message(),
		"the error names the conversion from C64 to F32");
	is_int(-ENOTSUP,
		convert_plan(
			&c, TARN_C64, TARN_U8, TARN_ROUND_TRUNCATE, NULL, &one),
		"a plan to convert to C64 with a scale is refused");
	is_int(-EINVAL,
		convert_plan(&c, 23, TARN_U8, TARN_ROUND_TRUNCATE, NULL, NULL),
		"a plan with dtype 23 is refused, since there are 22");
	has_str("23", tarn_error_message(),
		"the error names the dtype that does not exist");
	is_int(0,
		convert_plan(
			&c, TARN_U8, TARN_U8, TARN_ROUND_TRUNCATE, NULL, NULL),
		"converting to the same dtype has a plan");
	ok(c.plain && !c.scaled,
		"a conversion to the same dtype without a scale is plain");
	is_int(0,
		convert_plan(
			&c, TARN_U8, TARN_U8, TARN_ROUND_TRUNCATE, &one, NULL),
		"converting to the same dtype with a scale has a plan");
	ok(!c.plain && c.scaled,
		"a conversion to the same dtype with a scale is not plain");
}

int main(void)
{
	for (int src = 1; src <= TARN_DTYPE_MAX; src++)
		pairs(src);
	for (int i = 0; i < CHANNELS; i++) {
		scales[i] =
			ldexp((double)(int64_t)rnd(), (int)(rnd() % 30) - 75);
		biases[i] =
			ldexp((double)(int64_t)rnd(), (int)(rnd() % 30) - 70);
	}
	for (int src = 1; src <= TARN_DTYPE_MAX; src++)
		if (src != TARN_C64)
			scaled_pairs(src);
	for (int dst = TARN_U8; dst <= TARN_DTYPE_MAX; dst++) {
		lengths(dst, dst == TARN_F32 ? TARN_F16 : TARN_F32);
		lengths(dst, dst == TARN_U8 ? TARN_I16 : TARN_U8);
	}
	refused();
	return done(2649);
}
