/* SPDX-License-Identifier: MIT */
/* A tensor from the inside: nothing changes after tarn_tensor_new but refs. */
#pragma once

#include <stdatomic.h>

#include "lib/tensor/storage.h"

struct tarn_tensor {
	atomic_uint refs;
	bool lodger; /* in memory that goes with its storage: see below */
	tarn_storage *storage;
	uint64_t base; /* byte of the storage from which layout counts */
	struct tarn_layout layout;
};

/* tarn_tensor_new for who has checked that layout is good and that all of it
 * lies in the storage. */
int tarn_tensor_new_checked(tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret);

/* The same in memory that the storage keeps for it until its last reference
 * goes, of which the tensor is given one of the caller's. Once for each such
 * place: nobody says when that tensor has ended. The layout may be the place's
 * own, made there. */
void tensor_lodge(tarn_tensor *place, tarn_storage *storage, uint64_t base,
	const struct tarn_layout *layout);

/* New zeroed memory in C order; zero bytes, whatever they mean in dtype. */
int tarn_tensor_alloc(int dtype, int ndim, const int64_t *shape,
	tarn_tensor **ret);

/* storage + base, to be indexed in elements; NULL for a tensor in a file. Not
 * to be read unless storage_by_address(). */
static inline void *tarn_tensor_origin(const tarn_tensor *tensor)
{
	char *data = tensor->storage->data;

	return data ? data + tensor->base : NULL;
}

/* 0, or -EROFS with the reason: "verb" is what the caller was about to do. */
int tarn_tensor_check_writable(const tarn_tensor *tensor, const char *verb);

/* The raw bits (number.h) of an element that the layout reaches. */
int tarn_tensor_load(const tarn_tensor *tensor, int64_t element,
	uint64_t *ret_raw);

DEFINE_CLEANUP(tarn_tensor *, tarn_tensor_unref);
#define _cleanup_tensor_ _cleanup_(tarn_tensor_unrefp)
