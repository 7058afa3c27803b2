/* SPDX-License-Identifier: MIT */
/*
 * A run of elements in C order, cut into boxes: parts of a tensor that are
 * tensors themselves. Any run has only a few: the rest of a row, the rest of a
 * plane, whole planes, and the same at the other end.
 */
#pragma once

#include <tarn/layout.h>

struct box {
	int64_t start[TARN_NDIM_MAX], extent[TARN_NDIM_MAX];
	int64_t count; /* elements */
};

/* The largest one that begins a run of count elements from element first on;
 * the run lies inside the shape. */
void box_next(const struct tarn_layout *shape, int64_t first, int64_t count,
	struct box *ret);

/* Narrows a layout of this shape to that part. */
int box_narrow(const struct tarn_layout *layout, const struct box *box,
	struct tarn_layout *ret);
