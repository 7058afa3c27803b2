/* SPDX-License-Identifier: MIT */
/*
 * Writable twins of read-only bytes: tarn_tensor_guard.
 *
 * PyTorch takes an address and writes there, even if the bytes are declared
 * read-only. So it gets pages that a write copies. They belong to the storage:
 * made for the first caller, returned to all later ones, and freed with it. So
 * later calls are as cheap as an atomic load, and forbidden writes never reach
 * tarn's own bytes.
 *
 * In a pool the twin is a second mapping of the segments, which all storages
 * share, so that looking up many tensors makes no mappings; when the last
 * object of a storage is freed, its pages there are reset.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/store/cow.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

/* ---- one that is the storage's own -------------------------------------- */

struct own_guard {
	struct storage_guard guard; /* first: this is what is freed */
	struct cow_map map;         /* of size 0: data is malloc'ed */
};

static void own_drop(struct storage_guard *guard, tarn_storage *storage)
{
	struct own_guard *own = (struct own_guard *)guard;

	if (own->map.size)
		cow_map_done(&own->map);
	else
		free(guard->data);
	free(own);
}

static int own_fill(struct own_guard *own, tarn_storage *storage, bool copy)
{
	void *data;
	int r = 0;

	if (copy) {
		data = malloc(storage->size);
		if (!data)
			return tarn_fail(ENOMEM, "out of memory");
		memcpy(data, storage->data, storage->size);
	} else {
		r = cow_map_storage(storage, &own->map, &data);
	}
	if (r < 0) {
		cow_map_done(&own->map);
		return r;
	}
	own->guard.drop = own_drop;
	atomic_init(&own->guard.data, data);
	return 0;
}

static int make_own(
	tarn_storage *storage, bool copy, struct storage_guard **ret)
{
	struct own_guard *own = calloc(1, sizeof(*own));
	int r;

	if (!own)
		return tarn_fail(ENOMEM, "out of memory");
	r = own_fill(own, storage, copy);
	if (r < 0) {
		free(own);
		return r;
	}
	*ret = &own->guard;
	return 0;
}

/* ---- one in a pool ------------------------------------------------------ */

struct pool_pages {
	unsigned char *start;
	uint64_t size;
};

static void reset_pages(void *arg)
{
	const struct pool_pages *pages = arg;

	cow_map_reset(pages->start, pages->size);
}

static void pool_drop(struct storage_guard *guard, tarn_storage *storage)
{
	struct shared_storage *shared = store_storage_of(storage);
	uint64_t before = (uintptr_t)guard->data & (PAGE - 1);
	struct pool_pages pages = {
		.start = (unsigned char *)guard->data - before,
		.size = (storage->size + before + PAGE - 1) & ~(PAGE - 1),
	};

	lease_book_unguard(&shared->store->book, shared->index,
		shared->generation, reset_pages, &pages);
	free(guard);
}

static int make_in_pool(tarn_storage *storage, struct shared_storage *shared,
	struct storage_guard **ret)
{
	struct storage_guard *guard;
	void *data;
	int r = pool_map_twin(&shared->store->pools, shared->pool, shared->base,
		storage->size, &data);

	if (r < 0)
		return r;
	guard = calloc(1, sizeof(*guard));
	if (!guard)
		return tarn_fail(ENOMEM, "out of memory");
	guard->drop = pool_drop;
	atomic_init(&guard->data, data);
	lease_book_guard(
		&shared->store->book, shared->index, shared->generation);
	*ret = guard;
	return 0;
}

/* ---- which -------------------------------------------------------------- */

/* Bytes in a pool never change, nor does memory that was sealed when it was
 * published. Only these may be copied: a twin of mutable memory must show
 * others' writes. */
static bool never_changes(const struct shared_storage *shared)
{
	struct table_storage entry;

	return !shared->own ||
	       (table_storage_get(&shared->store->table, shared->index,
			shared->generation, &entry) >= 0 &&
		       !(entry.flags & STORAGE_MUTABLE));
}

static int make(tarn_storage *storage, struct storage_guard **ret)
{
	struct shared_storage *shared = store_storage_of(storage);
	int r = -ENOTSUP;

	if (storage->make_guard)
		return storage->make_guard(storage, ret);
	if (shared && !shared->own && storage->size <= COW_COPY_MAX)
		return make_own(storage, true, ret);
	if (shared && !shared->own)
		r = make_in_pool(storage, shared, ret);
	if (r == -ENOTSUP)
		r = make_own(storage, false, ret);
	/* No daemon is left to return a descriptor, but the bytes are
	 * mapped. */
	return r == -ECONNRESET && shared && never_changes(shared)
		       ? make_own(storage, true, ret)
		       : r;
}

/* The twin that was made, or the one that another thread made meanwhile. */
static struct storage_guard *agree(
	tarn_storage *storage, struct storage_guard *made)
{
	struct storage_guard *seen = NULL;

	/* Pairs with the acquire loads that find it. */
	if (atomic_compare_exchange_strong_explicit(&storage->guard, &seen,
		    made, memory_order_acq_rel, memory_order_acquire))
		return made;
	if (seen != made)
		made->drop(made, storage);
	return seen;
}

/* Can it be written, after all? Asks the kernel, for one page: lent memory is
 * all of one kind. */
static bool lent_is_writable(const tarn_storage *storage)
{
	uintptr_t page = (uintptr_t)storage->data & ~(uintptr_t)(PAGE - 1);

	return madvise((void *)page, PAGE, MADV_POPULATE_WRITE) == 0;
}

static int guarded(tarn_storage *storage, void **ret)
{
	struct storage_guard *guard;
	int r;

	*ret = storage->data;
	if (storage->writable || storage->size == 0)
		return 0;
	if (storage->kind == TARN_STORAGE_BORROWED)
		return lent_is_writable(storage) ? 0 : 1;
	/* Acquire: pairs with the exchange in agree. */
	guard = atomic_load_explicit(&storage->guard, memory_order_acquire);
	if (!guard) {
		r = make(storage, &guard);
		if (r < 0)
			return r == -ENOTSUP || r == -ECONNRESET ? 1 : r;
		guard = agree(storage, guard);
	}
	*ret = guard->data;
	return 0;
}

int tarn_tensor_guard(tarn_tensor *tensor, void **ret)
{
	tarn_storage *storage = tensor->storage;
	unsigned char *data = tarn_tensor_data(tensor);
	void *begin;
	int r;

	if (!data)
		return tarn_fail(ENOTSUP, "guard: the tensor has no address");
	r = guarded(storage, &begin);
	if (r < 0)
		return tarn_fail_prefix(r, "guard: ");
	*ret = (unsigned char *)begin + (data - (unsigned char *)storage->data);
	return r;
}
