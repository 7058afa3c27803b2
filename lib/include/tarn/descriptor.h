/* SPDX-License-Identifier: MIT */
/*
 * The descriptor: 256 bytes that hand a tensor over.
 *
 * It holds no pointer, so it may travel by any way: a channel, a pipe, a
 * socket, a file, MPI. All fields are little-endian and of fixed width. base is
 * the byte of the pool's address range from which the layout counts, at any
 * alignment; offset and strides are in elements from there; size is that of the
 * whole storage, as the table has it. tarn_store_import checks every field: a
 * hostile descriptor is an error, never a read out of bounds.
 *
 * It holds no reference either. Handing a tensor over is safe in this order:
 * the sender holds the tensor and sends its descriptor; the receiver imports
 * it, and confirms; then the sender drops it. If the sender drops it before, or
 * dies, and no name holds the storage, the import fails with -ESTALE, without
 * harm: it never yields other bytes, since no storage has the same index and
 * generation as one before it.
 */
#pragma once

#include <stdint.h>

#include <tarn/layout.h>

#define TARN_DESCRIPTOR_MAGIC 0x6e726174u /* "tarn" */
#define TARN_DESCRIPTOR_VERSION 1

struct tarn_descriptor {
	uint32_t magic;
	uint16_t version;
	uint16_t flags;	     /* 0 */
	uint64_t instance;   /* of the daemon that made it; random */
	uint32_t pool;
	uint32_t storage;    /* index in that daemon's storage table */
	uint64_t generation; /* of that index: a stale one is -ESTALE */
	uint64_t base;	     /* byte of the pool from which the layout counts */
	uint64_t size;	     /* bytes of the storage */
	int64_t offset;	     /* elements from base */
	uint8_t dtype;
	uint8_t ndim;
	uint8_t zero[6];
	int64_t shape[TARN_NDIM_MAX];
	int64_t stride[TARN_NDIM_MAX];
};

#ifdef __cplusplus
static_assert(sizeof(struct tarn_descriptor) == 256, "the unit of exchange");
#else
_Static_assert(sizeof(struct tarn_descriptor) == 256, "the unit of exchange");
#endif
