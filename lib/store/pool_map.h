/* SPDX-License-Identifier: MIT */
/*
 * The pools as this process sees them: one reservation of addresses a pool,
 * with its segments mapped read-only at their offsets.
 *
 * Tensors may span segments, because neighbours in the pool are neighbours
 * here. A segment stays mapped as long as the store lives; its descriptor is
 * closed once it is.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/store/connection.h"
#include "shm/table.h"

struct pool_extent {
	uint64_t offset; /* in the pool */
	uint64_t end;
};

struct mapped_pool {
	uint32_t id;
	uint64_t reach;
	uint64_t reserved; /* less than reach where addresses are limited */
	unsigned char *addr;
	uint32_t n_extents; /* sorted, apart from each other */
	struct pool_extent *extents;
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
