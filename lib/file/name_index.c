/* SPDX-License-Identifier: MIT */
/*
 * Open addressing over numbers, at most half full. Names come from files that
 * may be hostile, and a hash without a secret would let one file cost hours;
 * so it is SipHash-1-3 (Aumasson and Bernstein) under a random key.
 */
#include "lib/file/name_index.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"

static uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

static uint64_t hash(const uint64_t key[2], const char *name, size_t size)
{
	uint64_t v[4] = {
		key[0] ^ 0x736f6d6570736575,
		key[1] ^ 0x646f72616e646f6d,
		key[0] ^ 0x6c7967656e657261,
		key[1] ^ 0x7465646279746573,
	};
	uint64_t word;
	size_t left = size;

	for (; left >= 8; left -= 8, name += 8) {
		memcpy(&word, name, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	word = (uint64_t)size << 56;
	for (size_t i = 0; i < left; i++)
		word |= (uint64_t)(unsigned char)name[i] << (8 * i);
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* A key that is merely hard to guess still works where the kernel has no
 * entropy yet: nothing is secret here, only inconvenient. */
static void random_key(uint64_t key[2])
{
	struct timespec now;

	if (getrandom(key, 16, GRND_NONBLOCK) == 16)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	key[0] = (uint64_t)now.tv_nsec * 0x9e3779b97f4a7c15;
	key[1] = (uint64_t)(uintptr_t)key;
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
	random_key(index->key);
	return 0;
}

void name_index_add(struct name_index *index, const char *name, size_t size,
	uint32_t number)
{
	size_t at = hash(index->key, name, size) & index->mask;

	while (index->slots[at])
		at = (at + 1) & index->mask;
	index->slots[at] = number + 1;
}

int64_t name_index_next(const struct name_index *index, const char *name,
	size_t size, uint64_t *state)
{
	size_t at;

	if (!index->slots)
		return -1;
	/* The state is the slot to look at, plus one so that 0 is "none". */
	if (!*state)
		*state = (hash(index->key, name, size) & index->mask) + 1;
	at = (*state - 1) & index->mask;
	*state = ((at + 1) & index->mask) + 1;
	return (int64_t)index->slots[at] - 1;
}
