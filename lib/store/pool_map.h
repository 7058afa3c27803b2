/* SPDX-License-Identifier: MIT */
/*
 * The pools as this process sees them: one reservation of addresses a pool,
 * with its segments mapped read-only at their offsets.
 *
 * Tensors may span segments, because neighbours in the pool are neighbours
 * here. A segment stays mapped until the daemon has dropped it and this process
 * looks (at its next look-up), or the store ends; its descriptor is closed
 * once it is mapped.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/store/connection.h"
#include "lib/store/pool_extent.h"
#include "lib/store/private_map.h"
#include "shm/table.h"

struct mapped_pool {
	uint32_t id;
	uint64_t reach;
	uint64_t reserved; /* less than reach where addresses are limited */
	unsigned char *addr;
	struct pool_extents extents; /* what of it is mapped */
};

/* A segment that is mapped: what the table said of it then. */
struct mapped_place {
	uint32_t number;
	struct mapped_pool *pool;
	uint64_t offset, end;
};

struct pool_map {
	pthread_mutex_t lock;
	struct connection *connection;
	const struct table *table;
	uint32_t n_pools;
	struct mapped_pool pools[TABLE_POOLS_MAX];
	/* Segments numbered below this have been looked at: what the table
	 * says of them has been mapped. */
	uint32_t n_seen;
	_Atomic uint32_t n_dropped; /* as the table counted when last looked */
	uint32_t n_places, room;
	struct mapped_place *places;
};

void pool_map_init(struct pool_map *map, struct connection *connection,
	const struct table *table);
void pool_map_done(struct pool_map *map);

/* Maps what the table has and this process has not. */
int pool_map_update(struct pool_map *map);

/* The address of bytes base .. base + size of a pool, all of them mapped; asks
 * the daemon for segments only if there are new ones. -EBADMSG: the pool has
 * no such bytes. */
int pool_map_range(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, void **ret);

/* The same bytes copy-on-write, at addresses of their own; they are leased.
 * -ENOTSUP: they cannot be mapped so. Whatever it returns, the caller ends
 * private_map. */
int pool_map_private(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, struct private_map *private_map, void **ret);

/* Unmaps what the daemon has dropped since the last look; costs next to nothing
 * when it has not dropped anything. */
void pool_map_look(struct pool_map *map);
