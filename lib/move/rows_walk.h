/* SPDX-License-Identifier: MIT */
/* The walk along rows that are picked by their numbers: shared by the loops of
 * rows.c and those that are compiled for particular CPU features. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/move/simd.h"

#define INLINE static inline __attribute__((__always_inline__))

/* What the loops use of the plan. A loop takes a copy, which stays in
 * registers: what is written to dst could be the plan itself, for all that the
 * compiler knows. */
struct walk {
	char *dst;
	const char *src;
	int64_t dst_step, src_step, reach_first, reach;
	int64_t ahead, lead;
	const int64_t *numbers;
	int64_t n, known;
};

INLINE const char *row_at(const struct walk *w, int64_t i)
{
	return w->src + w->numbers[i] * w->src_step;
}

/* Into the second cache. */
INLINE void prefetch_line(const char *p)
{
	__builtin_prefetch(p, 0, 2);
}

INLINE void prefetch_row(const struct walk *w, int64_t i)
{
	const char *p = row_at(w, i) + w->reach_first, *end = p + w->reach;

	for (p -= (uintptr_t)p % LINE; p < end; p += LINE)
		prefetch_line(p);
}

/* What is to come when row i is moved: rows of this size, of which small ones
 * are in one line, or two. */
INLINE void prefetch_from(const struct walk *w, int64_t i, int64_t size)
{
	if (i + w->lead < w->known)
		prefetch_line(row_at(w, i + w->lead) + w->reach_first);
	if (size > LINE / 4 && i + w->ahead < w->known)
		prefetch_row(w, i + w->ahead);
}

/* rows_avx512.c: moves rows of one run. False: it has not, since the CPU lacks
 * AVX-512, or a row is not of a size for it. */
bool walk_avx512(const struct walk *walk, int64_t run);
