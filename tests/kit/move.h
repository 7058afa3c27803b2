/* SPDX-License-Identifier: MIT */
/*
 * Random pairs of layouts, in memory of just the size that they reach, so that
 * valgrind and the sanitizers see a byte too many; and the plain loop over all
 * elements that says what a move should have done.
 */
#pragma once

#include <tarn/layout.h>

/* The numbers of a generator that is the same everywhere. */
extern uint64_t kit_move_seed;
int64_t kit_move_below(int64_t n);

struct kit_move_pair {
	struct tarn_layout dst, src;
	unsigned char *dst_bytes, *src_bytes, *wanted;
	int64_t dst_size, src_size;
};

/* At most max elements; both dtypes are given. */
void kit_move_pair_make(
	struct kit_move_pair *ret, int dst_dtype, int src_dtype, int64_t max);
/* The bytes, for layouts that are there. */
void kit_move_pair_fill(struct kit_move_pair *pair);
void kit_move_pair_free(struct kit_move_pair *pair);

int64_t kit_move_element(
	const struct tarn_layout *layout, const int64_t *index);

/* Calls fn with each index, in C order. */
void kit_move_each(const struct kit_move_pair *pair,
	void (*fn)(void *arg, const struct kit_move_pair *pair,
		const int64_t *index),
	void *arg);
