/* SPDX-License-Identifier: MIT */
/*
 * Kernels over lists: what one thread does for the sums of bytes (word_sums.h),
 * for checking positions of elements, and for writing elements at positions. As
 * kernel_steps.h, they are C that compilers for devices take too; the host does
 * the same steps in a loop (lib/set).
 */
#pragma once

#include "lib/cuda/kernel_steps.h"
#include "lib/number/word_sums.h"

/* The last word may have fewer bytes than 8. */
ALWAYS u64 list_word(const struct cuda_list *p, u64 i)
{
	const char *at = (const char *)p->src + 8 * i;
	u64 left = p->n - 8 * i;

	if (left >= 8 && !(p->src & 7))
		return raw_load(at, 8);
	return bytes_load(at, left < 8 ? (int)left : 8);
}

/* The share of one thread of so many. */
ALWAYS struct word_sums list_sums(
	const struct cuda_list *p, u64 thread, u64 threads)
{
	struct word_sums sums = {0, 0};
	u64 words = (p->n + 7) / 8;

	UNROLLED_4
	for (u64 i = thread; i < words; i += threads)
		word_sums_step(&sums, list_word(p, i), i);
	return sums;
}

ALWAYS int64_t list_position(const struct cuda_list *p, u64 i)
{
	const char *at = (const char *)p->positions;

	return p->wide ? (int64_t)raw_load(at + 8 * i, 8)
		       : (i32)(u32)raw_load(at + 4 * i, 4);
}

/* Of positions outside of the tensor out gets one, after a 1. */
ALWAYS void list_check(const struct cuda_list *p, u64 i)
{
	int64_t position = list_position(p, i);

	if (position >= 0 && (u64)position < p->limit)
		return;
	raw_store((char *)p->out, 8, 1);
	raw_store((char *)p->out + 8, 8, (u64)position);
}

/* From a position in C order to where the element is. */
ALWAYS void list_scatter(const struct cuda_list *p, u64 i)
{
	u64 rest = (u64)list_position(p, i);
	int64_t at = 0;

	for (int d = 0; d < p->ndim; d++) {
		u64 q = rest / (u64)p->extent[d];

		at += (int64_t)(rest - q * (u64)p->extent[d]) * p->stride[d];
		rest = q;
	}
	raw_store((char *)p->dst + at, (int)p->size,
		raw_load((const char *)p->src + i * p->size, (int)p->size));
}
