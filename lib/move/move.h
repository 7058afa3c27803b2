/* SPDX-License-Identifier: MIT */
/*
 * A move: elements of one layout become those of another, in memory. The plan
 * is a nest of loops (nest.h) and the conversion of an element
 * (number/convert.h); the executor looks at the nest once and picks: one
 * memcpy, runs, transposed tiles, or tiles that are converted.
 *
 * File executors (lib/copy/) plan once, take parts of the nest (nest_part), set
 * dst0 or src0 anew so that one side is a window in memory, and run those.
 */
#pragma once

#include "lib/move/nest.h"
#include "lib/number/convert.h"

struct move {
	struct nest nest; /* ordered and fused for memory to memory */
	struct convert convert;
	bool large; /* more than the cache holds: dst is written past it */
};

/*
 * Both layouts have the same shape (broadcast before); dtypes may differ.
 * options may be NULL; channel_dim and channels were checked. -ENOTSUP as
 * convert_plan.
 */
int move_plan(struct move *ret, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_copy_options *options);

/* Moves all elements. dst and src are the addresses of element 0 of each side
 * (of the byte that a layout counts from); they do not overlap. The nest may be
 * any: a part, in another order, with loops of one step. */
void move_run(const struct move *move, void *dst, const void *src);

/* The same with up to threads threads, which live no longer than the call; with
 * fewer where threads cannot be started. */
void move_run_threads(
	const struct move *move, void *dst, const void *src, int threads);
