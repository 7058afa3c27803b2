/* SPDX-License-Identifier: MIT */
/*
 * A nest of loops over two layouts of one shape, made as short as it can be:
 * extents of 1 are dropped, the source's larger strides come first, and what
 * is adjacent in both is one loop. All strides are in elements.
 */
#pragma once

#include <tarn/layout.h>

struct nest {
	int dtype;
	int n;
	bool empty; /* no elements: nothing to walk */
	int64_t dst0, src0;
	int64_t extent[TARN_MAX_NDIM];
	int64_t dst[TARN_MAX_NDIM];
	int64_t src[TARN_MAX_NDIM];
};

struct nest_row {
	int64_t dst, src; /* elements where it begins */
	int64_t count;
	int64_t dst_stride, src_stride;
};

/* Both layouts have the same dtype and shape. */
void nest_plan(struct nest *nest, const struct tarn_layout *dst,
	const struct tarn_layout *src);

/* Calls fn for each innermost row; stops when it returns non-zero, and returns
 * that. */
int nest_walk(const struct nest *nest,
	int (*fn)(void *arg, const struct nest_row *row), void *arg);

/* Copies from memory to memory; both addresses are of element 0. */
void nest_copy(const struct nest *nest, void *dst, const void *src);
