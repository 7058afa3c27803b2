/* SPDX-License-Identifier: MIT */
/*
 * Segments of pools, registered for devices.
 *
 * A segment is registered whole, with the map's lock held: so it cannot be
 * unmapped meanwhile, and what unmaps it finds the registration.
 *
 * A device that registers no read-only memory needs a writable mapping at that
 * moment, and at no other. In a pool of kind register this process may have one,
 * if it is of the daemon's uid: at the same addresses, of the same pages, so that
 * threads that read them notice nothing. A fork waits for the lock, so that no
 * child inherits it.
 */
#include <errno.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/cuda/cuda.h"
#include "lib/store/pool_segments.h"

static unsigned char *start_of(const struct segment_mapping *mapping)
{
	return mapping->pool->addr + mapping->offset;
}

static uint64_t size_of(const struct segment_mapping *mapping)
{
	return mapping->end - mapping->offset;
}

/* Takes the right to write away again. Whatever fails, nothing stays registered
 * that this process could write. */
static int protect(const struct segment_mapping *mapping, int fd)
{
	int r = 0;

	if (mprotect(start_of(mapping), size_of(mapping), PROT_READ) < 0)
		r = pool_segment_map_at(mapping, fd, PROT_READ);
	if (r < 0)
		cuda_forget(start_of(mapping), size_of(mapping));
	return r;
}

static int reach_writable(struct pool_map *map,
	const struct segment_mapping *mapping, const uint8_t uuid[16])
{
	_cleanup_fd_ int fd = pool_segments_fetch_writable(map, mapping);
	int r, e;

	if (fd < 0)
		return fd;
	r = pool_segment_map_at(mapping, fd, PROT_READ | PROT_WRITE);
	if (r >= 0)
		r = cuda_reach(start_of(mapping), size_of(mapping), true, uuid);
	/* Also where mapping it failed: what was there may be gone. */
	e = protect(mapping, fd);
	return r < 0 ? r : e;
}

static int reach_segment(struct pool_map *map,
	const struct segment_mapping *mapping, const uint8_t uuid[16])
{
	int r = 0;

	if (mapping->pool->registers)
		r = cuda_needs_writable(
			start_of(mapping), size_of(mapping), uuid);
	if (r == 0)
		return cuda_reach(
			start_of(mapping), size_of(mapping), false, uuid);
	return r < 0 ? r : reach_writable(map, mapping, uuid);
}

static int reach_range(struct pool_map *map, const struct mapped_pool *pool,
	uint64_t base, uint64_t size, const uint8_t uuid[16])
{
	uint64_t end = base + size; /* it is mapped: no overflow */
	int r = 0;

	while (r >= 0 && base < end) {
		const struct segment_mapping *mapping =
			pool_mapping_at(map, pool, base);

		if (!mapping)
			return tarn_fail(EBADMSG, "pool %u has no byte %llu",
				pool->id, (unsigned long long)base);
		r = reach_segment(map, mapping, uuid);
		base = mapping->end;
	}
	return r;
}

int pool_map_reach(struct pool_map *map, uint32_t pool_id, uint64_t base,
	uint64_t size, const uint8_t uuid[16])
{
	struct mapped_pool *pool;
	int r;

	pthread_mutex_lock(&map->lock);
	pool = pool_by_id(map, pool_id);
	if (pool)
		r = reach_range(map, pool, base, size, uuid);
	else
		r = tarn_fail(EBADMSG, "there is no pool %u here", pool_id);
	pthread_mutex_unlock(&map->lock);
	return r;
}

/* What a device reads already, of all; and the first that it does not, or
 * NULL. */
static int survey(const struct pool_map *map, const uint8_t uuid[16],
	uint64_t *ret_done, uint64_t *ret_total,
	const struct segment_mapping **ret_next)
{
	*ret_done = *ret_total = 0;
	*ret_next = NULL;
	for (uint32_t i = 0; i < map->n_mappings; i++) {
		const struct segment_mapping *p = &map->mappings[i];
		uint64_t at;
		int r = cuda_known(start_of(p), size_of(p), false, uuid, &at);

		if (r < 0)
			return r;
		*ret_total += size_of(p);
		if (r == 0)
			*ret_done += size_of(p);
		else if (!*ret_next)
			*ret_next = p;
	}
	return 0;
}

int pool_map_reach_next(struct pool_map *map, const uint8_t uuid[16],
	uint64_t *ret_done, uint64_t *ret_total)
{
	const struct segment_mapping *next;
	int r;

	pthread_mutex_lock(&map->lock);
	pool_segments_unmap(map);
	r = survey(map, uuid, ret_done, ret_total, &next);
	if (r >= 0 && next) {
		r = reach_segment(map, next, uuid);
		/* Dropped meanwhile: the next call unmaps it. */
		if (r == -ESTALE)
			r = 0;
		else
			*ret_done += size_of(next);
	}
	pthread_mutex_unlock(&map->lock);
	return r < 0 ? r : next != NULL;
}

void pool_map_unreach(struct pool_map *map)
{
	pthread_mutex_lock(&map->lock);
	for (uint32_t i = 0; i < map->n_mappings; i++)
		cuda_forget(start_of(&map->mappings[i]),
			size_of(&map->mappings[i]));
	pthread_mutex_unlock(&map->lock);
}
