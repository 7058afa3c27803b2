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

	is_int(-err, tarn_layout_parse(spec, &l),
		"\"%s\" is refused as a layout", spec);
	has_str(why, tarn_error_message(), "the error names the reason");
}

static void test_make(void)
{
	static const int64_t shape[] = {2, 3, 4};
	static const int64_t stride[] = {1, -2, 0};
	static const int64_t huge[] = {0, INT64_MAX, INT64_MAX};
	struct tarn_layout l;

	is_int(0, tarn_layout_contiguous(TARN_F32, 3, shape, &l),
		"a contiguous layout is made");
	is_int(12, l.stride[0],
		"a contiguous layout has stride 12 in dimension 0");
	is_int(4, l.stride[1],
		"a contiguous layout has stride 4 in dimension 1");
	is_int(1, l.stride[2],
		"a contiguous layout has stride 1 in dimension 2");
	is_int(0, l.stride[3], "unused strides of a layout are 0");
	is_int(24, tarn_layout_numel(&l),
		"a layout of 2 x 3 x 4 has 24 elements");
	is_int(96, tarn_layout_nbytes(&l),
		"a layout of 24 F32 elements has 96 bytes");
	ok(tarn_layout_is_contiguous(&l), "a contiguous layout is contiguous");
	ok(!tarn_layout_is_fortran(&l),
		"a C-contiguous layout is not Fortran-contiguous");
	is_int(0, tarn_layout_check(&l),
		"a contiguous layout passes its check");

	is_int(0, tarn_layout_fortran(TARN_F32, 3, shape, &l),
		"a layout in Fortran order is made");
	is_str("F32[2, 3, 4]:(1, 2, 6)", text(&l),
		"a Fortran layout has the strides of its order");
	ok(tarn_layout_is_fortran(&l),
		"a Fortran layout is Fortran-contiguous");
	ok(!tarn_layout_is_contiguous(&l),
		"a Fortran layout is not C-contiguous");

	is_int(0, tarn_layout_strided(TARN_U8, 3, shape, stride, 4, &l),
		"a layout with negative and zero strides is made");
	is_str("U8[2, 3, 4]:(1, -2, 0)+4", text(&l),
		"a layout is printed with its strides and its offset");

	is_int(0, tarn_layout_contiguous(TARN_F64, 0, NULL, &l),
		"a layout of rank 0 is made");
	is_int(1, tarn_layout_numel(&l), "a layout of rank 0 has one element");
	is_str("F64[]", text(&l),
		"a layout of rank 0 is printed with an empty shape");
	ok(tarn_layout_is_contiguous(&l), "a layout of rank 0 is contiguous");

	is_int(0, tarn_layout_contiguous(TARN_F64, 3, huge, &l),
		"an empty layout may have huge extents");
	is_int(0, tarn_layout_numel(&l),
		"an empty layout with huge extents has no elements");
	is_int(0, tarn_layout_nbytes(&l),
		"a layout without elements has no bytes");
	is_int(0, tarn_layout_check(&l),
		"a layout without elements passes its check");
	is_int(0, tarn_layout_fortran(TARN_F64, 3, huge, &l),
		"a Fortran layout without elements may have huge extents");
	is_int(0, tarn_layout_check(&l),
		"an empty Fortran layout passes its check");
}

static void test_bounds(void)
{
	struct tarn_layout l;
	int64_t first, count;

	l = from("F32[3,4]:(4,-1)+3");
	tarn_layout_bounds(&l, &first, &count);
	is_int(0, first, "the lowest element of a reversed layout is found");
	is_int(12, count, "the span of a reversed layout is counted");
	l = from("F32[2,3]:(10,2)+5");
	tarn_layout_bounds(&l, &first, &count);
	is_int(5, first,
		"the lowest element of a layout with gaps is its offset");
	is_int(15, count, "the span of a layout with gaps includes the gaps");
	l = from("F32[2,0]+100");
	tarn_layout_bounds(&l, &first, &count);
	is_int(0, count, "a layout without elements spans nothing");
	l = from("U8[]+7");
	tarn_layout_bounds(&l, &first, &count);
	is_int(7, first, "the lowest element of rank 0 is its offset");
	is_int(1, count, "a layout of rank 0 spans one element");
}

static void test_index(void)
{
	static const int64_t shape[] = {2, 3, 4};
	struct tarn_layout l = from("F32[2,3,4]:(12,4,1)+100");
	int64_t index[3] = {1, -1, 2};
	int64_t n = -7;

	is_int(0, tarn_layout_element(&l, index, &n),
		"an index is turned into an element's number");
	is_int(100 + 12 + 8 + 2, n, "an element is where the strides place it");
	index[1] = 3;
	n = -7;
	is_int(-ERANGE, tarn_layout_element(&l, index, &n),
		"an index past the end of a dimension is refused");
	is_str("element: index 3 is out of range for dimension 1 of shape "
	       "[2, 3, 4]",
		tarn_error_message(),
		"the error names the index and its dimension");
	is_int(-7, n, "a refused index does not change the output");

	for (int order = 0; order < 2; order++) {
		bool same = true;

		for (int64_t i = 0; i < 24; i++) {
			same &= tarn_layout_unravel_index(
					3, shape, i, order, index) == 0;
			same &= tarn_layout_ravel_index(
					3, shape, index, order, &n) == 0 &&
				n == i;
		}
		ok(same, "ravel undoes unravel in order %d", order);
	}
	must(tarn_layout_unravel_index(3, shape, 1, TARN_ORDER_C, index));
	is_int(1, index[2], "C order moves the last index first");
	must(tarn_layout_unravel_index(3, shape, 1, TARN_ORDER_F, index));
	is_int(1, index[0], "Fortran order moves the first");
	is_int(-ERANGE,
		tarn_layout_unravel_index(3, shape, 24, TARN_ORDER_C, index),
		"a position past the last element is refused");
	is_int(0, tarn_layout_ravel_index(0, NULL, NULL, TARN_ORDER_C, &n),
		"the index of rank 0 has no numbers");
	is_int(0, n, "the only element of rank 0 is at position 0");
}

static void test_parse(void)
{
	struct tarn_layout l = from(" f4 [ 2 , 3 ] : ( 1 , 2 ) +5 ");
	char small[8];

	is_str("F32[2, 3]:(1, 2)+5", text(&l),
		"a layout with blanks and an alias is read");
	is_int(18, tarn_layout_format(&l, small, sizeof(small)),
		"formatting to a small buffer returns the length needed");
	is_str("F32[2, ", small,
		"formatting fills a small buffer with what fits");
	is_int(18, tarn_layout_format(&l, NULL, 0),
		"formatting without a buffer returns the length needed");

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
	is_int(12, from("F32[1,1,1,1,1,1,1,1,1,1,1,1]").ndim,
		"a layout of rank 12 is read");
	is_int(0,
		tarn_layout_numel(
			&(struct tarn_layout) {.dtype = TARN_U8, .ndim = 1}),
		"a layout of zeros is refused by its check");
}

static int64_t nbytes(const char *spec)
{
	struct tarn_layout l = from(spec);

	return tarn_layout_nbytes(&l);
}

static void test_packs(void)
{
	is_int(4, nbytes("F4[2,4]"), "two elements of F4 share a byte");
	is_int(6, nbytes("F6_E2M3[8]"),
		"four elements of F6 share three bytes");
	is_int(0, nbytes("F4[3,0]"), "an empty layout of F4 passes its check");
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
	is_int(-EINVAL, tarn_layout_check(&l),
		"a layout with an unused entry that is not 0 is refused");
	has_str("entry 5", tarn_error_message(),
		"the error contains 'entry 5'");
	l = from("F32[2,3]");
	l.reserved[3] = 1;
	is_int(-EINVAL, tarn_layout_check(&l),
		"a layout with reserved bytes that are set is refused");
	l = from("F32[2,3]");
	l.ndim = 13;
	is_int(-EINVAL, tarn_layout_check(&l),
		"a layout of rank 13 is refused");
	l = from("F32[2,3]");
	l.dtype = 99;
	is_int(-EINVAL, tarn_layout_check(&l),
		"a layout of dtype 99 is refused");
	l = from("F32[2,3]");
	l.shape[0] = INT64_MAX;
	is_int(-EOVERFLOW, tarn_layout_check(&l),
		"a layout of too many elements is refused");
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
