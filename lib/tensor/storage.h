/* SPDX-License-Identifier: MIT */
/*
 * The internals of storages. A kind plugs in through tarn_storage_new: it
 * provides its address (or a function to read without one) and a function for
 * the end of the last reference. A kind recognises its own storages by the
 * release function, and finds its data in arg:
 *
 *	if (s->release == pool_release)
 *		struct pool_range *range = s->arg;
 */
#pragma once

#include <stdatomic.h>

#include <tarn/tensor.h>

#include "base/cleanup.h"
#include "base/identity.h"

struct cow_map;
struct cuda_device;
struct cuda_memory;
struct tarn_storage;

/*
 * A copy-on-write twin of a read-only storage's bytes, for code that may write
 * although the bytes are read-only: tarn_tensor_guard. It is made once, at the
 * first request, and dropped before the storage is released.
 */
struct storage_guard {
	void *_Atomic data; /* of the storage's first byte */
	void (*drop)(struct storage_guard *guard, struct tarn_storage *storage);
};

/* Where bytes are on a device. */
struct device_bytes {
	struct cuda_device *device; /* in use as long as the storage is */
	uint64_t at; /* the device's address of the storage's first byte */
	struct cuda_memory *memory;
};

struct tarn_storage {
	atomic_uint refs;
	/* A created storage becomes a shared one while other threads use it:
	 * the fields that change then are atomic (store_storage_turn). */
	_Atomic(enum tarn_storage_kind) kind;
	atomic_bool writable;
	uint64_t size; /* bytes */
	void *data;    /* NULL: no address, see read */
	/* Reads size bytes at offset; the range was checked. For storages
	 * without an address, or with one that may fail. 0, or an error whose
	 * sentence is set. */
	int (*read)(const struct tarn_storage *storage, uint64_t offset,
		void *buf, uint64_t size);
	/* NULL: it is not on a device. Otherwise makes the bytes ready for work
	 * of this process's; costs nothing once they are. */
	int (*on_device)(
		const struct tarn_storage *storage, struct device_bytes *ret);
	/* Maps all of it copy-on-write, for tarn_tensor_cow; NULL: cow.c
	 * handles the kind itself, or the bytes are copied. */
	int (*map_cow)(const struct tarn_storage *storage, struct cow_map *map,
		void **ret);
	/* Makes the twin; NULL: guard.c makes it. 0; 1: it cannot have one. */
	int (*make_guard)(
		struct tarn_storage *storage, struct storage_guard **ret);
	/* NULL: not made yet. Release stored by the exchange in guard.c; pairs
	 * with the acquire loads there. */
	struct storage_guard *_Atomic guard;
	void (*_Atomic release)(void *arg); /* may be NULL */
	void *_Atomic arg; /* read after release, by code that has recognised
			    * that */
	/* It is a part of a larger object, which release frees, or keeps. No
	 * lease book knows it: it is found through references alone. */
	bool part;
	/* The storage that tarn_tensor_cow made of it, which has a reference to
	 * this one; no reference. cow.c alone accesses it, with its lock. */
	struct tarn_storage *cow;
};

/* One reference, the caller's. On failure release is not called. */
int tarn_storage_new(enum tarn_storage_kind kind, void *data, uint64_t size,
	bool writable, void (*release)(void *arg), void *arg,
	tarn_storage **ret);

/*
 * tarn_storage_alloc for bytes that come from, or go to, a file at offset: if
 * it is large, its first byte lies as far after a multiple of 4096 as that
 * offset does, so that direct I/O is possible.
 */
int storage_alloc_like(uint64_t size, uint64_t offset, tarn_storage **ret);

/* tarn_storage_alloc of memory that has any values: for what is written before
 * it is read. */
int storage_alloc_any(uint64_t size, tarn_storage **ret);

/* Initialises a storage in the caller's memory, which tarn_storage_unref frees
 * unless the caller sets part; sets all fields except refs, which the caller
 * sets. */
void tarn_storage_init(tarn_storage *storage, enum tarn_storage_kind kind,
	void *data, uint64_t size, bool writable, void (*release)(void *arg),
	void *arg);

/* For release functions of parts; tarn_storage_unref calls it itself for the
 * others. No other thread may have the storage any more. */
static inline void storage_drop_guard(tarn_storage *storage)
{
	struct storage_guard *guard =
		atomic_load_explicit(&storage->guard, memory_order_relaxed);

	if (!guard)
		return;
	atomic_store_explicit(&storage->guard, NULL, memory_order_relaxed);
	guard->drop(guard, storage);
}

/* For a part: drops n references, and returns whether they were the last. */
static inline bool storage_drop(tarn_storage *storage, unsigned n)
{
	/* A thread that has all references is alone with it, and no other can
	 * get one. Acquire: pairs with the release of the threads that dropped
	 * the others; and the same in the exchange, with itself. */
	return atomic_load_explicit(&storage->refs, memory_order_acquire) ==
		       n ||
	       atomic_fetch_sub_explicit(
		       &storage->refs, n, memory_order_acq_rel) == n;
}

/*
 * May the library itself read it by its address? Not a mapped file: when the
 * file shrinks, a load there is SIGBUS, which a library must not cause; pread
 * returns an error. Call this before a read, instead of testing for an address.
 */
static inline bool storage_by_address(const tarn_storage *storage)
{
	return storage->data && !storage->read;
}

/* Reads bytes offset .. offset + size - 1, wherever the storage is. */
int tarn_storage_read(
	const tarn_storage *storage, uint64_t offset, void *buf, uint64_t size);

/* ---- files (storage_file.c) ---------------------------------------- */

/*
 * The file of a storage of the two kinds that have one, FILE and MAPPED: their
 * arg begins with this.
 */
struct storage_file {
	int fd;          /* its own, without O_DIRECT */
	uint64_t offset; /* in the file, of the storage's first byte */
	bool readable, writable;
	bool parsed; /* the ranges of its tensors come from a header, */
	struct file_identity seen; /* which was of this version */
	atomic_int direct;         /* see storage_file_direct */
};

/* NULL: the storage is not a file. */
const struct storage_file *storage_file(const tarn_storage *storage);

/* The same file, open with O_DIRECT and the same rights: opened at the first
 * request, and closed by the storage. -1: not possible. Any thread. */
int storage_file_direct(const tarn_storage *storage);

/* 0 unless the file was parsed and is another version now: -ESTALE. Call it
 * after reading. */
int storage_file_check(const struct storage_file *file);

/* The name of the file in error sentences: its path, as far as it fits into
 * size, or a substitute. Returns buf. */
const char *storage_file_name(
	const struct storage_file *file, char *buf, size_t size);

/* For a kind that has a file in its arg: fd is duplicated. storage_file_close
 * accepts a file whose init has failed. */
int storage_file_init(
	struct storage_file *file, int fd, uint64_t offset, uint64_t size);
void storage_file_close(struct storage_file *file);
static inline void storage_file_parsed(
	struct storage_file *file, const struct file_identity *seen)
{
	file->parsed = true;
	file->seen = *seen;
}

/* tarn_storage.read of such a kind. */
int storage_file_read(
	const tarn_storage *storage, uint64_t offset, void *buf, uint64_t size);

DEFINE_CLEANUP(tarn_storage *, tarn_storage_unref);
#define _cleanup_storage_ _cleanup_(tarn_storage_unrefp)
