/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for a device and its driver: an allocation is a memfd, exporting it
 * duplicates the descriptor, importing it maps the memfd. So two processes that
 * see the same bytes share memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <tarn/tarn.h>

#include "lib/store/device_storage.h"

extern const uint8_t kit_device_uuid[16];
/* Since the beginning; allocations and imports that are there now. */
extern atomic_uint kit_device_exports, kit_device_imports, kit_device_live;

/* From now on the store has this driver. */
void kit_device_begin(void);
/* A new allocation of that size, each byte seed plus its place, as U8 of one
 * dimension. */
tarn_tensor *kit_device_tensor(int64_t size, unsigned seed);
/* The same of zeros, whose pages take memory when they are touched. */
tarn_tensor *kit_device_empty(int64_t size);
/* The bytes of a storage of the kind, at the address that the import has here;
 * bails out if it cannot be imported. */
unsigned char *kit_device_bytes(const tarn_tensor *tensor);
/* Are these the bytes of such an allocation? size: of the tensor. */
bool kit_device_has(const tarn_tensor *tensor, unsigned seed);
/* The inode of a storage's memfd: two that have the same share memory. */
uint64_t kit_device_inode(const tarn_tensor *tensor);
