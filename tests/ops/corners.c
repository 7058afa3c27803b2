// SPDX-License-Identifier: MIT
/*
 * Corners of the operations, as PyTorch has them: the number after each F16 and
 * BF16, quotients of infinities and zeros, bounds that are NaN, values that a
 * dtype cannot hold, lists that are longer than needed, a scale of 0.
 */
#include <tarn/ops.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"
#include "tests/ops/tensors.h"

/* ---- the next number ------------------------------------------------------ */

#define ALL_BITS 65536

/* Bits in the order of the numbers: 0x8000 and 0 are both zeros. */
static int order_of(unsigned bits)
{
	return bits & 0x8000 ? -(int)(bits & 0x7fff) : (int)bits;
}

static bool is_nan(unsigned bits, unsigned infinity)
{
	return (bits & 0x7fff) > infinity;
}

static unsigned after(unsigned x, unsigned y, unsigned infinity)
{
	int from = order_of(x), to = order_of(y), next;

	if (is_nan(x, infinity) || is_nan(y, infinity))
		return 0x7fff; /* any NaN */
	if (from == to)
		return y;
	next = from + (to > from ? 1 : -1);
	if (!next)
		return x & 0x8000;
	return next < 0 ? 0x8000u | (unsigned)-next : (unsigned)next;
}

/* All of them towards one. */
static unsigned next_wrong(enum tarn_dtype dtype, unsigned infinity, unsigned y)
{
	const int64_t n = ALL_BITS, one = 1;
	tarn_tensor *all, *to, *out = NULL;
	unsigned wrong = 0;
	uint16_t *at;

	must(tarn_tensor_zeros(dtype, 1, &n, &all));
	must(tarn_tensor_zeros(dtype, 1, &one, &to));
	at = tarn_tensor_data(all);
	for (unsigned i = 0; i < ALL_BITS; i++)
		at[i] = (uint16_t)i;
	*(uint16_t *)tarn_tensor_data(to) = (uint16_t)y;
	must(tarn_binary(TARN_NEXT_AFTER, tarn_of(all), tarn_of(to), &out));
	at = tarn_tensor_data(out);
	for (unsigned i = 0; i < ALL_BITS; i++) {
		unsigned want = after(i, y, infinity);

		if (at[i] == want ||
			(is_nan(want, infinity) && is_nan(at[i], infinity)))
			continue;
		if (!wrong++)
			diag("after %#x towards %#x: wanted %#x, seen %#x", i,
				y, want, at[i]);
	}
	tarn_tensor_unref(all);
	tarn_tensor_unref(to);
	tarn_tensor_unref(out);
	return wrong;
}

static void test_next(void)
{
	static const struct {
		enum tarn_dtype dtype;
		unsigned infinity;
	} dtypes[] = {{TARN_F16, 0x7c00}, {TARN_BF16, 0x7f80}};

	for (int i = 0; i < 2; i++) {
		unsigned infinity = dtypes[i].infinity, wrong = 0;
		const unsigned ends[] = {0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00,
			infinity, 0x8000 | infinity, 0x7fff, infinity - 1};

		for (int j = 0; j < 10; j++)
			wrong += next_wrong(dtypes[i].dtype, infinity, ends[j]);
		is_int(0, wrong, "the next number after each of %s is its own",
			tarn_dtype_name(dtypes[i].dtype));
	}
}

/* ---- quotients ------------------------------------------------------------- */

static const struct {
	double a, b, floor, rest;
} quotients[] = {
	{7, 2, 3, 1},
	{-7, 2, -4, 1},
	{7, -2, -4, -1},
	{-7, -2, 3, -1},
	{-4, 2, -2, -0.0},
	{4, -2, -2, 0},
	{0.5, 2, 0, 0.5},
	{-0.5, 2, -1, 1.5},
	{0.0, 1, 0, 0},
	{-0.0, 1, -0.0, -0.0},
	{0.0, -1, -0.0, 0},
	{1, INFINITY, 0, 1},
	{-1, INFINITY, -1, INFINITY},
	{1, -INFINITY, -1, -INFINITY},
	{-1, -INFINITY, 0, -1},
	{INFINITY, 1, NAN, NAN},
	{-INFINITY, 2, NAN, NAN},
	{INFINITY, INFINITY, NAN, NAN},
	{1, 0.0, INFINITY, NAN},
	{-1, 0.0, -INFINITY, NAN},
	{1, -0.0, -INFINITY, NAN},
	{INFINITY, 0.0, INFINITY, NAN},
	{0.0, 0.0, NAN, NAN},
	{NAN, 1, NAN, NAN},
	{1, NAN, NAN, NAN},
};
#define QUOTIENTS (sizeof(quotients) / sizeof(quotients[0]))

static bool same_number(double wanted, double seen)
{
	if (isnan(wanted))
		return isnan(seen);
	return wanted == seen && !signbit(wanted) == !signbit(seen);
}

static void judge_quotients(enum tarn_dtype dtype, const tarn_tensor *a,
	const tarn_tensor *b, bool rest)
{
	tarn_tensor *out = NULL;
	unsigned wrong = 0;
	double *seen;

	must(rest ? tarn_remainder(a, b, &out) : tarn_floor_div(a, b, &out));
	seen = tensor_numbers(out);
	for (size_t i = 0; i < QUOTIENTS; i++) {
		double wanted = rest ? quotients[i].rest : quotients[i].floor;

		if (same_number(wanted, seen[i]))
			continue;
		wrong++;
		diag("%g by %g: wanted %g, seen %g", quotients[i].a,
			quotients[i].b, wanted, seen[i]);
	}
	is_int(0, wrong, "%s of %s are PyTorch's",
		rest ? "remainders" : "quotients rounded down",
		tarn_dtype_name(dtype));
	free(seen);
	tarn_tensor_unref(out);
}

static void test_quotients(void)
{
	static const enum tarn_dtype dtypes[] = {
		TARN_F16, TARN_BF16, TARN_F32, TARN_F64};
	const int64_t n = QUOTIENTS;
	double a[QUOTIENTS], b[QUOTIENTS];

	for (size_t i = 0; i < QUOTIENTS; i++) {
		a[i] = quotients[i].a;
		b[i] = quotients[i].b;
	}
	for (int i = 0; i < 4; i++) {
		tarn_tensor *x = tensor_of(dtypes[i], 1, &n, a);
		tarn_tensor *y = tensor_of(dtypes[i], 1, &n, b);

		judge_quotients(dtypes[i], x, y, false);
		judge_quotients(dtypes[i], x, y, true);
		tarn_tensor_unref(x);
		tarn_tensor_unref(y);
	}
}

/* ---- bounds and signs ------------------------------------------------------- */

static void test_bounds(void)
{
	static const double numbers[] = {-0.0, 0.0, 5, NAN};
	static const double none[] = {NAN, NAN, NAN, NAN};
	static const double zeros[] = {0, 0, 1, NAN};
	const int64_t n = 4;
	struct tarn_operand nan_ = tarn_float(NAN), one = tarn_float(1);
	struct tarn_operand three = tarn_float(3);
	tarn_tensor *x = tensor_of(TARN_F32, 1, &n, numbers), *out = NULL;
	double *signs;

	must(tarn_clamp(x, &nan_, &one, &out));
	ok(tensor_agrees(out, n, none, 0), "a least of NaN makes all NaN");
	must(tarn_clamp(x, &one, &nan_, &out));
	ok(tensor_agrees(out, n, none, 0), "a largest of NaN makes all NaN");
	must(tarn_clamp(x, &three, &one, &out));
	ok(tensor_agrees(out, n, (const double[]) {1, 1, 1, NAN}, 0),
		"the largest wins over the least");
	must(tarn_unary(TARN_SIGN, x, &out));
	signs = tensor_numbers(out);
	ok(tensor_agrees(out, n, zeros, 0) && !signbit(signs[0]),
		"the sign of -0 is 0");
	free(signs);
	tarn_tensor_unref(x);
	tarn_tensor_unref(out);
}

/* ---- masks ------------------------------------------------------------------- */

static void test_fill(void)
{
	static const double bits[] = {1, 0, 1}, before[] = {5, 6, 7};
	static const double filled[] = {255, 6, 255};
	const int64_t n = 3, one = 1, pads[1][2] = {{1, 1}};
	tarn_tensor *mask = tensor_of(TARN_BOOL, 1, &n, bits);
	tarn_tensor *u8 = tensor_of(TARN_U8, 1, &n, before), *index,
		    *out = NULL;

	must(tarn_tensor_zeros(TARN_I64, 1, &one, &index));
	is_int(-EINVAL, tarn_masked_fill(u8, mask, tarn_int(300)),
		"300 is not filled into U8");
	is_str("masked_fill: U8 cannot hold 300; it holds 0 to 255",
		tarn_error_message(), "the sentence says what it holds");
	is_int(-EINVAL, tarn_masked_fill(u8, mask, tarn_int(-1)),
		"-1 is not filled into U8");
	is_int(-EINVAL, tarn_masked_put(u8, mask, tarn_int(256)),
		"256 is not put into U8");
	is_int(-EINVAL, tarn_index_put(u8, 0, index, tarn_int(256)),
		"256 is not put by its number");
	is_int(-EINVAL, tarn_put_along(u8, 0, index, tarn_int(256)),
		"256 is not put along a dimension");
	is_int(-EINVAL,
		tarn_pad(u8, 1, pads, TARN_PAD_CONSTANT, tarn_int(256), &out),
		"U8 is not padded with 256");
	ok(tensor_agrees(u8, n, before, 0), "nothing is written then");
	must(tarn_masked_fill(u8, mask, tarn_int(255)));
	ok(tensor_agrees(u8, n, filled, 0), "255 is filled into U8");
	tarn_tensor_unref(mask);
	tarn_tensor_unref(u8);
	tarn_tensor_unref(index);
}

static void test_put(void)
{
	static const double bits[] = {1, 0, 1, 1}, before[] = {0, 0, 0, 0};
	static const double list[] = {1, 2, 3, 4, 5, 6};
	static const double wanted[] = {1, 0, 2, 3}, ones[] = {9, 0, 9, 9};
	static const double nine[] = {9};
	const int64_t n = 4, two[] = {2, 3}, few = 2, one = 1;
	tarn_tensor *mask = tensor_of(TARN_BOOL, 1, &n, bits);
	tarn_tensor *to = tensor_of(TARN_F32, 1, &n, before);
	tarn_tensor *more = tensor_of(TARN_I32, 2, two, list), *turned;
	tarn_tensor *less = tensor_of(TARN_F32, 1, &few, list);
	tarn_tensor *single = tensor_of(TARN_F32, 1, &one, nine);

	must(tarn_masked_put(to, mask, tarn_of(more)));
	ok(tensor_agrees(to, n, wanted, 0),
		"of a longer list as many are put as the mask is true");
	must(tarn_tensor_transpose(more, 0, 1, &turned));
	must(tarn_masked_put(to, mask, tarn_of(turned)));
	ok(tensor_agrees(to, n, (const double[]) {1, 0, 4, 2}, 0),
		"a longer list is put in C order, of any strides");
	is_int(-EINVAL, tarn_masked_put(to, mask, tarn_of(less)),
		"a shorter list is refused");
	is_str("masked_put: the mask is true 3 times, and the tensor has 2 "
	       "elements; it must have as many, or more",
		tarn_error_message(), "the sentence has both numbers");
	must(tarn_masked_put(to, mask, tarn_of(single)));
	ok(tensor_agrees(to, n, ones, 0), "one element is put everywhere");
	tarn_tensor_unref(mask);
	tarn_tensor_unref(to);
	tarn_tensor_unref(more);
	tarn_tensor_unref(turned);
	tarn_tensor_unref(less);
	tarn_tensor_unref(single);
}

/* ---- others ------------------------------------------------------------------- */

static void test_attention(void)
{
	static const double mean[] = {2, 2};
	struct tarn_attention_options options = {
		.flags = TARN_ATTENTION_SCALED};
	const int64_t one[] = {2, 1}, keys[] = {3, 1};
	tarn_tensor *q, *k, *out = NULL;

	k = tensor_of(TARN_F32, 2, keys, (const double[]) {1, 2, 3});
	q = tensor_of(TARN_F32, 2, one, (const double[]) {5, -5});
	must(tarn_attention(q, k, k, &options, &out));
	ok(tensor_agrees(out, 2, mean, 1e-6),
		"with a scale of 0 all keys weigh the same");
	options.flags = 0;
	must(tarn_attention(q, k, k, &options, &out));
	ok(*(const float *)tarn_tensor_data(out) > 2.9f,
		"without the flag it is the usual one");
	tarn_tensor_unref(q);
	tarn_tensor_unref(k);
	tarn_tensor_unref(out);
}

static void test_products(void)
{
	static const double numbers[] = {2, -3, 0.5, 4, 0, 7};
	static const double wanted[] = {2, -3, 1, -12, 0, -84};
	const int64_t two[] = {3, 2}, n = 2;
	tarn_tensor *x = tensor_of(TARN_F32, 2, two, numbers), *out = NULL;
	tarn_tensor *big = tensor_of(
		TARN_U64, 1, &n, (const double[]) {4294967296., 8589934593.});

	must(tarn_cumulative_product(x, 0, &out));
	ok(tensor_agrees(out, 6, wanted, 0), "products of the elements so far");
	tarn_tensor_unref(out);
	out = NULL;
	must(tarn_cumulative_product(big, 0, &out));
	is_hex((uint64_t)1 << 32, *((uint64_t *)tarn_tensor_data(out) + 1),
		"products of integers wrap around");
	tarn_tensor_unref(out);
	tarn_tensor_unref(x);
	tarn_tensor_unref(big);
}

int main(void)
{
	test_next();
	test_quotients();
	test_bounds();
	test_fill();
	test_put();
	test_attention();
	test_products();
	return done(2 + 8 + 4 + 9 + 5 + 2 + 2);
}
