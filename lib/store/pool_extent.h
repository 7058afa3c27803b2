/* SPDX-License-Identifier: MIT */
/* Which bytes of a pool are mapped here: ranges, sorted and disjoint. At most
 * one for each mapped segment. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pool_extent {
	uint64_t offset; /* in the pool */
	uint64_t end;
};

struct pool_extents {
	uint32_t n, room;
	struct pool_extent *v;
};

/* Makes room for this many in all: then adding and removing cannot fail. */
int extents_reserve(struct pool_extents *extents, uint32_t n);
void extents_add(struct pool_extents *extents, uint64_t offset, uint64_t end);
void extents_remove(
	struct pool_extents *extents, uint64_t offset, uint64_t end);
bool extents_cover(
	const struct pool_extents *extents, uint64_t offset, uint64_t end);
void extents_free(struct pool_extents *extents);
