/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a storage, to be mapped copy-on-write.
 */
#pragma once

#include <tarn/tensor.h>

#include "lib/store/cow_map.h"

/* Up to this size a copy takes no longer than a request for a descriptor. */
#define COW_COPY_MAX (64u << 10)

/* All bytes of a storage, whatever its kind. -ENOTSUP: there is nothing to map,
 * or it cannot be mapped like that. Whatever the result, the caller ends
 * map. */
int cow_map_storage(
	const tarn_storage *storage, struct cow_map *map, void **ret);
