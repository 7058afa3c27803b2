/* SPDX-License-Identifier: MIT */
/*
 * Mapping segments where the table says that they lie.
 *
 * The idea: addresses are reserved for the whole reach of a pool at once, so
 * that a pool can grow without anything that is mapped having to move, and
 * offset plus reservation is the address for good. Segments are numbered in
 * the order in which they came and never change but to be dropped, so "how
 * many have I seen, and how many of them went" tells whether anything is new.
 * One that takes the place of a dropped one has a higher number: whoever sees
 * it in the table sees that the other went, and unmaps that first.
 */
#include "lib/store/pool_map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"

#define HUGE_PAGE (2ull << 20) /* the unit of THP on x86-64, and on aarch64 */
#define REACH_MAX (1ull << 46) /* half of a 47-bit address space */
/* Where addresses are limited (ulimit -v, valgrind), a process does with as
 * much of a pool as it can get; less than this is not worth having. */
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
		munmap(map->pools[i].addr, map->pools[i].reserved);
		extents_free(&map->pools[i].extents);
	}
	free(map->places);
	pthread_mutex_destroy(&map->lock);
	*map = (struct pool_map) {0};
}

/* ---- pools ----------------------------------------------------------- */

/* Address space aligned so that huge pages of the memfd can be huge here. */
static unsigned char *reserve(uint64_t size, uint64_t align)
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

	while (!(pool->addr = reserve(size, align))) {
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

static struct mapped_pool *pool_by_id(struct pool_map *map, uint32_t id)
{
	for (uint32_t i = 0; i < map->n_pools; i++)
		if (map->pools[i].id == id)
			return &map->pools[i];
	return NULL;
}

/* ---- segments -------------------------------------------------------- */

/* Room to note one more: taken before anything is mapped, so that noting what
 * was mapped, or was unmapped, cannot fail. */
static int reserve_place(struct pool_map *map, struct mapped_pool *pool)
{
	uint32_t room = MAX(2 * map->room, 16u);
	struct mapped_place *places;

	if (map->n_places == map->room) {
		places = reallocarray(map->places, room, sizeof(*places));
		if (!places)
			return tarn_fail(ENOMEM,
				"pool: no memory for %u segments", room);
		map->places = places;
		map->room = room;
	}
	return extents_reserve(&pool->extents, map->n_places + 1);
}

static void note_place(struct pool_map *map, uint32_t number,
	struct mapped_pool *pool, uint64_t offset, uint64_t end)
{
	map->places[map->n_places++] = (struct mapped_place) {
		.number = number, .pool = pool, .offset = offset, .end = end};
	extents_add(&pool->extents, offset, end);
}

/* Addresses stay ours, memory goes. Where that cannot be had the pages stay
 * until the store ends, and nothing refers to them. */
static void unmap_place(struct mapped_place *place)
{
	struct mapped_pool *pool = place->pool;

	mmap(pool->addr + place->offset, place->end - place->offset, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	extents_remove(&pool->extents, place->offset, place->end);
}

static bool is_ready(struct pool_map *map, uint32_t number)
{
	/* Pairs with the release stores of state in table_drop_segment, and of
	 * n_segments in table_add_segment. */
	return atomic_load_explicit(&map->table->segments[number].state,
		       memory_order_acquire) == SEGMENT_READY;
}

static uint32_t n_dropped(const struct pool_map *map)
{
	/* Pairs with the release increment in table_drop_segment. */
	return atomic_load_explicit(
		&map->table->header->n_dropped, memory_order_acquire);
}

/* Nothing in them is leased, by this process or any other: that is why they
 * went. */
static void unmap_dropped(struct pool_map *map)
{
	/* Before the states: one that goes meanwhile is found next time. */
	uint32_t n = n_dropped(map), kept = 0;

	/* Relaxed: whether to look; the lock orders all else. */
	if (n == atomic_load_explicit(&map->n_dropped, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < map->n_places; i++)
		if (is_ready(map, map->places[i].number))
			map->places[kept++] = map->places[i];
		else
			unmap_place(&map->places[i]);
	map->n_places = kept;
	atomic_store_explicit(&map->n_dropped, n, memory_order_relaxed);
}

static int map_segment(struct pool_map *map, uint32_t number, int fd)
{
	struct table_segment *shared = &map->table->segments[number];
	uint64_t offset = shared->offset, size = shared->size, end;
	struct mapped_pool *pool = pool_by_id(map, shared->pool);
	int r;

	if (!pool || size == 0 || add_u64(offset, size, &end) ||
		end > pool->reach || (offset | size) & 4095)
		return tarn_fail(EPROTO,
			"daemon: segment %u of pool %u at %llu with %llu bytes "
			"does not fit",
			number, shared->pool, (unsigned long long)offset,
			(unsigned long long)size);
	if (end > pool->reserved)
		return 0; /* who needs it is told: pool_map_range */
	r = segment_check(fd, size);
	if (r >= 0)
		r = reserve_place(map, pool);
	if (r < 0)
		return r;
	if (mmap(pool->addr + offset, size, PROT_READ, MAP_SHARED | MAP_FIXED,
		    fd, 0) == MAP_FAILED)
		return tarn_fail(errno, "segment %u: mapping %llu bytes: %s",
			number, (unsigned long long)size,
			tarn_errno_text(errno));
	/* Only a wish: kernels without THP for shared memory say no. */
	madvise(pool->addr + offset, size, MADV_HUGEPAGE);
	note_place(map, number, pool, offset, end);
	return 0;
}

static int map_reply(struct pool_map *map, uint32_t first, uint32_t wanted,
	struct wire_message *reply)
{
	struct msg_segments got;
	int r = 0;

	memcpy(&got, reply->body, sizeof(got));
	if (got.first != first || got.count > wanted ||
		got.count != (uint32_t)reply->n_fds)
		return tarn_fail(EPROTO,
			"daemon: asked for segments %u to %u, it sent %u from "
			"%u and %d descriptors",
			first, first + wanted - 1, got.count, got.first,
			reply->n_fds);
	/* It may have been dropped after we looked. */
	if (got.count == 0 && is_ready(map, first))
		return tarn_fail(ESTALE, "daemon: it has no segment %u", first);
	for (uint32_t i = 0; i < got.count && r >= 0; i++) {
		_cleanup_fd_ int fd = wire_take_fd(reply, (int)i);

		r = map_segment(map, first + i, fd);
		if (r >= 0)
			map->n_seen = first + i + 1;
	}
	return r;
}

/* The next run of segments that are there; those dropped are passed over. */
static int fetch_some(struct pool_map *map, uint32_t n)
{
	struct msg_segments ask = {.first = map->n_seen};
	struct wire_message reply = {0};
	int r;

	while (ask.first < n && !is_ready(map, ask.first))
		ask.first++;
	map->n_seen = ask.first;
	while (ask.first + ask.count < n && ask.count < WIRE_FDS_MAX &&
		is_ready(map, ask.first + ask.count))
		ask.count++;
	if (ask.count == 0)
		return 0;
	r = connection_call(map->connection, WIRE_SEGMENTS, &ask, sizeof(ask),
		WIRE_SEGMENT_FDS, sizeof(struct msg_segments), &reply);
	if (r < 0)
		return r;
	r = map_reply(map, ask.first, ask.count, &reply);
	wire_message_clear(&reply);
	return r;
}

static uint32_t n_segments(const struct pool_map *map)
{
	/* Pairs with the release store of n_segments in table_add_segment. */
	uint32_t n = atomic_load_explicit(
		&map->table->header->n_segments, memory_order_acquire);

	return MIN(n, TABLE_SEGMENTS_MAX);
}

static int update(struct pool_map *map)
{
	/* First: what takes the place of a dropped one is counted after that
	 * was dropped. */
	uint32_t n = n_segments(map);
	int r;

	unmap_dropped(map);
	r = update_pools(map);

	while (r >= 0 && map->n_seen < n)
		r = fetch_some(map, n);
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

static bool is_behind(struct pool_map *map)
{
	/* Relaxed: a hint; the second look is under the lock. */
	return n_dropped(map) !=
	       atomic_load_explicit(&map->n_dropped, memory_order_relaxed);
}

void pool_map_look(struct pool_map *map)
{
	if (!is_behind(map))
		return;
	pthread_mutex_lock(&map->lock);
	unmap_dropped(map);
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
	if (n_segments(map) != map->n_seen || is_behind(map))
		r = update(map);
	pool = pool_by_id(map, pool_id);
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
