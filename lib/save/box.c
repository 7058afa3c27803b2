/* SPDX-License-Identifier: MIT */
/*
 * The box grows from the last dimension outwards, for as long as the run is at
 * the beginning of a dimension and has all of it; of the next one it takes
 * what is left.
 */
#include "lib/save/box.h"

#include "base/checked.h"

void box_next(const struct tarn_layout *shape, int64_t first, int64_t count,
	struct box *ret)
{
	int64_t size = 1;
	int dim = shape->ndim - 1;

	for (int i = dim; i >= 0; i--) {
		ret->start[i] = first % shape->shape[i];
		ret->extent[i] = 1;
		first /= shape->shape[i];
	}
	for (; dim >= 0; dim--) {
		int64_t extent = shape->shape[dim];

		if (ret->start[dim] || size * extent > count)
			break;
		ret->extent[dim] = extent;
		size *= extent;
	}
	if (dim >= 0) {
		ret->extent[dim] =
			MIN(shape->shape[dim] - ret->start[dim], count / size);
		size *= ret->extent[dim];
	}
	ret->count = size;
}

int box_narrow(const struct tarn_layout *layout, const struct box *box,
	struct tarn_layout *ret)
{
	int r = 0;

	*ret = *layout;
	for (int i = 0; r >= 0 && i < layout->ndim; i++)
		if (box->extent[i] != layout->shape[i])
			r = tarn_layout_narrow(
				ret, i, box->start[i], box->extent[i], ret);
	return r;
}
