/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a pool, mapped copy-on-write.
 *
 * No descriptor of a segment is kept, so each is requested anew. The caller has
 * a lease on bytes in the segment, so its number still belongs to the segment
 * that is mapped here, also after an upgrade of the daemon: segments keep their
 * numbers and serials. The serial in the answer proves it.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/page.h"
#include "lib/store/pool_segments.h"

struct segment_mapping *pool_mapping_at(
	struct pool_map *map, const struct mapped_pool *pool, uint64_t at)
{
	for (uint32_t i = 0; i < map->n_mappings; i++) {
		struct segment_mapping *p = &map->mappings[i];

		if (p->pool == pool && p->offset <= at && at < p->end)
			return p;
	}
	return NULL;
}

/* Maps from byte at of the pool to its segment's end, or to end; returns the
 * byte after that. */
static int map_piece(struct pool_map *map, const struct mapped_pool *pool,
	uint64_t at, uint64_t end, uint64_t begin, struct cow_map *cow,
	uint64_t *ret_at)
{
	const struct segment_mapping *mapping = pool_mapping_at(map, pool, at);
	_cleanup_fd_ int fd = -1;
	uint64_t stop;
	int r;

	if (!mapping)
		return tarn_fail(EBADMSG, "pool %u has no byte %llu", pool->id,
			(unsigned long long)at);
	stop = MIN(mapping->end, end);
	fd = pool_segments_fetch(map, mapping);
	if (fd < 0)
		return fd;
	r = cow_map_add(cow, at - begin, fd, at - mapping->offset, stop - at);
	if (r >= 0)
		*ret_at = stop;
	return r;
}

static int map_range(struct pool_map *map, const struct mapped_pool *pool,
	uint64_t base, uint64_t size, struct cow_map *cow, void **ret)
{
	uint64_t begin = base & ~(PAGE - 1), at = begin, end;
	int r;

	/* It is mapped already, so this does not overflow. */
	end = (base + size + PAGE - 1) & ~(PAGE - 1);
	r = cow_map_reserve(cow, end - begin, begin);
	while (r >= 0 && at < end)
		r = map_piece(map, pool, at, end, begin, cow, &at);
	if (r >= 0)
		*ret = cow->start + (base - begin);
	return r;
}

int pool_map_cow(struct pool_map *map, uint32_t pool_id, uint64_t base,
	uint64_t size, struct cow_map *cow, void **ret)
{
	struct mapped_pool *pool;
	int r;

	pthread_mutex_lock(&map->lock);
	pool = pool_by_id(map, pool_id);
	if (pool)
		r = map_range(map, pool, base, size, cow, ret);
	else
		r = tarn_fail(EBADMSG, "there is no pool %u here", pool_id);
	pthread_mutex_unlock(&map->lock);
	return r;
}

/* ---- the twin ---------------------------------------------------------- */

static int twin_mapping(struct pool_map *map, struct mapped_pool *pool,
	struct segment_mapping *p)
{
	struct cow_map at = {
		.start = pool->twin + p->offset, .size = p->end - p->offset};
	_cleanup_fd_ int fd = -1;
	int r;

	if (p->twin)
		return 0;
	fd = pool_segments_fetch(map, p);
	if (fd < 0)
		return fd;
	r = cow_map_add(&at, 0, fd, 0, at.size);
	p->twin = r >= 0;
	return r;
}

static int twin_range(struct pool_map *map, struct mapped_pool *pool,
	uint64_t base, uint64_t size, void **ret)
{
	struct segment_mapping *mapping;
	int r = 0;

	if (!pool->twin)
		pool->twin = pool_reserve(pool->reserved, HUGE_PAGE);
	if (!pool->twin)
		return -ENOTSUP;
	for (uint64_t at = base; r >= 0 && at < base + size;
		at = mapping->end) {
		mapping = pool_mapping_at(map, pool, at);
		if (!mapping)
			return -ENOTSUP;
		r = twin_mapping(map, pool, mapping);
	}
	if (r >= 0)
		*ret = pool->twin + base;
	return r;
}

int pool_map_twin(struct pool_map *map, uint32_t pool_id, uint64_t base,
	uint64_t size, void **ret)
{
	struct mapped_pool *pool;
	int r = -ENOTSUP;

	pthread_mutex_lock(&map->lock);
	pool = pool_by_id(map, pool_id);
	if (pool)
		r = twin_range(map, pool, base, size, ret);
	pthread_mutex_unlock(&map->lock);
	return r;
}
