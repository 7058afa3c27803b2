/* SPDX-License-Identifier: MIT */
/*
 * Pools in this process: addresses, and whether their bytes are mapped.
 *
 * Addresses are reserved for the whole reach of a pool at once, so that a pool
 * can grow without moving mapped memory, and reservation plus offset is the
 * address for good. pool_segments.c does the mapping.
 */
#include "lib/store/pool_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/cuda/cuda.h"
#include "lib/store/pool_segments.h"

#define REACH_MAX (1ull << 46) /* half of a 47-bit address space */
/* Where addresses are limited (ulimit -v, valgrind), a process uses as much of
 * a pool as it can reserve; with less than this it fails. */
#define RESERVE_MIN (1ull << 30)

void pool_map_init(struct pool_map *map, struct connection *connection,
	const struct table *table)
{
	*map = (struct pool_map) {.connection = connection, .table = table};
	pthread_mutex_init(&map->lock, NULL);
}

void pool_map_done(struct pool_map *map)
{
	if (!map->table)
		return;
	for (uint32_t i = 0; i < map->n_pools; i++) {
		cuda_forget(map->pools[i].addr, map->pools[i].reserved);
		munmap(map->pools[i].addr, map->pools[i].reserved);
		if (map->pools[i].twin)
			munmap(map->pools[i].twin, map->pools[i].reserved);
		extents_free(&map->pools[i].extents);
	}
	free(map->mappings);
	free(map->seen);
	pthread_mutex_destroy(&map->lock);
	*map = (struct pool_map) {0};
}

/* ---- pools ----------------------------------------------------------- */

/* Reserves address space, aligned so that huge pages of the memfd can be huge
 * here. */
unsigned char *pool_reserve(uint64_t size, uint64_t align)
{
	unsigned char *p = mmap(NULL, size + align, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t head;

	if (p == MAP_FAILED)
		return NULL;
	head = (align - ((uintptr_t)p & (align - 1))) & (align - 1);
	if (head)
		munmap(p, head);
	if (align - head)
		munmap(p + head + size, align - head);
	return p + head;
}

static int reserve_most(
	uint64_t reach, uint64_t align, struct mapped_pool *pool)
{
	uint64_t size = reach;

	while (!(pool->addr = pool_reserve(size, align))) {
		if (size <= RESERVE_MIN)
			return tarn_fail(ENOMEM,
				"pool: no room for %llu bytes of addresses "
				"(%s); is there a limit on them (ulimit -v)?",
				(unsigned long long)size,
				tarn_errno_text(errno));
		/* Still whole pages of any size. */
		size = MAX(size / 2 & ~(align - 1), RESERVE_MIN);
	}
	pool->reserved = size;
	return 0;
}

static int add_pool(struct pool_map *map, const struct table_pool *pool)
{
	uint64_t align = HUGE_PAGE;
	struct mapped_pool mapped = {.id = pool->id, .reach = pool->reach};
	int r;

	if (pool->page_shift < 12 || pool->page_shift > 30 ||
		pool->reach == 0 || pool->reach > REACH_MAX ||
		pool->reach & ((1ull << pool->page_shift) - 1))
		return tarn_fail(EPROTO,
			"daemon: pool %u reaches %llu bytes in pages of 2^%u",
			pool->id, (unsigned long long)pool->reach,
			pool->page_shift);
	if (1ull << pool->page_shift > align)
		align = 1ull << pool->page_shift;
	mapped.page_size = 1ull << pool->page_shift;
	mapped.registers = pool->flags & TABLE_POOL_REGISTER;
	r = reserve_most(pool->reach, align, &mapped);
	if (r < 0)
		return r;
	map->pools[map->n_pools++] = mapped;
	return 0;
}

static int update_pools(struct pool_map *map)
{
	/* Pairs with the release store of n_pools in table_add_pool: entries
	 * below the count are whole. */
	uint32_t n = atomic_load_explicit(
		&map->table->header->n_pools, memory_order_acquire);
	int r = 0;

	n = MIN(n, TABLE_POOLS_MAX);
	while (map->n_pools < n && r >= 0) {
		struct table_pool pool;

		memcpy(&pool, &map->table->pools[map->n_pools], sizeof(pool));
		r = add_pool(map, &pool);
	}
	return r;
}

struct mapped_pool *pool_by_id(struct pool_map *map, uint32_t id)
{
	for (uint32_t i = 0; i < map->n_pools; i++)
		if (map->pools[i].id == id)
			return &map->pools[i];
	return NULL;
}

/* ---- both ------------------------------------------------------------ */

static int update(struct pool_map *map)
{
	/* Read first: segments shown or dropped from here on are looked for
	 * again. */
	uint64_t changes = pool_segments_changes(map);
	int r;

	pool_segments_unmap(map);
	r = update_pools(map);
	if (r >= 0)
		r = pool_segments_map(map);
	if (r >= 0)
		map->mapped_at = changes;
	return r;
}

int pool_map_update(struct pool_map *map)
{
	int r;

	pthread_mutex_lock(&map->lock);
	r = update(map);
	pthread_mutex_unlock(&map->lock);
	return r;
}

uint64_t pool_page_size(struct pool_map *map, uint32_t pool_id)
{
	struct mapped_pool *pool;
	uint64_t size;

	pthread_mutex_lock(&map->lock);
	pool = pool_by_id(map, pool_id);
	size = pool ? pool->page_size : 0;
	pthread_mutex_unlock(&map->lock);
	return size;
}

void pool_map_look(struct pool_map *map)
{
	/* Relaxed: a hint; the lock orders everything else. */
	if (pool_segments_changes(map) ==
		atomic_load_explicit(&map->unmapped_at, memory_order_relaxed))
		return;
	pthread_mutex_lock(&map->lock);
	pool_segments_unmap(map);
	pthread_mutex_unlock(&map->lock);
}

int pool_map_range(struct pool_map *map, uint32_t pool_id, uint64_t base,
	uint64_t size, void **ret)
{
	struct mapped_pool *pool;
	uint64_t end;
	int r = 0;

	if (add_u64(base, size, &end))
		return tarn_fail(EBADMSG,
			"pool %u: %llu bytes at %llu pass the end of numbers",
			pool_id, (unsigned long long)size,
			(unsigned long long)base);
	pthread_mutex_lock(&map->lock);
	/* The caller has acquired the word of a storage, which was stored after
	 * its segment was counted in segment_changes. */
	if (pool_segments_changes(map) != map->mapped_at)
		r = update(map);
	pool = pool_by_id(map, pool_id);
	/* A process that can open no more descriptors, but has what it needs,
	 * should not fail because others added segments. */
	if (r == -EMFILE && pool &&
		(!size || extents_cover(&pool->extents, base, end)))
		r = 0;
	if (r >= 0 && !pool) {
		r = update_pools(map);
		pool = pool_by_id(map, pool_id);
	}
	if (r >= 0 && pool && end <= pool->reach && end > pool->reserved)
		r = tarn_fail(ENOMEM,
			"pool %u: byte %llu is past the %llu bytes of "
			"addresses that this process could get (ulimit -v)",
			pool_id, (unsigned long long)end,
			(unsigned long long)pool->reserved);
	if (r >= 0 &&
		(!pool || end > pool->reach ||
			(size && !extents_cover(&pool->extents, base, end))))
		r = tarn_fail(EBADMSG, "pool %u has no %llu bytes at %llu",
			pool_id, (unsigned long long)size,
			(unsigned long long)base);
	if (r >= 0)
		*ret = pool->addr + base;
	pthread_mutex_unlock(&map->lock);
	return r;
}
