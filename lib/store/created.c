/* SPDX-License-Identifier: MIT */
/*
 * Memory that the caller fills and then publishes.
 *
 * A created storage is an object like any other, and turns into a shared one in
 * place when the daemon has taken its memory: same object, same address, so
 * every tensor over it stays valid. Small ones, which are copied when they are
 * published, are ordinary memory.
 */
#include "lib/store/created.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/cuda/cuda.h"
#include "lib/layout/layout.h"
#include "lib/store/own_map.h"
#include "lib/store/patch.h"
#include "lib/tensor/tensor.h"

static void created_release(void *arg)
{
	struct created *created = arg;

	if (created->patched) {
		patched_free(created->patched);
	} else {
		cuda_forget(created->addr, own_mapped_size(created->size));
		munmap(created->addr, own_mapped_size(created->size));
	}
	created_forget(created);
}

struct created *created_of(const tarn_storage *storage)
{
	return storage->release == created_release ? storage->arg : NULL;
}

void created_forget(struct created *created)
{
	fd_close(created->fd);
	tarn_storage_unref(created->under);
	free(created);
}

/* ---- making ---------------------------------------------------------- */

static int created_new(const tarn_store *store, uint64_t size, unsigned flags,
	bool blank, tarn_storage **ret)
{
	bool mutable = flags & TARN_CREATE_MUTABLE;
	struct created *created = malloc(sizeof(*created));
	uint64_t there = own_mapped_size(size);
	bool writes;
	int r;

	if (!created)
		return tarn_fail(ENOMEM, "out of memory");
	*created = (struct created) {.size = size,
		.fd = -1,
		.mutable = mutable,
		.place = own_place_of(store)};
	writes = own_may_write(&created->place);
	if (flags & TARN_CREATE_UNTAKEN || (blank && writes))
		there = 0;
	created->blank = writes && !there;
	r = own_create_part(
		size, there, &created->place, &created->fd, &created->addr);
	if (r < 0) {
		free(created);
		return r;
	}
	if (mutable)
		own_seal(created->fd, true);
	r = tarn_storage_new(TARN_STORAGE_OWNED, created->addr, size, true,
		created_release, created, ret);
	if (r < 0)
		created_release(created);
	return r;
}

int created_blank(tarn_store *store, uint64_t size, tarn_storage **ret)
{
	return created_new(store, size, 0, true, ret);
}

int created_write(
	tarn_storage *storage, uint64_t offset, const void *src, uint64_t size)
{
	struct created *created = created_of(storage);

	if (created->blank)
		return own_write(created->fd, offset, src, size);
	memcpy((char *)created->addr + offset, src, size);
	return 0;
}

int created_populate(tarn_storage *storage, uint64_t offset, uint64_t size)
{
	struct created *created = created_of(storage);

	return created->blank && size
		       ? own_take(&created->place,
				 (char *)created->addr + offset, size)
		       : 0;
}

int created_complete(tarn_storage *storage, uint64_t from)
{
	struct created *created = created_of(storage);

	return created->blank ? own_complete(created->fd, from,
					own_mapped_size(created->size))
			      : 0;
}

void created_spend(tarn_storage *storage)
{
	struct created *created = created_of(storage);

	if (created)
		created->spent = true;
}

int created_patch(int fd, struct patched *patched, void *data,
	tarn_storage *under, tarn_storage **ret)
{
	struct created *created = malloc(sizeof(*created));
	int r;

	if (!created)
		return tarn_fail_constant(ENOMEM, "out of memory");
	*created = (struct created) {.addr = data,
		.size = under->size,
		.patched = patched,
		.under = tarn_storage_ref(under),
		.fd = fd};
	r = tarn_storage_new(TARN_STORAGE_OWNED, data, under->size, false,
		created_release, created, ret);
	if (r < 0) {
		tarn_storage_unref(created->under);
		free(created);
	}
	return r;
}

int tarn_store_create(tarn_store *store, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, unsigned flags, tarn_tensor **ret)
{
	_cleanup_storage_ tarn_storage *storage = NULL;
	const unsigned known = TARN_CREATE_MUTABLE | TARN_CREATE_UNTAKEN;
	struct tarn_layout layout;
	uint64_t size = 0;
	int r = connection_ready(&store->connection);

	if (r >= 0 && flags & ~known)
		r = tarn_fail(EINVAL, "unknown flags %#x", flags & ~known);
	if (r >= 0 && flags == known)
		r = tarn_fail(EINVAL,
			"a mutable tensor has all its memory from the start; "
			"create it without TARN_CREATE_UNTAKEN");
	if (r >= 0)
		r = layout_contiguous("shape", dtype, ndim, shape, &layout);
	if (r >= 0) {
		size = (uint64_t)tarn_layout_nbytes(&layout);
		r = flags & TARN_CREATE_MUTABLE || size >= TARN_ADOPT_MIN
			    ? created_new(store, size, flags, false, &storage)
			    : tarn_storage_alloc(size, &storage);
	}
	if (r >= 0)
		r = tarn_tensor_new(storage, 0, &layout, ret);
	return r < 0 ? tarn_fail_prefix(r, "create: ") : 0;
}

int tarn_tensor_take(const tarn_tensor *tensor)
{
	const struct created *created = created_of(tensor->storage);
	uint64_t size;
	void *data;
	int r;

	/* Its memory is there: it is published, or no created one. */
	if (!created)
		return 0;
	tensor_reach(tensor, &data, &size);
	if (!size)
		return 0;
	r = own_check_room(size);
	if (r >= 0)
		r = own_take(&created->place, data, size);
	return r < 0 ? tarn_fail_prefix(r, "take: ") : 0;
}

int tarn_tensor_take_copy(tarn_tensor *dst, const tarn_tensor *src)
{
	const struct created *created = created_of(dst->storage);
	uint64_t size = (uint64_t)tarn_layout_nbytes(&dst->layout), at;
	int r;

	if (created && created->blank && tensor_is_plain(dst) &&
		tensor_is_plain(src) &&
		tarn_layout_equal(&dst->layout, &src->layout)) {
		at = (uint64_t)((char *)tarn_tensor_data(dst) -
				(char *)dst->storage->data);
		r = size ? created_write(dst->storage, at,
				   tarn_tensor_data(src), size)
			 : 0;
		return r < 0 ? tarn_fail_prefix(r, "copy: ") : 0;
	}
	r = tarn_tensor_take(dst);
	return r < 0 ? r : tarn_copy(dst, src, NULL, NULL);
}

/* ---- handing over ---------------------------------------------------- */

int created_freeze(tarn_storage *storage)
{
	struct created *created = created_of(storage);
	int r = own_remap_read_only(created->fd, created->addr, created->size);

	if (r < 0)
		return r;
	storage->writable = false;
	own_seal(created->fd, false);
	return 0;
}

static int renew(struct created *created)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());
	int r = own_renew(
		&created->fd, created->addr, created->size, &created->place);

	tarn_fail_verbatim(0, why ? why : "out of memory");
	return r;
}

void created_thaw(tarn_storage *storage)
{
	struct created *created = created_of(storage);

	/* If it was sealed already, this copies it; a mapping over it that the
	 * kernel refuses may cost the one that is there. Without memory for
	 * that it stays as it is, and can be published still; the publication
	 * did not fail because of it. */
	if ((!own_is_sealed(created->fd) &&
		    own_try_writable(
			    created->fd, created->addr, created->size)) ||
		renew(created) >= 0)
		storage->writable = true;
}

void created_is_shared(tarn_storage *storage, struct tarn_store *store,
	const struct msg_stored *stored)
{
	struct created *created = created_of(storage);
	struct shared_storage *shared = malloc(sizeof(*shared));
	tarn_storage *known = NULL;

	created->spent = true;
	if (!shared)
		return;
	/* Another thread may have opened it by its name already: then there is
	 * an object of it, and this one stays separate. */
	if (lease_book_hold(&store->book, &store->table, stored->index,
		    stored->generation, &known) < 0 ||
		known) {
		tarn_storage_unref(known);
		free(shared);
		return;
	}
	*shared = (struct shared_storage) {
		.store = store_ref(store),
		.storage = storage,
		.index = stored->index,
		.pool = stored->pool,
		.generation = stored->generation,
		.base = stored->base,
		.own = created->patched ? created->patched->map.start
					: created->addr,
		.patched = created->patched,
	};
	if (shared->patched)
		patched_published(
			shared->patched, stored->index, stored->generation);
	created_turn(storage, shared);
	lease_book_remember(
		&store->book, stored->index, stored->generation, storage);
}
