/* SPDX-License-Identifier: MIT */
/* What lies at the addresses of pools. To be called with the map's lock held. */
#pragma once

#include "lib/store/pool_map.h"

/* How many there are, dropped ones too. */
uint32_t pool_segments_count(const struct pool_map *map);

static inline uint32_t pool_segments_dropped(const struct pool_map *map)
{
	/* Pairs with the release increment in table_drop_segment. */
	return atomic_load_explicit(&map->table->header->n_dropped,
		memory_order_acquire);
}

/* Were any dropped since they were last looked at? Without the lock only a
 * hint. */
static inline bool pool_segments_behind(const struct pool_map *map)
{
	/* Relaxed: the lock orders all else. */
	return pool_segments_dropped(map) !=
	       atomic_load_explicit(&map->n_dropped, memory_order_relaxed);
}

/* Unmaps those that were dropped. Nothing in them is leased, by this process
 * or any other: that is why they went. */
void pool_segments_unmap(struct pool_map *map);
/* Asks for those numbered below n that are new, and maps them. */
int pool_segments_map(struct pool_map *map, uint32_t n);

/* The descriptor of segment number, of that size, for reading; the caller's. */
int pool_segments_fetch(struct pool_map *map, uint32_t number, uint64_t size);

/* pool_map.c: NULL where there is none. */
struct mapped_pool *pool_by_id(struct pool_map *map, uint32_t id);
