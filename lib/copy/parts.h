/* SPDX-License-Identifier: MIT */
/*
 * A copy in parts, each of which goes through a window in memory. Parts follow
 * the bytes of one side, front to back, and are cut along its dimensions.
 *
 *	parts_begin(&parts, &dst, &src, &dst, -1, WINDOW);
 *	while (parts_next(&parts, &part))
 *		...
 */
#pragma once

#include <stdbool.h>

#include <tarn/layout.h>

struct parts {
	struct tarn_layout dst, src;  /* of one shape */
	int channel_dim;              /* -1: none */
	int order[TARN_NDIM_MAX];     /* dimensions, by strides */
	int level;                    /* in order: the dimension that is cut */
	int64_t steps;                /* of it in a part */
	int64_t index[TARN_NDIM_MAX]; /* by order; up to level */
	bool ended;
	uint64_t elements; /* in a part, at most */
};

struct part {
	struct tarn_layout dst, src;
	int64_t channel; /* of its first step */
};

/* by: dst or src, whose bytes the parts follow; window: the bytes that a part
 * has at most, in either's dtype. */
void parts_begin(struct parts *parts, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_layout *by,
	int channel_dim, uint64_t window);
/* False: there is none, or none left. */
bool parts_next(struct parts *parts, struct part *ret);

/* The layout of a part in its window: elements adjacent, in the order, and in
 * the directions, that they have in that side; only once, where they are
 * broadcast. */
void part_lay_out(const struct tarn_layout *side, struct tarn_layout *ret);
/* Gives a layout of the same shape one step where side is broadcast. */
void part_shrink(struct tarn_layout *layout, const struct tarn_layout *side);
/* The options for moving the part, given those of the whole copy. */
struct tarn_copy_options;
void part_options(const struct part *part, int channel_dim,
	struct tarn_copy_options *options);
