// SPDX-License-Identifier: MIT
/*
 * Layouts: queries.
 *
 * Nothing here can overflow: a valid layout's sizes and reach were checked when
 * it was made (lib/layout/layout.c). Only indices come from outside.
 */
#include "lib/layout/layout.h"

int64_t tarn_layout_numel(const struct tarn_layout *layout)
{
	int64_t n = 1;

	/* An empty tensor may have other extents whose product overflows. */
	for (int i = 0; i < layout->ndim; i++)
		if (layout->shape[i] == 0)
			return 0;
	for (int i = 0; i < layout->ndim; i++)
		n *= layout->shape[i];
	return n;
}

int64_t tarn_layout_nbytes(const struct tarn_layout *layout)
{
	int64_t bits =
		tarn_layout_numel(layout) * tarn_dtype_bits(layout->dtype);

	return bits / 8 + (bits % 8 != 0);
}

static bool walks_adjacent(const struct tarn_layout *l, int begin, int step)
{
	int64_t wanted = 1;

	if (tarn_layout_numel(l) == 0)
		return true;
	for (int i = begin; i >= 0 && i < l->ndim; i += step) {
		if (l->shape[i] == 1)
			continue;
		if (l->stride[i] != wanted)
			return false;
		wanted *= l->shape[i];
	}
	return true;
}

bool tarn_layout_is_contiguous(const struct tarn_layout *layout)
{
	return walks_adjacent(layout, layout->ndim - 1, -1);
}

bool tarn_layout_is_fortran(const struct tarn_layout *layout)
{
	return walks_adjacent(layout, 0, 1);
}

bool tarn_layout_equal(const struct tarn_layout *a, const struct tarn_layout *b)
{
	size_t size = a->ndim * sizeof(a->shape[0]);

	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       a->offset == b->offset &&
	       memcmp(a->shape, b->shape, size) == 0 &&
	       memcmp(a->stride, b->stride, size) == 0;
}

void tarn_layout_bounds(const struct tarn_layout *layout, int64_t *ret_first,
	int64_t *ret_count)
{
	int64_t first = layout->offset;
	int64_t last = layout->offset;

	if (tarn_layout_numel(layout) == 0) {
		*ret_first = 0;
		*ret_count = 0;
		return;
	}
	for (int i = 0; i < layout->ndim; i++) {
		int64_t span;

		if (layout->shape[i] < 2)
			continue;
		span = (layout->shape[i] - 1) * layout->stride[i];
		if (span < 0)
			first += span;
		else
			last += span;
	}
	*ret_first = first;
	*ret_count = last - first + 1;
}

/* A negative index counts from the end. */
static int wrap_index(const char *op, int ndim, const int64_t *shape, int d,
	int64_t index, int64_t *ret)
{
	int64_t i = index < 0 ? index + shape[d] : index;

	if (i < 0 || i >= shape[d])
		return tarn_fail(ERANGE,
			"%s: index %lld is out of range for dimension %d of "
			"shape %s",
			op, (long long)index, d, SHAPE_TEXT(ndim, shape));
	*ret = i;
	return 0;
}

int tarn_layout_element(const struct tarn_layout *layout, const int64_t *index,
	int64_t *ret_element)
{
	int64_t element = layout->offset;

	for (int d = 0; d < layout->ndim; d++) {
		int64_t i = 0;
		int r = wrap_index("element", layout->ndim, layout->shape, d,
			index[d], &i);

		if (r < 0)
			return r;
		/* i is 0 where the stride may be anything. */
		element += i * layout->stride[d];
	}
	*ret_element = element;
	return 0;
}

int tarn_layout_ravel_index(int ndim, const int64_t *shape,
	const int64_t *index, enum tarn_order order, int64_t *ret_flat)
{
	int64_t numel, flat = 0;
	int r;

	r = layout_check_ndim("ravel_index", ndim);
	if (r < 0)
		return r;
	r = layout_count("ravel_index", TARN_U8, ndim, shape, &numel);
	if (r < 0)
		return r;
	for (int k = 0; k < ndim; k++) {
		int d = order == TARN_ORDER_F ? ndim - 1 - k : k;
		int64_t i = 0;

		r = wrap_index("ravel_index", ndim, shape, d, index[d], &i);
		if (r < 0)
			return r;
		/* Before an empty dimension is reached, this may wrap. */
		flat = (int64_t)((uint64_t)flat * (uint64_t)shape[d] +
				 (uint64_t)i);
	}
	*ret_flat = flat;
	return 0;
}

int tarn_layout_unravel_index(int ndim, const int64_t *shape, int64_t flat,
	enum tarn_order order, int64_t *ret_index)
{
	int64_t numel;
	int r;

	r = layout_check_ndim("unravel_index", ndim);
	if (r < 0)
		return r;
	r = layout_count("unravel_index", TARN_U8, ndim, shape, &numel);
	if (r < 0)
		return r;
	if (flat < 0 || flat >= numel)
		return tarn_fail(ERANGE,
			"unravel_index: position %lld is outside of the %lld "
			"elements of shape %s",
			(long long)flat, (long long)numel,
			SHAPE_TEXT(ndim, shape));
	for (int k = 0; k < ndim; k++) {
		int d = order == TARN_ORDER_F ? k : ndim - 1 - k;

		ret_index[d] = flat % shape[d];
		flat /= shape[d];
	}
	return 0;
}
