/* SPDX-License-Identifier: MIT */
/*
 * Open addressing over numbers, at most half full. Names come from files that
 * may be hostile, and with a predictable hash one file could cost hours; so it
 * is xxHash's XXH3 under a random secret.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/file/name_index.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"

static uint64_t hash(
	const struct name_index *index, const char *name, size_t size)
{
	return XXH3_64bits_withSecret(
		name, size, index->secret, sizeof(index->secret));
}

/* A secret that is merely hard to guess still works where the kernel has no
 * entropy yet: it hides nothing, it only makes targeted collisions
 * difficult. */
static void make_secret(unsigned char secret[NAME_INDEX_SECRET])
{
	struct timespec now;

	if (getrandom(secret, NAME_INDEX_SECRET, GRND_NONBLOCK) ==
		NAME_INDEX_SECRET)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	XXH3_generateSecret_fromSeed(
		secret, (uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)secret);
}

int name_index_init(struct name_index *index, struct arena *arena, size_t count)
{
	size_t slots = 4;

	if (count >= UINT32_MAX / 4)
		return tarn_fail(EOVERFLOW,
			"%zu names are more than the %u "
			"that fit into one file's index",
			count, UINT32_MAX / 4);
	while (slots < count * 2)
		slots *= 2;
	index->slots = arena_array(arena, slots, sizeof(*index->slots));
	if (!index->slots)
		return tarn_fail(
			ENOMEM, "no memory for an index of %zu names", count);
	memset(index->slots, 0, slots * sizeof(*index->slots));
	index->mask = slots - 1;
	make_secret(index->secret);
	return 0;
}

void name_index_begin(const struct name_index *index, const char *name,
	size_t size, struct name_state *state)
{
	state->begun = true;
	state->hash = hash(index, name, size);
	state->at = (size_t)state->hash - 1;
	__builtin_prefetch(&index->slots[state->hash & index->mask], 1);
}

/* The part of a hash that a slot holds: of its upper half, since the lower one
 * determines the slot. */
static uint32_t tag_of(const struct name_index *index, uint64_t hash)
{
	return (uint32_t)(hash >> 32) & ~(uint32_t)index->mask;
}

int64_t name_index_next(const struct name_index *index, const char *name,
	size_t size, struct name_state *state)
{
	uint32_t mask = (uint32_t)index->mask, slot, tag;

	if (!index->slots)
		return -1;
	if (!state->begun)
		name_index_begin(index, name, size, state);
	tag = tag_of(index, state->hash);
	for (;;) {
		state->at++;
		slot = index->slots[state->at & mask];
		if (!slot || (slot & ~mask) == tag)
			return (int64_t)(slot & mask) - 1;
	}
}

void name_index_add(struct name_index *index, const struct name_state *state,
	uint32_t number)
{
	assert(number < index->mask);
	index->slots[state->at & index->mask] =
		tag_of(index, state->hash) | (number + 1);
}
