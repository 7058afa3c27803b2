/* SPDX-License-Identifier: MIT */
/*
 * A nest of loops over two layouts of one shape, made as short as it can be:
 * extents of 1 are dropped, the larger strides of one side come first, that
 * side is walked forward, and dimensions that are adjacent in both are one
 * loop. A third operand, the channel, is an index into the scales and biases;
 * it advances along one of the dimensions. All strides are in elements.
 */
#pragma once

#include <tarn/layout.h>

struct nest {
	int dst_dtype, src_dtype;
	int n;
	bool empty; /* no elements: nothing to walk */
	int64_t dst0, src0, channel0;
	int64_t extent[TARN_NDIM_MAX];
	int64_t dst[TARN_NDIM_MAX];
	int64_t src[TARN_NDIM_MAX];
	int64_t channel[TARN_NDIM_MAX]; /* 0 in all loops but one, at most */
};

struct nest_row {
	int64_t dst, src, channel; /* elements where it begins */
	int64_t count;
	int64_t dst_stride, src_stride, channel_stride;
};

/* The side whose larger strides come first. Files are walked in the order of
 * their bytes: by src to read one, by dst to write one. Memory goes by dst. */
enum nest_order { NEST_BY_DST, NEST_BY_SRC };

/* Both layouts have the same shape; channel_dim is a dimension of it, or -1:
 * the channel is 0 everywhere. */
void nest_plan(struct nest *nest, const struct tarn_layout *dst,
	const struct tarn_layout *src, int channel_dim, enum nest_order order);

/* Drops loops of one step, orders and fuses: for nests that were made by hand
 * or planned in the other order. */
void nest_tidy(struct nest *nest, enum nest_order order);

/* Steps first .. first + count - 1 of loop level, which becomes the outermost,
 * with all loops inside it. The outer loops are at index. ret may be nest; the
 * loops are not changed otherwise, and a loop of one step is kept. */
void nest_part(const struct nest *nest, int level, const int64_t *index,
	int64_t first, int64_t count, struct nest *ret);

/* The range that it reaches, in elements, both ends included; not for an empty
 * one. */
enum nest_side { NEST_DST, NEST_SRC };
void nest_span(const struct nest *nest, enum nest_side side, int64_t *ret_first,
	int64_t *ret_last);

/* Calls fn for each innermost row; stops when it returns non-zero, and returns
 * that. */
int nest_walk(const struct nest *nest,
	int (*fn)(void *arg, const struct nest_row *row), void *arg);
