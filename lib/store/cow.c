/* SPDX-License-Identifier: MIT */
/*
 * Copies that cost nothing until they are written: tarn_tensor_cow, and
 * tarn_tensor_private, whose storage no other knows.
 *
 * A storage knows the private one that was made of it, without a reference, and
 * the private one has a reference to the original, and so its lease. Hence all
 * views of one storage become views of one private storage, for as long as any
 * of them lives, and the original cannot be freed under pages that were never
 * copied.
 *
 * The pointer from the original is a plain pointer to an object whose count may
 * just be falling to 0, so it is read, followed and cleared under one lock: a
 * thread that finds the object there may read its count, since the thread that
 * frees the object clears the pointer first. No other lock is taken under that
 * lock, so a fork can take it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/store/cow.h"
#include "lib/store/device_storage.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

struct cow_storage {
	tarn_storage *storage;  /* itself; borrowed */
	tarn_storage *original; /* a reference */
	tarn_storage *copy;     /* a reference, or NULL: it is mapped */
	struct cow_map map;
};

/* ---- one private storage of each -------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(void)
{
	pthread_mutex_lock(&lock);
}

static void give(void)
{
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(take, give, give);
}

/* Called before there is a private storage, since freeing one takes the lock. */
static void begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
}

static void cow_release(void *arg)
{
	struct cow_storage *p = arg;

	take();
	if (p->original->cow == p->storage)
		p->original->cow = NULL;
	give();
	cow_map_done(&p->map);
	tarn_storage_unref(p->copy);
	tarn_storage_unref(p->original);
	free(p);
}

/* With the lock: takes another reference, unless the last one was just
 * dropped. */
static tarn_storage *try_ref(tarn_storage *storage)
{
	unsigned refs;

	if (!storage)
		return NULL;
	/* Relaxed: the lock ordered its maker's writes before this. */
	refs = atomic_load_explicit(&storage->refs, memory_order_relaxed);
	while (refs &&
		!atomic_compare_exchange_weak_explicit(&storage->refs, &refs,
			refs + 1, memory_order_relaxed, memory_order_relaxed))
		;
	return refs ? storage : NULL;
}

static tarn_storage *known(tarn_storage *original)
{
	tarn_storage *found;

	take();
	found = try_ref(original->cow);
	give();
	return found;
}

/* The one that was made, or the one that another thread made meanwhile. */
static tarn_storage *agree(tarn_storage *original, tarn_storage *made)
{
	tarn_storage *other;

	take();
	other = try_ref(original->cow);
	if (!other)
		original->cow = made;
	give();
	if (other)
		tarn_storage_unref(made);
	return other ? other : made;
}

/* ---- where the bytes are ----------------------------------------------- */

/* Maps a file from its first byte on; it may have shrunk. */
static int map_file(const tarn_storage *storage,
	const struct storage_file *file, struct cow_map *map, void **ret)
{
	uint64_t begin = file->offset & ~(PAGE - 1), end;
	struct stat st;
	int r;

	/* A file that cannot be mapped is read, and the read reports the
	 * cause. */
	if (!file->readable || fstat(file->fd, &st) < 0 ||
		!S_ISREG(st.st_mode) ||
		add_u64(file->offset, storage->size, &end) ||
		end > (uint64_t)st.st_size)
		return -ENOTSUP;
	r = cow_map_reserve(map, end - begin, begin);
	if (r >= 0)
		r = cow_map_add(map, 0, file->fd, begin, map->size);
	if (r >= 0)
		*ret = map->start + (file->offset - begin);
	return r;
}

static int map_shared(const struct shared_storage *shared,
	const tarn_storage *storage, struct cow_map *map, void **ret)
{
	struct tarn_store *store = shared->store;
	struct table_storage entry;
	int r;

	if (device_storage_of(storage))
		return -ENOTSUP;
	if (!shared->own)
		return pool_map_cow(&store->pools, shared->pool, shared->base,
			storage->size, map, ret);
	if (shared->patched)
		return patched_map_cow(shared, map, ret);
	r = table_storage_get(
		&store->table, shared->index, shared->generation, &entry);
	return r < 0 ? r
		     : own_map_cow(store, shared->index, shared->generation,
			       &entry, map, ret);
}

int cow_map_storage(
	const tarn_storage *storage, struct cow_map *map, void **ret)
{
	const struct shared_storage *shared = store_storage_of(storage);
	const struct storage_file *file = storage_file(storage);

	if (storage->map_cow)
		return storage->map_cow(storage, map, ret);
	if (shared)
		return map_shared(shared, storage, map, ret);
	return file ? map_file(storage, file, map, ret) : -ENOTSUP;
}

static int map_bytes(
	const tarn_storage *storage, struct cow_map *map, void **ret)
{
	return storage->size <= COW_COPY_MAX
		       ? -ENOTSUP
		       : cow_map_storage(storage, map, ret);
}

static int copy_bytes(struct cow_storage *p, void **ret)
{
	uint64_t size = p->original->size;
	int r = tarn_storage_alloc(size, &p->copy);

	if (r >= 0)
		r = tarn_storage_read(p->original, 0, p->copy->data, size);
	if (r >= 0)
		*ret = p->copy->data;
	return r;
}

static int fill(struct cow_storage *p, void **ret)
{
	int r = map_bytes(p->original, &p->map, ret);

	if (r >= 0)
		return 0;
	cow_map_done(&p->map);
	/* Without a daemon there is no descriptor, but the bytes are there. */
	return r == -ENOTSUP || r == -ECONNRESET ? copy_bytes(p, ret) : r;
}

/* ---- the verb ---------------------------------------------------------- */

static int make(tarn_storage *original, tarn_storage **ret)
{
	struct cow_storage *p = calloc(1, sizeof(*p));
	void *data;
	int r;

	if (!p)
		return tarn_fail(ENOMEM, "out of memory");
	p->original = tarn_storage_ref(original);
	r = fill(p, &data);
	if (r >= 0)
		r = tarn_storage_new(TARN_STORAGE_COW, data, original->size,
			true, cow_release, p, ret);
	if (r < 0) {
		cow_release(p);
		return r;
	}
	p->storage = *ret;
	return 0;
}

static int cow_of(tarn_storage *original, tarn_storage **ret)
{
	tarn_storage *made;
	int r;

	begin();
	*ret = known(original);
	if (*ret)
		return 0;
	r = make(original, &made);
	if (r >= 0)
		*ret = agree(original, made);
	return r;
}

int tarn_tensor_cow(tarn_tensor *tensor, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	int r;

	if (tensor->storage->writable && tensor->storage->data) {
		*ret = tarn_tensor_ref(tensor);
		return 0;
	}
	r = cow_of(tensor->storage, &storage);
	if (r >= 0)
		r = tarn_tensor_new_checked(
			storage, tensor->base, &tensor->layout, ret);
	return r < 0 ? tarn_fail_prefix(r, "private: ") : 0;
}

int tarn_tensor_private(tarn_tensor *tensor, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	int r;

	begin();
	r = make(tensor->storage, &storage);
	if (r >= 0)
		r = tarn_tensor_new_checked(
			storage, tensor->base, &tensor->layout, ret);
	return r < 0 ? tarn_fail_prefix(r, "private: ") : 0;
}
