/* SPDX-License-Identifier: MIT */
/*
 * Memory for names and shapes of a file's tensors: a hundred thousand of them
 * take a handful of blocks, each twice the size of the last, and are freed
 * together.
 */
#include "lib/file/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/file/huge_alloc.h"

#define ARENA_FIRST ((size_t)4 << 10)   /* a file of a few tensors fits */
#define ARENA_LARGEST ((size_t)4 << 20) /* wastes little of what is big */

struct arena_block {
	struct arena_block *before;
	size_t size;
	size_t used;
	_Alignas(8) char bytes[];
};

static struct arena_block *add_block(struct arena *arena, size_t wanted)
{
	struct arena_block *block;
	size_t size = ARENA_FIRST;

	if (arena->last)
		size = MIN(arena->last->size * 2, ARENA_LARGEST);
	size = MAX(size, wanted);
	if (size > SIZE_MAX - sizeof(*block))
		return NULL;
	size += sizeof(*block);
	block = size < HUGE_LEAST ? malloc(size) : huge_alloc(size);
	if (!block)
		return NULL;
	size -= sizeof(*block);
	*block = (struct arena_block) {.before = arena->last, .size = size};
	return arena->last = block;
}

/* size bytes aligned to 8, not zeroed; NULL when out of memory. */
static void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_block *block = arena->last;
	uint64_t rounded;
	void *at;

	if (round_up_u64(size, 8, &rounded))
		return NULL;
	if (!block || block->size - block->used < rounded)
		block = add_block(arena, rounded);
	if (!block)
		return NULL;
	at = block->bytes + block->used;
	block->used += rounded;
	return at;
}

void arena_expect(struct arena *arena, size_t size)
{
	if (size >= HUGE_LEAST / 2 && size < SIZE_MAX - HUGE_LEAST)
		add_block(arena, (size | (HUGE_LEAST - 1)) + 1 -
					 sizeof(struct arena_block));
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
	uint64_t bytes;

	if (mul_u64(count, size, &bytes))
		return NULL;
	return arena_alloc(arena, bytes);
}

char *arena_text(struct arena *arena, const char *text, size_t n)
{
	char *copy = n < SIZE_MAX ? arena_alloc(arena, n + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return copy;
}

void arena_free(struct arena *arena)
{
	while (arena->last) {
		struct arena_block *block = arena->last;
		size_t size = block->size + sizeof(*block);

		arena->last = block->before;
		if (size < HUGE_LEAST)
			free(block);
		else
			huge_free(block, size);
	}
}
