/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a pool, mapped copy-on-write.
 *
 * The idea: no descriptor of a segment is kept, so each is asked for anew; who
 * asks has a lease on bytes in it, so it is still the one that is mapped
 * here, also after the daemon was upgraded: segments keep their numbers.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/pool_segments.h"

#define PAGE 4096ull

static const struct mapped_place *place_of(
	const struct pool_map *map, const struct mapped_pool *pool, uint64_t at)
{
	for (uint32_t i = 0; i < map->n_places; i++) {
		const struct mapped_place *p = &map->places[i];

		if (p->pool == pool && p->offset <= at && at < p->end)
			return p;
	}
	return NULL;
}

/* From byte at of the pool on to its segment's end, or to end; the byte after
 * that. */
static int map_piece(struct pool_map *map, const struct mapped_pool *pool,
	uint64_t at, uint64_t end, uint64_t begin, struct private_map *private,
	uint64_t *ret_at)
{
	const struct mapped_place *place = place_of(map, pool, at);
	_cleanup_fd_ int fd = -1;
	uint64_t stop;
	int r;

	if (!place)
		return tarn_fail(EBADMSG, "pool %u has no byte %llu", pool->id,
			(unsigned long long)at);
	stop = MIN(place->end, end);
	fd = pool_segments_fetch(
		map, place->number, place->end - place->offset);
	if (fd < 0)
		return fd;
	r = private_map_add(
		private, at - begin, fd, at - place->offset, stop - at);
	if (r >= 0)
		*ret_at = stop;
	return r;
}

static int map_range(struct pool_map *map, const struct mapped_pool *pool,
	uint64_t base, uint64_t size, struct private_map *private, void **ret)
{
	uint64_t begin = base & ~(PAGE - 1), at = begin, end;
	int r;

	/* It is mapped already, so that this fits. */
	end = (base + size + PAGE - 1) & ~(PAGE - 1);
	r = private_map_reserve(private, end - begin, begin);
	while (r >= 0 && at < end)
		r = map_piece(map, pool, at, end, begin, private, &at);
	if (r >= 0)
		*ret = private->start + (base - begin);
	return r;
}

int pool_map_private(struct pool_map *map, uint32_t pool_id, uint64_t base,
	uint64_t size, struct private_map *private, void **ret)
{
	struct mapped_pool *pool;
	int r;

	pthread_mutex_lock(&map->lock);
	pool = pool_by_id(map, pool_id);
	if (pool)
		r = map_range(map, pool, base, size, private, ret);
	else
		r = tarn_fail(EBADMSG, "there is no pool %u here", pool_id);
	pthread_mutex_unlock(&map->lock);
	return r;
}
