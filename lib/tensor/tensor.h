/* SPDX-License-Identifier: MIT */
/* The internals of a tensor: only refs changes after tarn_tensor_new. */
#pragma once

#include <stdatomic.h>

#include "lib/tensor/storage.h"

struct tarn_tensor {
	atomic_uint refs;
	bool lodger; /* in memory that the storage owns: see below */
	tarn_storage *storage;
	uint64_t base; /* byte of the storage from which layout counts */
	struct tarn_layout layout;
};

/* tarn_tensor_new for callers that have checked that layout is valid and that
 * all of it lies in the storage. */
int tarn_tensor_new_checked(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret);

/* The same in memory that the storage keeps for it until the storage's last
 * reference is dropped; the tensor takes over one reference of the caller's.
 * Only once for each such place, since the end of that tensor is not reported.
 * The layout may be the place's own, made there. */
void tensor_lodge(tarn_tensor *place, tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout);

/* New memory in C order: zero bytes, whatever they mean in dtype, or any bytes,
 * for callers that write all of it. op: the function that the caller called, for
 * the sentence. */
int tarn_tensor_alloc(const char *op, bool zeroed, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, tarn_tensor **ret);

/* A U8 tensor of one dimension over size bytes of the storage. */
int tensor_of_bytes(
	tarn_storage *storage, uint64_t base, uint64_t size, tarn_tensor **ret);

/* storage + base, to be indexed in elements; NULL for a tensor in a file. Read
 * through it only if storage_by_address(). */
static inline void *tarn_tensor_origin(const tarn_tensor *tensor)
{
	char *data = tensor->storage->data;

	return data ? data + tensor->base : NULL;
}

/* Are its bytes in memory, side by side in C order, to be read as they lie? */
static inline bool tensor_is_plain(const tarn_tensor *tensor)
{
	return storage_by_address(tensor->storage) &&
	       !tensor->storage->on_device &&
	       tarn_layout_is_contiguous(&tensor->layout);
}

/* The bytes that it reaches, in memory that has an address; no bytes where it
 * has no elements. */
void tensor_reach(const tarn_tensor *tensor, void **ret, uint64_t *ret_size);

/* 0, or -EROFS with the reason; verb: what the caller was about to do. */
int tarn_tensor_check_writable(const tarn_tensor *tensor, const char *verb);

/* The raw bits (number.h) of an element that the layout reaches. */
int tarn_tensor_load(
	const tarn_tensor *tensor, int64_t element, uint64_t *ret_raw);

DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);
#define _cleanup_tensor_ _cleanup_(tarn_tensor_unrefp)
