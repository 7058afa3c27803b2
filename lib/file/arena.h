/* SPDX-License-Identifier: MIT */
/* Many small things that live and die together. Starts as all zeroes. */
#pragma once

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *last;
};

/* About so many bytes will be taken: if that is much, they are had at once. */
void arena_expect(struct arena *arena, size_t size);

/* count items of size bytes, aligned to 8, not zeroed; NULL when there is no
 * memory, or when that does not fit. */
void *arena_array(struct arena *arena, size_t count, size_t size);

/* A copy of n bytes with a NUL behind them. */
char *arena_text(struct arena *arena, const char *text, size_t n);

/* Gives back all of it. */
void arena_free(struct arena *arena);
