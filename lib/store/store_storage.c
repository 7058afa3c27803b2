/* SPDX-License-Identifier: MIT */
/*
 * Storages in a daemon's pools: a lease, an address, and an object that gives
 * both back when its last reference goes.
 *
 * The idea: the lease comes first. From the moment that it is held, what the
 * table says of the storage cannot change, so everything after it may be
 * read at leisure.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "lib/store/file_lock.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"

static void shared_release(void *arg)
{
	struct shared_storage *shared = arg;

	store_drop_lease(shared->store, shared->index, shared->generation,
		shared->storage);
	store_release(shared->store);
	file_lock_free(shared->lock);
	if (shared->own)
		munmap(shared->own, own_mapped_size(shared->storage->size));
	free(shared);
}

struct shared_storage *store_storage_of(const tarn_storage *storage)
{
	return storage->release == shared_release ? storage->arg : NULL;
}

void store_storage_turn(tarn_storage *storage, struct shared_storage *shared)
{
	storage->kind = TARN_STORAGE_SHARED;
	storage->release = shared_release;
	storage->arg = shared;
}

/* Its bytes, wherever they are. */
static int map_bytes(const struct shared_storage *shared,
	const struct table_storage *entry, void **ret, bool *ret_writable)
{
	*ret_writable = false;
	if (entry->flags & STORAGE_OWN)
		return own_map(shared->store, shared->index, shared->generation,
			entry, ret, ret_writable);
	return pool_map_range(&shared->store->pools, entry->pool, entry->base,
		entry->size, ret);
}

/* With a lease held, which the new object takes over. */
static int make_storage(struct tarn_store *store, uint32_t index,
	uint64_t generation, const struct table_storage *entry,
	tarn_storage **ret)
{
	_cleanup_free_ struct shared_storage *shared = NULL;
	bool writable;
	void *addr;
	int r;

	shared = malloc(sizeof(*shared));
	if (!shared)
		return tarn_fail(ENOMEM, "storage %u: out of memory", index);
	*shared = (struct shared_storage) {
		.store = store,
		.index = index,
		.pool = entry->pool,
		.generation = generation,
		.base = entry->base,
	};
	r = map_bytes(shared, entry, &addr, &writable);
	if (r < 0)
		return r;
	if (entry->flags & STORAGE_OWN)
		shared->own = addr;
	r = tarn_storage_new(TARN_STORAGE_SHARED, addr, entry->size, writable,
		shared_release, shared, &shared->storage);
	if (r < 0) {
		if (shared->own)
			munmap(addr, own_mapped_size(entry->size));
		return r;
	}
	store_ref(store);
	*ret = shared->storage;
	STEAL(shared);
	return 0;
}

/* A storage that somebody is still filling must not be read, whoever sent a
 * descriptor of it. */
static int check_state(uint32_t index, const struct table_storage *entry)
{
	enum storage_state state = storage_word_state(
		atomic_load_explicit(&entry->word, memory_order_relaxed));

	if (state == STORAGE_FILLING)
		return tarn_fail(ESTALE,
			"storage %u: its load is still under way", index);
	return 0;
}

int store_storage(struct tarn_store *store, uint32_t index, uint64_t generation,
	struct table_storage *ret_entry, tarn_storage **ret)
{
	tarn_storage *known, *made = NULL;
	int r;

	pool_map_look(&store->pools);
	r = store_hold(store, index, generation, &known);
	if (r < 0)
		return r;
	r = table_storage_get(&store->table, index, generation, ret_entry);
	if (r >= 0 && known) {
		*ret = known;
		return 0;
	}
	if (r >= 0)
		r = check_state(index, ret_entry);
	if (r >= 0)
		r = make_storage(store, index, generation, ret_entry, &made);
	if (r < 0 && known)
		tarn_storage_unref(known);
	else if (r < 0)
		store_drop_lease(store, index, generation, NULL);
	if (r < 0)
		return r;
	lease_book_remember(&store->book, index, generation, made);
	*ret = made;
	return 0;
}
