/* SPDX-License-Identifier: MIT */
/*
 * A file to be written, cut into chunks. All but the last end at a multiple of
 * CHUNK_PAGE, so that they go by direct I/O whatever the tensors' offsets are,
 * and no two share a page.
 */
#pragma once

#include "lib/save/plan.h"

/* An alignment that suffices for direct I/O on any disk. */
#define CHUNK_PAGE ((uint64_t)4096)

/* The approximate size: a few of these keep an engine busy. */
#define CHUNK_SIZE ((uint64_t)2 << 20)

static inline uint64_t chunk_round(uint64_t n)
{
	return (n + CHUNK_PAGE - 1) & ~(CHUNK_PAGE - 1);
}

/* The end of the chunk that contains the head. */
uint64_t first_chunk(const struct save_plan *plan);

/* The end of the chunk that begins at `at`; *ret_straight is the part whose
 * bytes it consists of, or NULL if it must be gathered. */
uint64_t next_chunk(const struct save_plan *plan, uint64_t at,
	const struct part **ret_straight);
