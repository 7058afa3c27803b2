// SPDX-License-Identifier: MIT
/*
 * Views that take a part of one dimension: slice, skip, narrow, select.
 *
 * All of them move the offset to the first selected element and multiply the
 * stride. Where no element is selected, offset and stride do not change (as in
 * numpy), so that an empty view never points outside of its storage.
 */
#include "lib/layout/layout.h"
#include "lib/layout/view_index.h"

/* Python's rule for one bound: negative from the end, then clamped. */
static int64_t clamp_bound(int64_t bound, int64_t n, int64_t low, int64_t high)
{
	if (bound < 0) {
		bound += n;
		return bound < low ? low : bound;
	}
	return bound > high ? high : bound;
}

int64_t slice_count(int64_t n, int64_t start, int64_t stop, int64_t step,
	int64_t *ret_first)
{
	int64_t low = step < 0 ? -1 : 0;
	int64_t high = step < 0 ? n - 1 : n;

	if (start == TARN_NONE)
		start = step < 0 ? high : low;
	else
		start = clamp_bound(start, n, low, high);
	if (stop == TARN_NONE)
		stop = step < 0 ? low : high;
	else
		stop = clamp_bound(stop, n, low, high);
	*ret_first = start;
	if (step == 1)
		return stop > start ? stop - start : 0;
	if (step > 0)
		return stop > start ? (stop - start - 1) / step + 1 : 0;
	return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

void layout_take(struct tarn_layout *l, int dim, int64_t first, int64_t count,
	int64_t step)
{
	int64_t n = l->shape[dim];

	l->shape[dim] = count;
	if (count == 0)
		return;
	if (n > 1)
		l->offset += first * l->stride[dim];
	if (step != 1)
		l->stride[dim] = stride_times(l->stride[dim], step);
}

int tarn_layout_slice(const struct tarn_layout *layout, int dim, int64_t start,
	int64_t stop, int64_t step, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int64_t first, count;
	int r;

	r = layout_dim("slice", layout, dim, &dim);
	if (r < 0)
		return r;
	if (step == TARN_NONE)
		step = 1;
	if (step == 0)
		return tarn_fail(EINVAL,
			"slice: a step of 0 in dimension %d of shape %s never "
			"ends",
			dim, LAYOUT_TEXT(layout));
	count = slice_count(layout->shape[dim], start, stop, step, &first);
	out = view_begin(layout, ret, &spare);
	layout_take(out, dim, first, count, step);
	return view_end("slice", out, ret);
}

int tarn_layout_skip(const struct tarn_layout *layout, int dim, int64_t step,
	struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int64_t n;
	int r;

	r = layout_dim("skip", layout, dim, &dim);
	if (r < 0)
		return r;
	if (step < 1)
		return tarn_fail(EINVAL,
			"skip: step %lld of dimension %d is not positive",
			(long long)step, dim);
	n = layout->shape[dim];
	out = view_begin(layout, ret, &spare);
	layout_take(out, dim, 0, n ? (n - 1) / step + 1 : 0, step);
	return view_end("skip", out, ret);
}

int tarn_layout_narrow(const struct tarn_layout *layout, int dim, int64_t start,
	int64_t length, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int64_t n, first;
	int r;

	r = layout_dim("narrow", layout, dim, &dim);
	if (r < 0)
		return r;
	n = layout->shape[dim];
	first = start < 0 ? start + n : start;
	if (length < 0)
		return tarn_fail(EINVAL, "narrow: length %lld is negative",
			(long long)length);
	if (first < 0 || first > n || length > n - first)
		return tarn_fail(ERANGE,
			"narrow: %lld elements from %lld on are more than "
			"dimension %d of shape %s has",
			(long long)length, (long long)start, dim,
			LAYOUT_TEXT(layout));
	out = view_begin(layout, ret, &spare);
	layout_take(out, dim, first, length, 1);
	return view_end("narrow", out, ret);
}

int layout_wrap_index(const char *op, const struct tarn_layout *layout, int dim,
	int64_t index, int64_t *ret)
{
	int64_t n = layout->shape[dim];
	int64_t i = index < 0 ? index + n : index;

	if (i < 0 || i >= n)
		return tarn_fail(ERANGE,
			"%s: index %lld is out of range for dimension %d of "
			"shape %s",
			op, (long long)index, dim, LAYOUT_TEXT(layout));
	*ret = i;
	return 0;
}

int tarn_layout_select(const struct tarn_layout *layout, int dim, int64_t index,
	struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int64_t i = 0;
	int r;

	r = layout_dim("select", layout, dim, &dim);
	if (r == 0)
		r = layout_wrap_index("select", layout, dim, index, &i);
	if (r < 0)
		return r;
	out = view_begin(layout, ret, &spare);
	/* i is 0 where the stride may be anything. */
	out->offset += i * out->stride[dim];
	layout_drop_dim(out, dim);
	return view_end("select", out, ret);
}
