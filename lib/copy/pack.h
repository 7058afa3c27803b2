/* SPDX-License-Identifier: MIT */
/*
 * Elements by their number. The steps of a nest are taken in one order, so its
 * elements can be counted; a pack takes a range of that count, wherever it
 * begins and ends, and lays those elements side by side, converted as the copy
 * wants it. What is written to a file goes through this, piece by piece.
 */
#pragma once

#include <stdint.h>

#include "lib/move/move.h"

struct pack {
	struct move move; /* dst: one element behind the other */
	int64_t steps[TARN_MAX_NDIM]; /* elements in a step of each loop */
	int64_t count;		      /* of all */
};

/* convert: as move_plan has planned it. */
void pack_plan(struct pack *ret, const struct nest *nest,
	const struct convert *convert);

/* Elements first .. first + count - 1 of src, which is the address that the
 * nest's src counts from, to dst. */
void pack_run(const struct pack *pack, int64_t first, int64_t count, void *dst,
	const void *src);

/* Where element number i is in the source; the channel is not asked for. */
int64_t pack_source(const struct pack *pack, int64_t i);
