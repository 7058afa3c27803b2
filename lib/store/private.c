/* SPDX-License-Identifier: MIT */
/*
 * Copies that cost nothing until they are written: tarn_tensor_private.
 *
 * The idea: a storage knows the private one that was made of it, without
 * holding it, and the private one holds the original, and so its lease. Hence
 * all views of one storage become views of one private storage, for as long as
 * any of them lives, and the original cannot go away under pages that were
 * never copied.
 *
 * The way back is a plain pointer to an object whose count may just be falling
 * to 0, so it is read, followed and cleared under one lock: who finds it there
 * may look at the count, since who frees the object clears the pointer first.
 * Nothing else is locked under that lock, which is what lets a fork take it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/store/own_map.h"
#include "lib/store/private_map.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

/* Up to here copying takes no longer than asking for a descriptor. */
#define COPY_MAX (64u << 10)
#define PAGE 4096ull

struct private_storage {
	tarn_storage *storage;	/* itself; borrowed */
	tarn_storage *original; /* a reference */
	tarn_storage *copy;	/* a reference, or NULL: it is mapped */
	struct private_map map;
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

static void private_release(void *arg)
{
	struct private_storage *p = arg;

	take();
	if (p->original->private == p->storage)
		p->original->private = NULL;
	give();
	private_map_done(&p->map);
	tarn_storage_unref(p->copy);
	tarn_storage_unref(p->original);
	free(p);
}

/* With the lock: another reference to it, unless the last one just went. */
static tarn_storage *try_ref(tarn_storage *storage)
{
	unsigned refs;

	if (!storage)
		return NULL;
	/* Relaxed: the lock ordered what its maker did before this. */
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
	found = try_ref(original->private);
	give();
	return found;
}

/* The one that was made, or another that another thread made meanwhile. */
static tarn_storage *agree(tarn_storage *original, tarn_storage *made)
{
	tarn_storage *other;

	take();
	other = try_ref(original->private);
	if (!other)
		original->private = made;
	give();
	if (other)
		tarn_storage_unref(made);
	return other ? other : made;
}

/* ---- where the bytes are ----------------------------------------------- */

/* Of a file, from its first byte on; it may have shrunk. */
static int map_file(const tarn_storage *storage,
	const struct storage_file *file, struct private_map *map, void **ret)
{
	uint64_t begin = file->offset & ~(PAGE - 1), end;
	struct stat st;
	int r;

	/* Whoever cannot be mapped is read, which says why it cannot be. */
	if (!file->readable || fstat(file->fd, &st) < 0 ||
		!S_ISREG(st.st_mode) ||
		add_u64(file->offset, storage->size, &end) ||
		end > (uint64_t)st.st_size)
		return -ENOTSUP;
	r = private_map_reserve(map, end - begin, begin);
	if (r >= 0)
		r = private_map_add(map, 0, file->fd, begin, map->size);
	if (r >= 0)
		*ret = map->start + (file->offset - begin);
	return r;
}

static int map_shared(const struct shared_storage *shared,
	const tarn_storage *storage, struct private_map *map, void **ret)
{
	struct tarn_store *store = shared->store;
	struct table_storage entry;
	int r;

	if (!shared->own)
		return pool_map_private(&store->pools, shared->pool,
			shared->base, storage->size, map, ret);
	r = store_entry(store, shared->index, shared->generation, &entry);
	return r < 0 ? r
		     : own_map_private(store, shared->index, shared->generation,
			       &entry, map, ret);
}

static int map_bytes(
	const tarn_storage *storage, struct private_map *map, void **ret)
{
	const struct shared_storage *shared = store_storage_of(storage);
	const struct storage_file *file = storage_file(storage);

	if (storage->size <= COPY_MAX)
		return -ENOTSUP;
	if (storage->map_private)
		return storage->map_private(storage, map, ret);
	if (shared)
		return map_shared(shared, storage, map, ret);
	return file ? map_file(storage, file, map, ret) : -ENOTSUP;
}

static int copy_bytes(struct private_storage *p, void **ret)
{
	uint64_t size = p->original->size;
	int r = tarn_storage_alloc(size, &p->copy);

	if (r >= 0)
		r = tarn_storage_read(p->original, 0, p->copy->data, size);
	if (r >= 0)
		*ret = p->copy->data;
	return r;
}

static int fill(struct private_storage *p, void **ret)
{
	int r = map_bytes(p->original, &p->map, ret);

	if (r >= 0)
		return 0;
	private_map_done(&p->map);
	/* Without a daemon there is nobody to ask, but the bytes are there. */
	return r == -ENOTSUP || r == -ECONNRESET ? copy_bytes(p, ret) : r;
}

/* ---- the verb ---------------------------------------------------------- */

static int make(tarn_storage *original, tarn_storage **ret)
{
	struct private_storage *p = calloc(1, sizeof(*p));
	void *data;
	int r;

	if (!p)
		return tarn_fail(ENOMEM, "out of memory");
	p->original = tarn_storage_ref(original);
	r = fill(p, &data);
	if (r >= 0)
		r = tarn_storage_new(TARN_STORAGE_PRIVATE, data, original->size,
			true, private_release, p, ret);
	if (r < 0) {
		private_release(p);
		return r;
	}
	p->storage = *ret;
	return 0;
}

static int private_of(tarn_storage *original, tarn_storage **ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	tarn_storage *made;
	int r;

	pthread_once(&once, watch_forks);
	*ret = known(original);
	if (*ret)
		return 0;
	r = make(original, &made);
	if (r >= 0)
		*ret = agree(original, made);
	return r;
}

int tarn_tensor_private(tarn_tensor *tensor, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	int r;

	if (tensor->storage->writable && tensor->storage->data) {
		*ret = tarn_tensor_ref(tensor);
		return 0;
	}
	r = private_of(tensor->storage, &storage);
	if (r >= 0)
		r = tarn_tensor_new_checked(
			storage, tensor->base, &tensor->layout, ret);
	return r < 0 ? tarn_fail_prefix(r, "private: ") : 0;
}
