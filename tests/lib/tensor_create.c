// SPDX-License-Identifier: MIT
/* New tensors: zeros, ones, full, arange, and nested values with the mistakes
 * that people make in them. */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static double sum(tarn_tensor *t)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t index[TARN_NDIM_MAX];
	double total = 0, d = 0;

	for (int64_t i = 0; i < tarn_layout_numel(l); i++) {
		must(tarn_layout_unravel_index(
			l->ndim, l->shape, i, TARN_ORDER_C, index));
		must(tarn_tensor_get_f64(t, index, &d));
		total += d;
	}
	return total;
}

static void filled(void)
{
	const int64_t shape[] = {3, 4};

	for (int dtype = 1; dtype <= TARN_DTYPE_MAX; dtype++) {
		tarn_tensor *t = NULL;
		const char *name = tarn_dtype_name(dtype);

		if (dtype == TARN_F8_E8M0) {
			is_int(-ERANGE, tarn_tensor_zeros(dtype, 2, shape, &t),
				"zeros of E8M0 are refused, since it has no "
				"zero");
		} else {
			is_int(0, tarn_tensor_zeros(dtype, 2, shape, &t),
				"zeros are made of %s", name);
			ok(sum(t) == 0, "a tensor of zeros has the sum 0");
		}
		t = tarn_tensor_unref(t);
		is_int(0, tarn_tensor_ones(dtype, 2, shape, &t),
			"ones are made of %s", name);
		ok(sum(t) == 12, "a tensor of ones has the sum 12");
		t = tarn_tensor_unref(t);
		is_int(0, tarn_tensor_full(dtype, 2, shape, 2, &t),
			"twos are made of %s", name);
		ok(sum(t) == (dtype == TARN_BOOL ? 12 : 24),
			"a tensor of twos has the sum that its dtype can hold");
		tarn_tensor_unref(t);
	}
}

/* Large ones get the memory of those that are gone, and zeros do not. */
static void any_values(void)
{
	int64_t shape[] = {3, 1 << 20};
	tarn_tensor *t = NULL, *other = NULL;
	unsigned char *data;
	bool zero = true;

	is_int(0, tarn_tensor_empty(TARN_U8, 2, shape, &t),
		"a tensor of any values is made");
	ok(tarn_layout_is_contiguous(tarn_tensor_layout(t)),
		"it is in C order");
	is_int(0, (intptr_t)tarn_tensor_data(t) % 64,
		"it is aligned to 64 bytes");
	is_int(0, tarn_tensor_empty(TARN_U8, 2, shape, &other),
		"a second one is made");
	ok(tarn_tensor_data(t) != tarn_tensor_data(other),
		"two that are alive have memory of their own");
	tarn_tensor_unref(other);
	memset(tarn_tensor_data(t), 7, 3 << 20);
	tarn_tensor_unref(t);
	is_int(0, tarn_tensor_zeros(TARN_U8, 2, shape, &t),
		"zeros of the same size are made");
	data = tarn_tensor_data(t);
	for (int64_t i = 0; i < 3 << 20; i++)
		zero = zero && !data[i];
	ok(zero, "zeros after one of any values are zero");
	tarn_tensor_unref(t);
	t = NULL;
	is_int(-ENOMEM,
		tarn_tensor_empty(TARN_U8, 1, (int64_t[]) {1ll << 59}, &t),
		"one of 2^59 bytes is refused");
	ok(!t, "no tensor was made of what was refused");
}

static void refused_sizes(void)
{
	tarn_tensor *t = NULL;

	ok(tarn_tensor_zeros(TARN_F32, 2, (int64_t[]) {INT64_MAX, 4}, &t) < 0,
		"2^65 elements are refused");
	is_int(-ENOMEM,
		tarn_tensor_zeros(TARN_U8, 1, (int64_t[]) {1ll << 59}, &t),
		"a tensor of 2^59 bytes is refused");
	ok(tarn_tensor_zeros(TARN_F32, 1, (int64_t[]) {-1}, &t) < 0,
		"a negative extent is refused");
	ok(tarn_tensor_zeros(99, 0, NULL, &t) < 0,
		"a tensor of dtype 99 is refused");
	is_int(-ERANGE, tarn_tensor_full(TARN_U8, 0, NULL, 256, &t),
		"a U8 tensor full of 256 is refused");
	ok(!t, "no refused tensor was made");
}

static void ranges(void)
{
	tarn_tensor *t = NULL;
	double d = 0;

	is_int(0, tarn_tensor_arange(TARN_I32, 0, 5, 1, &t),
		"a range from 0 to 5 is made");
	is_int(5, tarn_tensor_layout(t)->shape[0],
		"a range from 0 to 5 has 5 elements");
	ok(sum(t) == 10, "a range from 0 to 5 has the sum 10");
	t = tarn_tensor_unref(t);
	must(tarn_tensor_arange(TARN_F64, 1, 0, -0.25, &t));
	is_int(4, tarn_tensor_layout(t)->shape[0],
		"a range downwards by quarters has 4 elements");
	must(tarn_tensor_get_f64(t, (int64_t[]) {3}, &d));
	ok(d == 0.25, "a range stops before its end");
	t = tarn_tensor_unref(t);
	must(tarn_tensor_arange(TARN_F32, 3, 1, 1, &t));
	is_int(0, tarn_tensor_layout(t)->shape[0],
		"a range in the wrong direction is empty");
	t = tarn_tensor_unref(t);
	is_int(-EINVAL, tarn_tensor_arange(TARN_F32, 0, 1, 0, &t),
		"a range with step 0 is refused");
	is_int(-EINVAL, tarn_tensor_arange(TARN_F32, 0, NAN, 1, &t),
		"arange to NaN is refused");
	is_int(-EOVERFLOW, tarn_tensor_arange(TARN_F32, 0, 1e300, 1, &t),
		"arange to 1e300 overflows");
	is_int(-ERANGE, tarn_tensor_arange(TARN_U8, 250, 260, 1, &t),
		"a range past the limits of its dtype is refused");
	ok(!t, "no refused range was made");
}

static void parsed(int dtype, const char *text, int ndim, const int64_t *shape,
	double total)
{
	tarn_tensor *t = NULL;
	double seen;

	if (!is_int(0, tarn_tensor_parse(dtype, text, &t),
		    "text is read as a tensor: %s %s", tarn_dtype_name(dtype),
		    text)) {
		diag("%s", tarn_error_message());
		return;
	}
	is_int(ndim, tarn_tensor_layout(t)->ndim,
		"the tensor has the rank of the list");
	is_mem(shape, tarn_tensor_layout(t)->shape, 8 * (size_t)ndim,
		"the tensor has the shape of the list");
	seen = sum(t);
	ok(isnan(total) ? isnan(seen) : seen == total,
		"the elements have the sum of the list");
	tarn_tensor_unref(t);
}

static void nested(void)
{
	parsed(TARN_F32, "[[1, 2, 3], [4, 5, 6]]", 2, (int64_t[]) {2, 3}, 21);
	parsed(TARN_I64, " 7 ", 0, NULL, 7);
	parsed(TARN_F64, "[]", 1, (int64_t[]) {0}, 0);
	parsed(TARN_F64, "[[], [ ]]", 2, (int64_t[]) {2, 0}, 0);
	parsed(TARN_U8, "[[[1],[2]],\t[[3],[4]]]", 3, (int64_t[]) {2, 2, 1},
		10);
	parsed(TARN_BOOL, "[true, False, 1, 0]", 1, (int64_t[]) {4}, 2);
	parsed(TARN_I32, "[1e3, -2.0, +5]", 1, (int64_t[]) {3}, 1003);
	parsed(TARN_F64, "[-inf, inf]", 1, (int64_t[]) {2}, NAN);
	parsed(TARN_F4, "[0.5, 6]", 1, (int64_t[]) {2}, 6.5);
	parsed(TARN_C64, "[1+2j, 3j, -4]", 1, (int64_t[]) {3}, -3);
}

static void whole(void)
{
	tarn_tensor *t = NULL;
	uint64_t u = 0;
	int64_t i = 0;

	must(tarn_tensor_parse(TARN_U64, "18446744073709551615", &t));
	memcpy(&u, tarn_tensor_data(t), 8);
	ok(u == UINT64_MAX, "the largest U64 is read whole");
	t = tarn_tensor_unref(t);
	must(tarn_tensor_parse(TARN_I64, "-9223372036854775807", &t));
	must(tarn_tensor_get_i64(t, NULL, &i));
	is_int(-INT64_MAX, i, "a long I64 is read whole");
	tarn_tensor_unref(t);
}

static void mistakes(void)
{
	static const struct {
		int dtype;
		const char *text;
		int wanted;
		const char *part;
	} cases[] = {
		{TARN_F32, "[[1, 2], [3]]", -EINVAL, "1 item,"},
		{TARN_F32, "[[1], [2, 3]]", -EINVAL, "2 items"},
		{TARN_F32, "[1, [2]]", -EINVAL, "2 lists deep"},
		{TARN_F32, "[[1], 2]", -EINVAL, "1 lists deep"},
		{TARN_F32, "[[], 2]", -EINVAL, "1 lists deep"},
		{TARN_F32, "[[], [[]]]", -EINVAL, "3 lists deep"},
		{TARN_F32, "[1, 2", -EINVAL, "missing at the end"},
		{TARN_F32, "[1 2]", -EINVAL, "column 4"},
		{TARN_F32, "[1, 2]]", -EINVAL, "follows the end"},
		{TARN_F32, "[1,, 2]", -EINVAL, "missing at column 4"},
		{TARN_F32, "[1, ]", -EINVAL, "missing at column 5"},
		{TARN_F32, "", -EINVAL, "missing at column 1"},
		{TARN_F32, "[1, x]", -EINVAL, "\"x\" at column 5"},
		{TARN_F32, "[1.5.5]", -EINVAL, "1.5.5"},
		{TARN_I32, "[1.5]", -EINVAL, "1.5"},
		{TARN_I32, "[nan]", -EINVAL, "nan"},
		{TARN_U8, "[256]", -ERANGE, "256"},
		{TARN_U8, "[-1]", -ERANGE, "-1"},
		{TARN_U64, "[18446744073709551616]", -ERANGE, "U64"},
		{TARN_C64, "[1+2]", -EINVAL, "1+2"},
		{TARN_F4, "[1, 2, 3]", -ENOTSUP, "F4"},
		{TARN_F32, "[[[[[[[[[[[[[1]]]]]]]]]]]]]", -EINVAL, "12"},
		{99, "1", -EINVAL, "99"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		tarn_tensor *t = NULL;

		is_int(cases[i].wanted,
			tarn_tensor_parse(cases[i].dtype, cases[i].text, &t),
			"text is refused as a tensor: %s", cases[i].text);
		has_str(cases[i].part, tarn_error_message(),
			"the error says why the text is refused");
		ok(!t, "a refused list makes no tensor");
	}
}

static void decimal_comma(void)
{
	if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) {
		skip(4, "no locale with a decimal comma here");
		return;
	}
	parsed(TARN_F64, "[0.5, 0.25]", 1, (int64_t[]) {2}, 0.75);
	setlocale(LC_NUMERIC, "C");
}

int main(void)
{
	filled();
	any_values();
	refused_sizes();
	ranges();
	nested();
	whole();
	mistakes();
	decimal_comma();
	return done(272);
}
