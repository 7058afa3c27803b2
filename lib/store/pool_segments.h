/* SPDX-License-Identifier: MIT */
/* The mappings at the addresses of pools. Call these with the map's lock
 * held. */
#pragma once

#include "lib/store/pool_map.h"

/* How often the table has shown or dropped a segment. */
static inline uint64_t pool_segments_changes(const struct pool_map *map)
{
	/* Acquire: pairs with the release additions in table_segments.c and
	 * table_recover.c; the entries are in the state that was counted, or
	 * newer. */
	return atomic_load_explicit(
		&map->table->header->segment_changes, memory_order_acquire);
}

/* Unmaps the dropped segments. No process has a lease on anything in them: that
 * is why they were dropped. */
void pool_segments_unmap(struct pool_map *map);
/* Asks for the segments that are not mapped yet, and maps them. */
int pool_segments_map(struct pool_map *map);

/* Returns a descriptor for reading of the segment that is mapped there; the
 * caller closes it. This process must lease a storage in that segment. */
int pool_segments_fetch(
	struct pool_map *map, const struct segment_mapping *mapping);

/* The same, for reading and writing, in a pool with the flag; -EPERM: not for
 * this process. It need not lease anything there: -ESTALE if the segment was
 * dropped meanwhile. */
int pool_segments_fetch_writable(
	struct pool_map *map, const struct segment_mapping *mapping);
/* Maps the segment, or maps it anew, at its place. */
int pool_segment_map_at(
	const struct segment_mapping *mapping, int fd, int rights);

/* pool_cow.c: what is mapped at that byte of a pool, or NULL. */
struct segment_mapping *pool_mapping_at(
	struct pool_map *map, const struct mapped_pool *pool, uint64_t at);
/* pool_map.c: addresses at which huge pages of a memfd can be huge; or NULL. */
unsigned char *pool_reserve(uint64_t size, uint64_t align);
/* pool_map.c: the pool with that id, or NULL. */
struct mapped_pool *pool_by_id(struct pool_map *map, uint32_t id);
