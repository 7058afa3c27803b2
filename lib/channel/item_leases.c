/* SPDX-License-Identifier: MIT */
/*
 * Storages of the pool that items keep: held words, which are leases of an
 * item. shm/channel.h describes how the server's scan treats them; this file
 * changes them.
 *
 * A sender of a tensor has it leased, and installs the held word of a slot that
 * it is filling (P1 to P3). A receiver takes a lease as for any descriptor,
 * while it has the slot, and keeps that.
 *
 * A participant that gives a slot back leaves the words there, since they do
 * not count in a free slot; afterwards it checks whether the server waits for
 * one of their storages. The participant that acquires the slot next clears the
 * words, and checks too: in its slot they counted again, and the server may
 * have met them. So for each word, either the one that gave the slot back finds
 * it still there, and checks; or it was cleared before, and the one that
 * cleared it checks. If a broadcast's slot was freed before its producer was
 * through with publishing it, the producer checks its words. A participant that
 * dies before it checks needs no substitute: when a connection ends, the server
 * examines all storages again that only leases hold.
 *
 * A hostile peer may write anything into the words: each index is checked
 * before it is used.
 */
#include <time.h>

#include "base/fail.h"
#include "lib/channel/channel.h"
#include "shm/lease.h"

/* The server finds our own lease and resets the word; if the server dies in
 * between, the next one does. */
#define BUSY_NAP_US 50
#define BUSY_TRIES 40000

static _Atomic uint64_t *word_at(
	const tarn_channel *channel, uint32_t slot, uint32_t i)
{
	const struct channel_map *map = &channel->map;

	return &map->held[(uint64_t)slot * map->geometry.tensors + i];
}

/* ---- giving back --------------------------------------------------------- */

static void look(tarn_channel *channel, uint64_t held)
{
	uint32_t index = (uint32_t)(held & ((1u << TABLE_INDEX_BITS) - 1));
	uint64_t generation = held >> TABLE_INDEX_BITS;

	if (index < TABLE_STORAGES_MAX &&
		lease_is_awaited(&channel->store->table, index, generation))
		store_notify_released(channel->store, index, generation);
}

void item_leases_left(tarn_channel *channel, uint32_t slot, uint32_t n)
{
	/* As after a release of a lease: pairs with F2. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < n; i++) {
		/* Relaxed, here and below: a word that stands for itself. */
		uint64_t held = atomic_load_explicit(
			word_at(channel, slot, i), memory_order_relaxed);

		if (held)
			look(channel, held);
	}
}

/* Is any of them not 0? That is rare; so all are tested as fast as possible. */
static bool any(const _Atomic uint64_t *words, uint32_t n)
{
	uint64_t all = 0;

	/* Relaxed: each word is independent. */
#pragma GCC unroll 8
	for (uint32_t i = 0; i < n; i++)
		all |= atomic_load_explicit(&words[i], memory_order_relaxed);
	return all;
}

void item_leases_clear(tarn_channel *channel, uint32_t slot)
{
	uint32_t n = channel->map.geometry.tensors;
	_Atomic uint64_t *words = word_at(channel, slot, 0);

	if (!any(words, n))
		return;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t held =
			atomic_load_explicit(&words[i], memory_order_relaxed);

		if (!held)
			continue;
		atomic_store_explicit(&words[i], 0, memory_order_relaxed);
		/* Pairs with F2. */
		atomic_thread_fence(memory_order_seq_cst);
		look(channel, held);
	}
}

/* ---- handing over -------------------------------------------------- */

/* P3. -EBUSY: the server is scanning for its leases. */
static int is_held(
	const struct table *table, uint32_t index, uint64_t generation)
{
	/* Pairs with the server's store: F1 of lease.h, across P2's fence. */
	uint64_t word = atomic_load_explicit(
		&table->storages[index].word, memory_order_acquire);

	if (storage_word_generation(word) != generation)
		return -ESTALE;
	switch (storage_word_state(word)) {
	case STORAGE_LIVE:
	case STORAGE_UNNAMED:
		return 0;
	case STORAGE_FREEING:
		return -EBUSY;
	default:
		return -ESTALE;
	}
}

static int await_held(
	tarn_channel *channel, uint32_t index, uint64_t generation)
{
	const struct timespec nap = {.tv_nsec = BUSY_NAP_US * 1000};
	int r = -EBUSY;

	for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
		if (i)
			nanosleep(&nap, NULL);
		r = is_held(&channel->store->table, index, generation);
	}
	if (r == -ESTALE)
		return tarn_fail(ESTALE, "storage %u: it is gone", index);
	if (r < 0)
		return tarn_fail(EBUSY,
			"storage %u: the daemon has been about to free it for "
			"too long; try again",
			index);
	return 0;
}

int item_leases_install(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint32_t index, uint64_t generation)
{
	_Atomic uint64_t *word = word_at(channel, slot, i);
	int r;

	/* P1 */
	atomic_store_explicit(
		word, lease_word(index, generation), memory_order_relaxed);
	/* P2: pairs with F2. */
	atomic_thread_fence(memory_order_seq_cst);
	r = await_held(channel, index, generation);
	if (r < 0)
		atomic_store_explicit(word, 0, memory_order_release);
	return r;
}
