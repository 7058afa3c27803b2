/* SPDX-License-Identifier: MIT */
/*
 * Storages from the inside. A kind plugs in through tarn_storage_new: it
 * brings its address (or a way to read without one) and what to call when the
 * last reference goes. A kind recognises its own by the release function, and
 * finds what it needs again in arg:
 *
 *	if (s->release == pool_release)
 *		struct pool_range *range = s->arg;
 */
#pragma once

#include <stdatomic.h>

#include <tarn/tensor.h>

#include "base/cleanup.h"

struct private_map;

struct tarn_storage {
	atomic_uint refs;
	/* A created storage becomes a shared one while other threads have it:
	 * what that changes is atomic (store_storage_turn). */
	_Atomic(enum tarn_storage_kind) kind;
	atomic_bool writable;
	uint64_t size; /* bytes */
	void *data;    /* NULL: no address, see read */
	/* Reads size bytes at offset; the range was checked. For storages
	 * without an address, or with one that may fail. 0 or a failure that
	 * was told. */
	int (*read)(const struct tarn_storage *storage, uint64_t offset,
		void *buf, uint64_t size);
	/* Maps all of it copy-on-write, for tarn_tensor_private; NULL: it is one
	 * of those that private.c knows, or to be copied. */
	int (*map_private)(const struct tarn_storage *storage,
		struct private_map *map, void **ret);
	void (*_Atomic release)(void *arg); /* may be NULL */
	void *_Atomic arg; /* read after release, by who has recognised that */
	/* Of something larger, which release frees, or keeps. No book knows it:
	 * it is found by references alone. */
	bool part;
	/* The one that tarn_tensor_private made of it, which holds this one;
	 * no reference. private.c alone reads and writes it, with its lock. */
	struct tarn_storage *private;
};

/* One reference, the caller's. On failure release is not called. */
int tarn_storage_new(enum tarn_storage_kind kind, void *data, uint64_t size,
	bool writable, void (*release)(void *arg), void *arg,
	tarn_storage **ret);

/*
 * tarn_storage_alloc for bytes that come from, or go to, a file at offset: if
 * it is large, its first byte lies as far behind a multiple of 4096 as that
 * offset does, so that they can travel directly.
 */
int storage_alloc_like(uint64_t size, uint64_t offset, tarn_storage **ret);

/* One in memory of the caller's, which tarn_storage_unref frees unless he says
 * that it is part of something; everything but refs, which is his to set. */
void tarn_storage_init(tarn_storage *storage, enum tarn_storage_kind kind,
	void *data, uint64_t size, bool writable, void (*release)(void *arg),
	void *arg);

/* Of a part: drops n references, and says whether they were the last. */
static inline bool storage_drop(tarn_storage *storage, unsigned n)
{
	/* Who has all that there are is alone with it, and nobody can come by
	 * one more. Acquire: pairs with the release of whoever dropped the
	 * others; and the same in the exchange, with itself. */
	return atomic_load_explicit(&storage->refs, memory_order_acquire) ==
		       n ||
	       atomic_fetch_sub_explicit(
		       &storage->refs, n, memory_order_acq_rel) == n;
}

/*
 * May the library itself read it by its address? Not what is mapped of a file:
 * when the file shrinks, a load there is SIGBUS, which a library must not
 * bring upon its user; pread can say so. Ask this, not whether there is an
 * address, before you read.
 */
static inline bool storage_by_address(const tarn_storage *storage)
{
	return storage->data && !storage->read;
}

/* Bytes offset .. offset + size - 1, wherever the storage is. */
int tarn_storage_read(const tarn_storage *storage, uint64_t offset, void *buf,
	uint64_t size);

/* ---- files (storage_file.c) ---------------------------------------- */

/*
 * The file behind a storage of one of the two kinds that have one, FILE and
 * MAPPED: their arg begins with this.
 */
struct storage_file {
	int fd; /* its own, without O_DIRECT */
	uint64_t offset; /* in the file, of the storage's first byte */
	bool readable, writable;
	atomic_int direct; /* see storage_file_direct */
};

/* NULL: the storage is no file. */
const struct storage_file *storage_file(const tarn_storage *storage);

/* The same file, open with O_DIRECT and the same rights: opened when it is
 * first asked for, the storage's to close. -1: not to be had. Any thread. */
int storage_file_direct(const tarn_storage *storage);

/* How an error sentence calls the file: its path, as far as size goes, or
 * something better than nothing. Returns buf. */
const char *storage_file_name(
	const struct storage_file *file, char *buf, size_t size);

/* For a kind that has a file in its arg: fd is duplicated. storage_file_close
 * takes one whose init has failed. */
int storage_file_init(struct storage_file *file, int fd, uint64_t offset,
	uint64_t size);
void storage_file_close(struct storage_file *file);

/* tarn_storage.read of such a kind. */
int storage_file_read(const tarn_storage *storage, uint64_t offset, void *buf,
	uint64_t size);

DEFINE_CLEANUP(tarn_storage *, tarn_storage_unref);
#define _cleanup_storage_ _cleanup_(tarn_storage_unrefp)
