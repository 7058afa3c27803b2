/* SPDX-License-Identifier: MIT */
/*
 * Random pairs of layouts, in memory of just the size that they reach, so that
 * valgrind and the sanitizers see a byte too many; and the plain loop over all
 * elements that says what a move should have done.
 */
#pragma once

#include <tarn/layout.h>

/* The numbers of a generator that is the same everywhere. */
extern uint64_t kit_seed;
int64_t kit_below(int64_t n);

struct kit_pair {
	struct tarn_layout dst, src;
	unsigned char *dst_bytes, *src_bytes, *wanted;
	int64_t dst_size, src_size;
};

/* At most max elements; both dtypes are given. */
void kit_pair_make(struct kit_pair *ret, int dst_dtype, int src_dtype,
	int64_t max);
/* The bytes, for layouts that are there. */
void kit_pair_fill(struct kit_pair *pair);
void kit_pair_free(struct kit_pair *pair);

int64_t kit_element(const struct tarn_layout *layout, const int64_t *index);

/* Calls fn with each index, in C order. */
void kit_each(const struct kit_pair *pair,
	void (*fn)(void *arg, const struct kit_pair *pair,
		const int64_t *index),
	void *arg);
