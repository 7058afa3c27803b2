/* SPDX-License-Identifier: MIT */
/* Many small allocations that are freed together. All zeroes is an empty
 * arena. */
#pragma once

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *last;
};

/* About this many bytes will be allocated: a large amount is reserved at
 * once. */
void arena_expect(struct arena *arena, size_t size);

/* count items of size bytes, aligned to 8, not zeroed; NULL when there is no
 * memory, or when that does not fit. */
void *arena_array(struct arena *arena, size_t count, size_t size);

/* A copy of n bytes with a NUL after them. */
char *arena_text(struct arena *arena, const char *text, size_t n);

/* Frees all of it. */
void arena_free(struct arena *arena);
