/* SPDX-License-Identifier: MIT */
/* From a name to a number in constant time, whoever chose the names. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/file/arena.h"

#define NAME_INDEX_SECRET 192 /* XXH3's own size */

struct name_index {
	/* Random, so that no file can aim for collisions. */
	unsigned char secret[NAME_INDEX_SECRET];
	uint32_t *slots; /* number + 1; 0 is empty */
	size_t mask;	 /* slots - 1, a power of two less one */
};

/* Makes room for count names in arena. -ENOMEM, -EOVERFLOW. */
int name_index_init(struct name_index *index, struct arena *arena,
	size_t count);

/* Enters name as number; at most count times. Names are not compared. */
void name_index_add(struct name_index *index, const char *name, size_t size,
	uint32_t number);

/*
 * Walks the numbers that name may have: *state is 0 at first, and the result
 * is a number to compare, or -1 when there are no more.
 */
int64_t name_index_next(const struct name_index *index, const char *name,
	size_t size, uint64_t *state);
