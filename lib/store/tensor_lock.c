/* SPDX-License-Identifier: MIT */
/*
 * Locks on mutable tensors.
 *
 * A mutable storage has a memfd of its own, and so a file where the kernel
 * keeps locks (file_lock.c). The descriptor for that is requested at the first
 * lock, since most tensors are never locked.
 */
#include <stdatomic.h>

#include <tarn/publish.h>

#include "base/fail.h"
#include "lib/store/file_lock.h"
#include "lib/store/own_map.h"
#include "lib/store/store.h"
#include "lib/tensor/tensor.h"

static int check_mutable(const struct shared_storage *shared, const char *what)
{
	struct table_storage entry;
	int r;

	if (!shared)
		return tarn_fail(ENOTSUP,
			"%s: only a published mutable tensor can be locked",
			what);
	r = table_storage_get(&shared->store->table, shared->index,
		shared->generation, &entry);
	if (r >= 0 && !(entry.flags & STORAGE_MUTABLE))
		r = tarn_fail(ENOTSUP,
			"%s: this tensor never changes, so it needs no lock",
			what);
	return r;
}

/* Made at the first lock. */
static int lock_of(struct shared_storage *shared, struct file_lock **ret)
{
	/* Acquire: pairs with the release half of the exchange below. */
	struct file_lock *lock =
		atomic_load_explicit(&shared->lock, memory_order_acquire);
	struct file_lock *none = NULL;
	int r;

	if (!lock) {
		r = file_lock_new(&lock);
		if (r < 0)
			return r;
		/* Pairs with the acquire load above; and with itself, when
		 * another thread was faster. */
		if (!atomic_compare_exchange_strong_explicit(&shared->lock,
			    &none, lock, memory_order_acq_rel,
			    memory_order_acquire)) {
			file_lock_free(lock);
			lock = none;
		}
	}
	*ret = lock;
	return 0;
}

static int want_fd(struct shared_storage *shared, struct file_lock *lock)
{
	int fd;

	if (file_lock_has_fd(lock))
		return 0;
	fd = own_fetch(shared->store, shared->index, shared->generation,
		STORAGE_ALONE);
	if (fd < 0)
		return fd;
	file_lock_set_fd(lock, fd);
	return 0;
}

int tarn_tensor_lock_while(tarn_tensor *tensor, enum tarn_lock mode,
	int timeout_ms, int (*look)(void *arg), void *arg)
{
	struct shared_storage *shared = store_storage_of(tensor->storage);
	struct file_lock *lock;
	int r;

	if (mode != TARN_LOCK_READ && mode != TARN_LOCK_WRITE)
		return tarn_fail(EINVAL, "lock: there is no mode %d", mode);
	r = check_mutable(shared, "lock");
	if (r >= 0)
		r = lock_of(shared, &lock);
	if (r >= 0)
		r = want_fd(shared, lock);
	if (r >= 0)
		r = file_lock_take_while(
			lock, mode == TARN_LOCK_WRITE, timeout_ms, look, arg);
	return r;
}

int tarn_tensor_lock(tarn_tensor *tensor, enum tarn_lock mode, int timeout_ms)
{
	return tarn_tensor_lock_while(tensor, mode, timeout_ms, NULL, NULL);
}

int tarn_tensor_unlock(tarn_tensor *tensor)
{
	struct shared_storage *shared = store_storage_of(tensor->storage);
	struct file_lock *lock;
	int r = check_mutable(shared, "unlock");

	if (r >= 0)
		r = lock_of(shared, &lock);
	return r < 0 ? r : file_lock_give(lock);
}
