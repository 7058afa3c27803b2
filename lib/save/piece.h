/* SPDX-License-Identifier: MIT */
/*
 * A file to be written, cut into pieces. All but the last end at a multiple of
 * PIECE_PAGE, so that they go by direct I/O whatever the tensors' offsets are,
 * and no two share a page.
 */
#pragma once

#include "lib/save/plan.h"

/* What direct I/O on any disk is content with. */
#define PIECE_PAGE ((uint64_t)4096)

/* About that large: what a few of make an engine busy. */
#define PIECE_SIZE ((uint64_t)2 << 20)

static inline uint64_t piece_round(uint64_t n)
{
	return (n + PIECE_PAGE - 1) & ~(PIECE_PAGE - 1);
}

/* Where the piece ends that has the head. */
uint64_t first_piece(const struct save_plan *plan);

/* Where the piece ends that begins at `at`; *ret_straight is the part that it
 * is bytes of, or NULL when it has to be gathered. */
uint64_t next_piece(const struct save_plan *plan, uint64_t at,
	const struct part **ret_straight);
