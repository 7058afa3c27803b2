/* SPDX-License-Identifier: MIT */
/* Memory of tensors that is registered with a stream's engine
 * (tarn_stream_register). */
#pragma once

#include "base/cleanup.h"
#include "lib/io/io.h"
#include "lib/tensor/storage.h"

struct regions;

/* The engine's buffers from 0 to limit - 1 are for regions. */
int regions_new(
	struct tarn_io *io, unsigned limit, struct regions **ret) _must_check_;

/* No request may be under way. Takes NULL and returns NULL. */
struct regions *regions_free(struct regions *regions);
DEFINE_CLEANUP(struct regions *, regions_free);

/* Registers all of storage, which must have an address, and keeps it. 0; 1: not
 * possible here, the sentence says why. -ENOMEM. */
int regions_add(struct regions *regions, tarn_storage *storage);

/* The buffer that holds all of these bytes; -1: none. regions may be NULL. */
int regions_find(const struct regions *regions, const void *addr, size_t size);
