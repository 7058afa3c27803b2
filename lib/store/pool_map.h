/* SPDX-License-Identifier: MIT */
/*
 * The pools as this process sees them: one reservation of addresses a pool,
 * with its segments mapped read-only at their offsets.
 *
 * Tensors may span segments, because neighbours in the pool are neighbours
 * here. A segment stays mapped until the daemon has dropped it and this process
 * notices (at its next look-up), or the store ends; its descriptor is closed
 * once it is mapped.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/store/connection.h"
#include "lib/store/cow_map.h"
#include "lib/store/pool_extent.h"
#include "shm/table.h"

struct mapped_pool {
	uint32_t id;
	uint64_t reach;
	uint64_t page_size; /* of all of its pages */
	bool registers;     /* TABLE_POOL_REGISTER */
	uint64_t reserved;  /* less than reach where addresses are limited */
	unsigned char *addr;
	unsigned char *twin; /* as much again, copy-on-write; NULL: none yet */
	struct pool_extents extents; /* the mapped parts */
};

/* A mapped segment, with the table's entry of that time. Its number may belong
 * to another segment now, whose serial differs. */
struct segment_mapping {
	uint32_t number;
	uint64_t serial;
	struct mapped_pool *pool;
	uint64_t offset, end;
	bool twin; /* it is mapped in the pool's twin too */
};

struct pool_map {
	pthread_mutex_t lock;
	struct connection *connection;
	const struct table *table;
	uint32_t n_pools;
	struct mapped_pool pools[TABLE_POOLS_MAX];
	/* By number, for those below n_seen: the serial of the segment that was
	 * last mapped, or skipped for lack of addresses; 0: none was. */
	uint64_t *seen;
	uint32_t n_seen;
	/* header.segment_changes when all dropped segments had been unmapped,
	 * and when also all shown segments had been mapped. */
	_Atomic uint64_t unmapped_at;
	uint64_t mapped_at;
	uint32_t n_mappings, room;
	struct segment_mapping *mappings;
};

void pool_map_init(struct pool_map *map, struct connection *connection,
	const struct table *table);
void pool_map_done(struct pool_map *map);

/* Maps the segments that are in the table and not in this process. */
int pool_map_update(struct pool_map *map);

/* The size of all pages of a pool; 0: there is no such pool here. */
uint64_t pool_page_size(struct pool_map *map, uint32_t pool);

/* The address of bytes base .. base + size of a pool, all of them mapped; asks
 * the daemon for segments only if there are new ones. -EBADMSG: the pool has
 * no such bytes. */
int pool_map_range(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, void **ret);

/* The same bytes copy-on-write, at separate addresses; the caller has leased
 * them. -ENOTSUP: they cannot be mapped like that. Whatever the result, the
 * caller ends cow_map. */
int pool_map_cow(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, struct cow_map *cow_map, void **ret);

/*
 * The same bytes in the pool's twin: a second reservation, in which segments
 * are mapped copy-on-write, each at its first use. So a twin costs a storage no
 * mapping of its own. -ENOTSUP as above.
 */
int pool_map_twin(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, void **ret);

/* pool_cuda.c: makes the segments in which these bytes lie readable by a device
 * of CUDA, registering them where that is needed. As cuda_reach. */
int pool_map_reach(struct pool_map *map, uint32_t pool, uint64_t base,
	uint64_t size, const uint8_t uuid[16]);
/* The same for the first segment that is not yet: 1, or 0 if there is none. Also
 * the bytes that are readable then, and of all segments. */
int pool_map_reach_next(struct pool_map *map, const uint8_t uuid[16],
	uint64_t *ret_done, uint64_t *ret_total);
/* Ends the registrations of all segments. */
void pool_map_unreach(struct pool_map *map);

/* Unmaps the segments that the daemon has dropped since the last call; nearly
 * free if it has dropped none. */
void pool_map_look(struct pool_map *map);
