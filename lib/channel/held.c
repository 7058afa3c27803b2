/* SPDX-License-Identifier: MIT */
/*
 * What items keep of the pool: held words, which are leases of an item. How
 * they stand to the server's scan is said in shm/channel.h; here is who changes
 * them.
 *
 * Who sends a tensor has it leased, and installs the held word of a slot that
 * he is filling (P1 to P3). Who receives it takes a lease as for any
 * descriptor, with the slot in his hands, and keeps that.
 *
 * Who gives a slot back leaves the words there, since in a free slot they do
 * not count; and looks afterwards whether the server waits for that. Whoever
 * acquires the slot next clears them, and looks, too: in his slot they counted
 * again, and the server may have met them. So of each word either the one who
 * gave the slot back finds it still there, and looks; or it was cleared before,
 * and who did so looks. What a broadcast's slot keeps that went by before its
 * producer was through with publishing it, is his to look at. Who dies before
 * he looks is looked after: when a connection ends, the server looks again at
 * all that only leases hold.
 *
 * The words may be anything: an index is checked before it is one.
 */
#include <time.h>

#include "base/fail.h"
#include "lib/channel/channel.h"
#include "shm/lease.h"

/* The server finds our own lease and says so; if it dies in it, the next one
 * does. */
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
		store_say_released(channel->store, index, generation);
}

void held_left(tarn_channel *channel, uint32_t slot, uint32_t n)
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

/* Does any of them say something? Seldom; so all are looked at as fast as may
 * be. */
static bool any(const _Atomic uint64_t *words, uint32_t n)
{
	uint64_t all = 0;

	/* Relaxed: each stands for itself. */
#pragma GCC unroll 8
	for (uint32_t i = 0; i < n; i++)
		all |= atomic_load_explicit(&words[i], memory_order_relaxed);
	return all;
}

void held_clear(tarn_channel *channel, uint32_t slot)
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

/* ---- handing over ----------------------------------------------------------
 */

/* P3. -EBUSY: the server is looking for who holds it. */
static int is_held(
	const struct table *table, uint32_t index, uint64_t generation)
{
	/* Pairs with what the server stores: F1 of lease.h, across P2's fence. */
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
	tarn_store *store = channel->store;
	int r = -EBUSY, moved;

	for (int i = 0; i < BUSY_TRIES && r == -EBUSY; i++) {
		uint64_t place = table_place(&store->table);

		if (i)
			nanosleep(&nap, NULL);
		r = is_held(&store->table, index, generation);
		if (r != -ESTALE)
			continue;
		/* In a region that was left nothing can be acquired. */
		moved = store_moved(store, place);
		if (moved < 0)
			return moved;
		if (moved)
			r = -EBUSY;
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

int held_install(tarn_channel *channel, uint32_t slot, uint32_t i,
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
