/* SPDX-License-Identifier: MIT */
/* From a name to a number in constant time, even for hostile names. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/file/arena.h"

#define NAME_INDEX_SECRET 192 /* XXH3's own size */

struct name_index {
	/* Random, so that no file can be made to cause collisions. */
	unsigned char secret[NAME_INDEX_SECRET];
	/* A number + 1 in the bits of mask, since there are fewer than slots;
	 * in those above a part of the hash, so that other names are hardly
	 * ever compared. 0 is empty. */
	uint32_t *slots;
	size_t mask; /* slots - 1, a power of two less one */
};

/* The state of a walk; all zeroes at first. */
struct name_state {
	uint64_t hash;
	size_t at; /* the slot that was examined last */
	bool begun;
};

/* Makes room for count names in arena. -ENOMEM, -EOVERFLOW. */
int name_index_init(
	struct name_index *index, struct arena *arena, size_t count);

/* Begins a walk early, to prefetch its first slot. */
void name_index_begin(const struct name_index *index, const char *name,
	size_t size, struct name_state *state);

/*
 * Walks the numbers that name may have: *state is {0} at first, and the result
 * is a number to compare, or -1 when there are no more. Then, and as often as
 * there is room, name_index_add enters the name of that walk.
 */
int64_t name_index_next(const struct name_index *index, const char *name,
	size_t size, struct name_state *state);
void name_index_add(struct name_index *index, const struct name_state *state,
	uint32_t number);
