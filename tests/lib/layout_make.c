// SPDX-License-Identifier: MIT
/*
 * Making layouts and asking about them: strides, sizes, bounds, indices; what
 * an empty tensor and sizes near 2^63 do; which sentence an error leaves.
 */
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/layout.h>

static const char *text(const struct tarn_layout *l)
{
	static char buf[600];

	tarn_layout_format(l, buf, sizeof(buf));
	return buf;
}

static struct tarn_layout from(const char *spec)
{
	struct tarn_layout l;

	if (tarn_layout_parse(spec, &l) < 0)
		bail("%s: %s", spec, tarn_error_message());
	return l;
}

static void fails(int err, const char *spec, const char *why)
{
	struct tarn_layout l;

	is_int(-err, tarn_layout_parse(spec, &l), "\"%s\" is refused", spec);
	has_str(why, tarn_error_message(), "the error names the reason");
}

static void test_make(void)
{
	static const int64_t shape[] = {2, 3, 4};
	static const int64_t stride[] = {1, -2, 0};
	static const int64_t huge[] = {0, INT64_MAX, INT64_MAX};
	struct tarn_layout l;

	is_int(0, tarn_layout_contiguous(TARN_F32, 3, shape, &l), "C order");
	is_int(12, l.stride[0], "stride 0");
	is_int(4, l.stride[1], "stride 1");
	is_int(1, l.stride[2], "stride 2");
	is_int(0, l.stride[3], "unused entries are 0");
	is_int(24, tarn_layout_numel(&l), "numel");
	is_int(96, tarn_layout_nbytes(&l), "nbytes");
	ok(tarn_layout_is_contiguous(&l), "contiguous");
	ok(!tarn_layout_is_fortran(&l),
		"a C-contiguous layout is not Fortran-contiguous");
	is_int(0, tarn_layout_check(&l), "it passes its own check");

	is_int(0, tarn_layout_fortran(TARN_F32, 3, shape, &l), "F order");
	is_str("F32[2, 3, 4]:(1, 2, 6)", text(&l), "its strides");
	ok(tarn_layout_is_fortran(&l), "fortran");
	ok(!tarn_layout_is_contiguous(&l),
		"a Fortran layout is not C-contiguous");

	is_int(0, tarn_layout_strided(TARN_U8, 3, shape, stride, 4, &l),
		"any strides");
	is_str("U8[2, 3, 4]:(1, -2, 0)+4", text(&l), "printed");

	is_int(0, tarn_layout_contiguous(TARN_F64, 0, NULL, &l), "rank 0");
	is_int(1, tarn_layout_numel(&l), "has one element");
	is_str("F64[]", text(&l), "printed");
	ok(tarn_layout_is_contiguous(&l), "contiguous");

	is_int(0, tarn_layout_contiguous(TARN_F64, 3, huge, &l),
		"an empty tensor with huge extents");
	is_int(0, tarn_layout_numel(&l), "has no elements");
	is_int(0, tarn_layout_nbytes(&l),
		"a layout without elements has no bytes");
	is_int(0, tarn_layout_check(&l),
		"a layout without elements passes its check");
	is_int(0, tarn_layout_fortran(TARN_F64, 3, huge, &l),
		"a Fortran layout without elements may have huge extents");
	is_int(0, tarn_layout_check(&l), "and passes its check");
}

static void test_bounds(void)
{
	struct tarn_layout l;
	int64_t first, count;

	l = from("F32[3,4]:(4,-1)+3");
	tarn_layout_bounds(&l, &first, &count);
	is_int(0, first, "first of a reversed one");
	is_int(12, count, "count of a reversed one");
	l = from("F32[2,3]:(10,2)+5");
	tarn_layout_bounds(&l, &first, &count);
	is_int(5, first, "first with gaps");
	is_int(15, count, "count with gaps");
	l = from("F32[2,0]+100");
	tarn_layout_bounds(&l, &first, &count);
	is_int(0, count, "nothing is reached without elements");
	l = from("U8[]+7");
	tarn_layout_bounds(&l, &first, &count);
	is_int(7, first, "rank 0");
	is_int(1, count, "rank 0 reaches one");
}

static void test_index(void)
{
	static const int64_t shape[] = {2, 3, 4};
	struct tarn_layout l = from("F32[2,3,4]:(12,4,1)+100");
	int64_t index[3] = {1, -1, 2};
	int64_t n = -7;

	is_int(0, tarn_layout_element(&l, index, &n), "element");
	is_int(100 + 12 + 8 + 2, n, "is where the strides say");
	index[1] = 3;
	n = -7;
	is_int(-ERANGE, tarn_layout_element(&l, index, &n), "index too large");
	is_str("element: index 3 is out of range for dimension 1 of shape "
	       "[2, 3, 4]",
		tarn_error_message(), "says which");
	is_int(-7, n, "the output is untouched");

	for (int order = 0; order < 2; order++) {
		bool same = true;

		for (int64_t i = 0; i < 24; i++) {
			same &= tarn_unravel_index(3, shape, i, order, index) ==
				0;
			same &= tarn_ravel_index(3, shape, index, order, &n) ==
					0 &&
				n == i;
		}
		ok(same, "ravel undoes unravel in order %d", order);
	}
	must(tarn_unravel_index(3, shape, 1, TARN_ORDER_C, index));
	is_int(1, index[2], "C order moves the last index first");
	must(tarn_unravel_index(3, shape, 1, TARN_ORDER_F, index));
	is_int(1, index[0], "Fortran order moves the first");
	is_int(-ERANGE, tarn_unravel_index(3, shape, 24, TARN_ORDER_C, index),
		"a position past the end");
	is_int(0, tarn_ravel_index(0, NULL, NULL, TARN_ORDER_C, &n),
		"rank 0 has one index");
	is_int(0, n, "which is 0");
}

static void test_parse(void)
{
	struct tarn_layout l = from(" f4 [ 2 , 3 ] : ( 1 , 2 ) +5 ");
	char small[8];

	is_str("F32[2, 3]:(1, 2)+5", text(&l), "blanks and an alias");
	is_int(18, tarn_layout_format(&l, small, sizeof(small)),
		"a small buffer: the length wanted");
	is_str("F32[2, ", small, "and what fits");
	is_int(18, tarn_layout_format(&l, NULL, 0), "no buffer at all");

	fails(EINVAL, "F32", "ends where '['");
	fails(EINVAL, "F32[2,]", "column 7: expected a number");
	fails(EINVAL, "F32[2 3]", "column 7");
	fails(EINVAL, "F32[2]x", "column 7: expected the end");
	fails(EINVAL, "F32[2,3]:(1)", "2 sizes and 1 strides");
	fails(EINVAL, "F33[2]", "\"F33\"");
	fails(EINVAL, "F32[-1]", "size -1 of dimension 0 is negative");
	fails(EINVAL, "F32[1,1,1,1,1,1,1,1,1,1,1,1,1]", "more than 12");
	fails(EOVERFLOW, "F32[99999999999999999999]", "fit in 64 bits");
	fails(EOVERFLOW, "U8[9223372036854775807]", "2^63");
	fails(EOVERFLOW, "F32[4294967296,4294967296]", "2^63");
	fails(EOVERFLOW, "F32[2]:(9223372036854775807)+9", "reaches past");
	fails(EOVERFLOW, "F32[2]:(-9223372036854775807)-9", "reaches past");
	is_int(12, from("F32[1,1,1,1,1,1,1,1,1,1,1,1]").ndim, "rank 12");
	is_int(0,
		tarn_layout_numel(
			&(struct tarn_layout) {.dtype = TARN_U8, .ndim = 1}),
		"a zeroed shape is empty");
}

static int64_t nbytes(const char *spec)
{
	struct tarn_layout l = from(spec);

	return tarn_layout_nbytes(&l);
}

static void test_packs(void)
{
	is_int(4, nbytes("F4[2,4]"), "two 4-bit elements share a byte");
	is_int(6, nbytes("F6_E2M3[8]"), "four 6-bit elements share three");
	is_int(0, nbytes("F4[3,0]"), "an empty one splits nothing");
	fails(ENOTSUP, "F4[3]", "F4 needs stride 1 and a multiple of 2");
	fails(ENOTSUP, "F4[4]+1", "offset 1 would begin inside a byte");
	fails(ENOTSUP, "F6_E3M2[2,4]:(6,1)", "stride 6 of dimension 0");
	fails(ENOTSUP, "F4[2,2]:(1,2)", "stride 2");
	fails(ENOTSUP, "F4[]", "not a whole byte");
}

static void test_check(void)
{
	struct tarn_layout l = from("F32[2,3]");

	l.shape[5] = 1;
	is_int(-EINVAL, tarn_layout_check(&l), "an unused entry is not 0");
	has_str("entry 5", tarn_error_message(),
		"the error contains 'entry 5'");
	l = from("F32[2,3]");
	l.reserved[3] = 1;
	is_int(-EINVAL, tarn_layout_check(&l), "reserved bytes");
	l = from("F32[2,3]");
	l.ndim = 13;
	is_int(-EINVAL, tarn_layout_check(&l), "rank 13");
	l = from("F32[2,3]");
	l.dtype = 99;
	is_int(-EINVAL, tarn_layout_check(&l), "dtype 99");
	l = from("F32[2,3]");
	l.shape[0] = INT64_MAX;
	is_int(-EOVERFLOW, tarn_layout_check(&l), "too many elements");
}

int main(void)
{
	test_make();
	test_bounds();
	test_index();
	test_parse();
	test_packs();
	test_check();
	return done(96);
}
