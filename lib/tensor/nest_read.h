/* SPDX-License-Identifier: MIT */
/* A nest of loops whose source has no address. */
#pragma once

#include "lib/move/nest.h"
#include "lib/tensor/storage.h"

/* Copies from a storage without an address: element 0 is at byte base. The nest
 * was planned by src, and has one dtype on both sides. */
int nest_read(const struct nest *nest, void *dst, const tarn_storage *storage,
	uint64_t base);
