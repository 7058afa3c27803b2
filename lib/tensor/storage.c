// SPDX-License-Identifier: MIT
/*
 * Storages: a counted reference to bytes somewhere. The count is all that is
 * shared here; who owns the bytes is known only to the release function, so
 * that lent memory, a daemon's pool and a file differ in nothing else.
 */
#include "lib/tensor/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* A cache line, and the widest vector of any CPU that we run on. */
#define ALIGNMENT 64

/* All that a process can address with four levels of pages. Asked for more,
 * some allocators abort instead of saying no. */
#define MAX_ALLOC (1ull << 47)

void tarn_storage_init(tarn_storage *storage, enum tarn_storage_kind kind,
	void *data, uint64_t size, bool writable, void (*release)(void *arg),
	void *arg)
{
	atomic_init(&storage->kind, kind);
	atomic_init(&storage->writable, writable);
	storage->size = size;
	storage->data = data;
	storage->read = NULL;
	atomic_init(&storage->release, release);
	atomic_init(&storage->arg, arg);
}

int tarn_storage_new(enum tarn_storage_kind kind, void *data, uint64_t size,
	bool writable, void (*release)(void *arg), void *arg,
	tarn_storage **ret)
{
	tarn_storage *s = malloc(sizeof(*s));

	if (!s)
		return tarn_fail(ENOMEM, "storage: out of memory");
	atomic_init(&s->refs, 1);
	tarn_storage_init(s, kind, data, size, writable, release, arg);
	*ret = s;
	return 0;
}

int tarn_storage_alloc(uint64_t size, tarn_storage **ret)
{
	_cleanup_free_ void *raw = NULL;
	uint64_t total;
	uintptr_t start;
	int r;

	if (add_u64(size, ALIGNMENT, &total) || total > MAX_ALLOC)
		return tarn_fail(ENOMEM,
			"storage: %llu bytes are more than one address space",
			(unsigned long long)size);
	/* calloc, not aligned_alloc and memset: pages of large blocks are
	 * zero when they come from the kernel and are not touched here. */
	raw = calloc(1, total);
	if (!raw)
		return tarn_fail(ENOMEM, "storage: no memory for %llu bytes",
			(unsigned long long)size);
	start = ((uintptr_t)raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
	r = tarn_storage_new(
		TARN_STORAGE_OWNED, (void *)start, size, true, free, raw, ret);
	if (r >= 0)
		raw = NULL;
	return r;
}

int tarn_storage_borrow(void *data, uint64_t size, bool writable,
	void (*release)(void *arg), void *arg, tarn_storage **ret)
{
	if (!data && size > 0)
		return tarn_fail(EINVAL,
			"storage: %llu bytes were lent without an address",
			(unsigned long long)size);
	if (size > PTRDIFF_MAX)
		return tarn_fail(EOVERFLOW,
			"storage: %llu bytes are more than one address space",
			(unsigned long long)size);
	return tarn_storage_new(
		TARN_STORAGE_BORROWED, data, size, writable, release, arg, ret);
}

tarn_storage *tarn_storage_ref(tarn_storage *storage)
{
	/* Relaxed: whoever passes a reference on already holds one, and how it
	 * came to this thread ordered everything else. */
	if (storage)
		atomic_fetch_add_explicit(
			&storage->refs, 1, memory_order_relaxed);
	return storage;
}

tarn_storage *tarn_storage_unref(tarn_storage *storage)
{
	if (!storage)
		return NULL;
	/* Release: this thread's last accesses happen before the bytes are
	 * given back; pairs with the acquire half of the same in whichever
	 * thread drops the last reference. A fence there would do, but
	 * ThreadSanitizer knows of none. */
	if (atomic_fetch_sub_explicit(
		    &storage->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	if (storage->release)
		storage->release(storage->arg);
	free(storage);
	return NULL;
}

int tarn_storage_read(
	const tarn_storage *storage, uint64_t offset, void *buf, uint64_t size)
{
	uint64_t end;

	if (add_u64(offset, size, &end) || end > storage->size)
		return tarn_fail(ERANGE,
			"storage: bytes %llu to %llu of a storage of %llu",
			(unsigned long long)offset,
			(unsigned long long)(offset + size),
			(unsigned long long)storage->size);
	if (size == 0)
		return 0;
	if (!storage_by_address(storage))
		return storage->read(storage, offset, buf, size);
	memcpy(buf, (const char *)storage->data + offset, size);
	return 0;
}

enum tarn_storage_kind tarn_storage_kind(const tarn_storage *storage)
{
	return storage->kind;
}

uint64_t tarn_storage_size(const tarn_storage *storage)
{
	return storage->size;
}

bool tarn_storage_writable(const tarn_storage *storage)
{
	return storage->writable;
}

void *tarn_storage_data(const tarn_storage *storage)
{
	return storage->data;
}
