/* SPDX-License-Identifier: MIT */
/*
 * Storages in a daemon's pools: a lease, an address, and an object that
 * releases both with its last reference.
 *
 * The lease comes first. From the moment that it is held, the table's entry of
 * the storage cannot change, so everything after it may read the entry in any
 * order.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "lib/cuda/cuda.h"
#include "lib/store/device_storage.h"
#include "lib/store/file_lock.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/store/store.h"

/* Both in one allocation, for all storages except those that were another kind
 * before. */
struct whole {
	union {
		tarn_storage storage; /* first: this is what is freed */
		struct device_storage device;
	};
	struct shared_storage shared;
};

static void shared_release(void *arg)
{
	struct shared_storage *shared = arg;

	if (device_storage_of(shared->storage))
		device_storage_end(shared->storage);
	store_drop_lease(shared->store, shared->index, shared->generation,
		shared->storage);
	store_release(shared->store);
	file_lock_free(shared->lock);
	if (shared->patched) {
		patched_free(shared->patched);
	} else if (shared->own) {
		cuda_forget(
			shared->own, own_mapped_size(shared->storage->size));
		munmap(shared->own, own_mapped_size(shared->storage->size));
	}
	if (!shared->inside)
		free(shared);
}

struct shared_storage *store_storage_of(const tarn_storage *storage)
{
	/* Acquire: pairs with the release store in store_storage_turn; arg is
	 * the one that was stored with it. */
	return atomic_load_explicit(&storage->release, memory_order_acquire) ==
			       shared_release
		       ? storage->arg
		       : NULL;
}

void store_storage_turn(tarn_storage *storage, struct shared_storage *shared)
{
	if (!device_storage_of(storage))
		storage->kind = TARN_STORAGE_SHARED;
	storage->arg = shared;
	/* Release: pairs with the acquire load in store_storage_of. */
	atomic_store_explicit(
		&storage->release, shared_release, memory_order_release);
}

/* Maps its bytes, wherever they are. */
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

/* For the book: an object that no other thread can find yet. */
static tarn_storage *make(void)
{
	struct whole *whole = malloc(sizeof(*whole));

	if (!whole)
		return NULL;
	atomic_init(&whole->storage.refs, 0);
	return &whole->storage;
}

static int open_patch(struct shared_storage *shared,
	const struct table_storage *entry, void **ret)
{
	const struct patch_key key = {shared->index, shared->generation};
	int r = patched_open(shared->store, key, entry, &shared->patched, ret);

	if (r >= 0)
		shared->own = shared->patched->map.start;
	return r;
}

/* Its bytes get their addresses; on a device at their first use. */
static int init(struct whole *whole, const struct table_storage *entry)
{
	struct shared_storage *shared = &whole->shared;
	bool writable = false;
	void *addr;
	int r;

	if (entry->flags & STORAGE_DEVICE) {
		device_storage_init(
			&whole->device, entry, shared_release, shared);
		return 0;
	}
	if (entry->flags & STORAGE_PATCH)
		r = open_patch(shared, entry, &addr);
	else
		r = map_bytes(shared, entry, &addr, &writable);
	if (r < 0)
		return r;
	if (entry->flags & STORAGE_OWN && !shared->patched)
		shared->own = addr;
	tarn_storage_init(&whole->storage, TARN_STORAGE_SHARED, addr,
		entry->size, writable, shared_release, shared);
	return 0;
}

/* With a lease held, which the object takes over. */
static int finish(struct tarn_store *store, uint32_t index, uint64_t generation,
	const struct table_storage *entry, tarn_storage *made)
{
	struct whole *whole = (struct whole *)made;
	int r;

	whole->shared = (struct shared_storage) {
		.store = store,
		.storage = made,
		.index = index,
		.pool = entry->pool,
		.generation = generation,
		.base = entry->base,
		.inside = true,
	};
	r = init(whole, entry);
	if (r < 0)
		return r;
	store_ref(store);
	lease_book_finish(made);
	return 0;
}

/* A storage that is still being filled must not be read, wherever the
 * descriptor came from. */
static int check_state(uint32_t index, const struct table_storage *entry)
{
	enum storage_state state = storage_word_state(
		atomic_load_explicit(&entry->word, memory_order_relaxed));

	if (state == STORAGE_FILLING)
		return tarn_fail(ESTALE,
			"storage %u: its load is still under way", index);
	if (entry->flags & STORAGE_CHANNEL)
		return tarn_fail(EINVAL,
			"it is a channel and no tensor; tarn_channel_open "
			"opens it");
	return 0;
}

int store_storage(struct tarn_store *store, uint32_t index, uint64_t generation,
	struct table_storage *ret_entry, tarn_storage **ret)
{
	tarn_storage *storage;
	bool known;
	int r;

	pool_map_look(&store->pools);
	r = store_hold(store, index, generation, make, &storage);
	if (r < 0)
		return r;
	known = r;
	r = table_storage_get(&store->table, index, generation, ret_entry);
	if (r >= 0 && !known)
		r = check_state(index, ret_entry);
	if (r >= 0 && !known)
		r = finish(store, index, generation, ret_entry, storage);
	if (r >= 0) {
		*ret = storage;
		return 0;
	}
	if (known) {
		tarn_storage_unref(storage);
	} else {
		store_drop_lease(store, index, generation, storage);
		free(storage);
	}
	return r;
}
