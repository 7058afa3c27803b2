// SPDX-License-Identifier: MIT
/*
 * Do two indices, or two layouts, reach the same element?
 *
 * An exact answer is a knapsack problem; numpy solves it with a bounded search.
 * The layouts that slicing, permuting and splitting make are simpler: sorted by
 * size, each stride steps over all that the smaller ones reach. So the answer
 * comes from that order, and from the remainders modulo the common divisor of
 * the strides; when in doubt the answer is yes, which costs a copy but never
 * damages data.
 */
#include "lib/layout/layout.h"

/* Dimensions of two and more, by the size of their strides. */
struct walk {
	int n;
	int64_t stride[TARN_NDIM_MAX]; /* absolute */
	int64_t extent[TARN_NDIM_MAX];
};

static void walk_sorted(
	const struct tarn_layout *l, int64_t unit, struct walk *w)
{
	w->n = 0;
	for (int i = 0; i < l->ndim; i++) {
		int64_t stride;
		int k;

		/* A stride along a dimension without a second element may be
		 * any number. */
		if (l->shape[i] < 2)
			continue;
		stride = l->stride[i] * unit;
		if (stride < 0)
			stride = -stride;
		for (k = w->n; k > 0 && w->stride[k - 1] > stride; k--) {
			w->stride[k] = w->stride[k - 1];
			w->extent[k] = w->extent[k - 1];
		}
		w->stride[k] = stride;
		w->extent[k] = l->shape[i];
		w->n++;
	}
}

bool tarn_layout_overlaps_itself(const struct tarn_layout *layout)
{
	struct walk w;
	int64_t reach = 0; /* of the dimensions seen, from first to last */

	if (tarn_layout_numel(layout) == 0)
		return false;
	walk_sorted(layout, 1, &w);
	for (int i = 0; i < w.n; i++) {
		if (w.stride[i] <= reach)
			return true;
		reach += (w.extent[i] - 1) * w.stride[i];
	}
	return false;
}

/* Blocks of width bits: the first one's place, and the common divisor of the
 * steps from it to the others (0: there are no others). */
struct blocks {
	int64_t first;
	int64_t end;
	int64_t width;
	int64_t divisor;
};

static int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void find_blocks(const struct tarn_layout *l, struct blocks *b)
{
	int64_t bits = tarn_dtype_bits(l->dtype);
	int64_t first, count;
	struct walk w;

	tarn_layout_bounds(l, &first, &count);
	b->first = first * bits;
	b->end = (first + count) * bits;
	b->width = bits;
	b->divisor = 0;
	walk_sorted(l, bits, &w);
	for (int i = 0; i < w.n; i++) {
		if (b->divisor == 0 && w.stride[i] <= b->width)
			b->width += (w.extent[i] - 1) * w.stride[i];
		else
			b->divisor = common_divisor(w.stride[i], b->divisor);
	}
}

bool tarn_layout_overlaps(
	const struct tarn_layout *a, const struct tarn_layout *b)
{
	struct blocks x, y;
	int64_t divisor, from_x, from_y;

	if (tarn_layout_numel(a) == 0 || tarn_layout_numel(b) == 0)
		return false;
	find_blocks(a, &x);
	find_blocks(b, &y);
	if (x.first >= y.end || y.first >= x.end)
		return false;
	divisor = common_divisor(x.divisor, y.divisor);
	if (divisor == 0)
		return true;
	/* On a circle of that length all blocks of x fall on one place, and all
	 * of y on another; compute the distance between them, in both
	 * directions. */
	from_x = (y.first % divisor - x.first % divisor) % divisor;
	if (from_x < 0)
		from_x += divisor;
	from_y = from_x ? divisor - from_x : 0;
	return from_x < x.width || from_y < y.width;
}
