/* SPDX-License-Identifier: MIT */
/*
 * Elements by their number. The steps of a nest are taken in one order, so its
 * elements can be counted; a pack takes a range of that count, wherever it
 * begins and ends, and makes those elements adjacent, converted as the copy
 * requires. Writes to a file go through this, chunk by chunk.
 */
#pragma once

#include <stdint.h>

#include "lib/move/move.h"

struct pack {
	struct move move;             /* dst: elements one after the other */
	int64_t steps[TARN_NDIM_MAX]; /* elements in a step of each loop */
	int64_t count;                /* of all elements */
};

/* convert: the result of move_plan. */
void pack_plan(struct pack *ret, const struct nest *nest,
	const struct convert *convert);

/* Packs elements first .. first + count - 1 to dst; src is the address that the
 * nest's src counts from. */
void pack_run(const struct pack *pack, int64_t first, int64_t count, void *dst,
	const void *src);

/* Where element number i is in the source; the channel is ignored. */
int64_t pack_source(const struct pack *pack, int64_t i);
