/* SPDX-License-Identifier: MIT */
/*
 * On which NUMA node memory lies that this process makes for itself, before it
 * is published: where its pool would put it.
 */
#pragma once

#include <stdint.h>

#include "shm/place.h"

struct tarn_store;

struct own_place {
	enum place_policy policy; /* PLACE_AUTO: as the kernel has it */
	int node;                 /* of PLACE_ON_NODE */
};

struct own_place own_place_of(const struct tarn_store *store);
/* The node for a request's flags (place.h). */
uint32_t own_place_wish(const struct tarn_store *store);

/* Before any page of the mapping is there. -ENODEV, -ENOSPC, -EPERM with a
 * sentence. */
int own_place_bind(const struct own_place *place, void *addr, uint64_t size);
/* Of a populated mapping: does every page lie there? -ENOSPC. */
int own_place_check(const struct own_place *place, void *addr, uint64_t size);
