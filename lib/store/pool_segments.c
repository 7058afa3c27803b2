/* SPDX-License-Identifier: MIT */
/*
 * Mapping segments where the table says that they lie.
 *
 * The idea: segments are numbered in the order in which they came and never
 * change but to be dropped, so "how many have I seen, and how many of them
 * went" tells whether anything is new. One that takes the place of a dropped
 * one has a higher number: whoever sees it in the table sees that the other
 * went, and unmaps that first.
 */
#include "lib/store/pool_segments.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/segment.h"

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

void pool_segments_unmap(struct pool_map *map)
{
	/* Before the states: one that goes meanwhile is found next time. */
	uint32_t n = pool_segments_dropped(map), kept = 0;

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

int pool_segments_fetch(struct pool_map *map, uint32_t number, uint64_t size)
{
	struct msg_segments ask = {.first = number, .count = 1}, got;
	struct wire_message reply = {0};
	_cleanup_fd_ int fd = -1;
	int r;

	r = connection_call(map->connection, WIRE_SEGMENTS, &ask, sizeof(ask),
		WIRE_SEGMENT_FDS, sizeof(got), &reply);
	if (r < 0)
		return r;
	memcpy(&got, reply.body, sizeof(got));
	if (got.first == number && got.count == 1 && reply.n_fds == 1)
		fd = wire_take_fd(&reply, 0);
	wire_message_clear(&reply);
	if (fd < 0)
		return tarn_fail(EPROTO,
			"daemon: asked for segment %u, it sent %u from %u",
			number, got.count, got.first);
	r = segment_check(fd, size);
	return r < 0 ? r : fd_steal(&fd);
}

/* The next run of segments that are there, at most so many; those dropped are
 * passed over. */
static int fetch_some(struct pool_map *map, uint32_t n, uint32_t most)
{
	struct msg_segments ask = {.first = map->n_seen};
	struct wire_message reply = {0};
	int r;

	while (ask.first < n && !is_ready(map, ask.first))
		ask.first++;
	map->n_seen = ask.first;
	while (ask.first + ask.count < n && ask.count < most &&
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

int pool_segments_map(struct pool_map *map, uint32_t n)
{
	uint32_t most = WIRE_FDS_MAX;
	int r = 0;

	while (r >= 0 && map->n_seen < n) {
		r = fetch_some(map, n, most);
		if (r != -EMFILE || most == 1)
			continue;
		/* They are closed as they are mapped: a process, or a daemon,
		 * with few descriptors left does with one. */
		most = 1;
		r = 0;
	}
	return r;
}

uint32_t pool_segments_count(const struct pool_map *map)
{
	/* Pairs with the release store of n_segments in table_add_segment. */
	uint32_t n = atomic_load_explicit(
		&map->table->header->n_segments, memory_order_acquire);

	return MIN(n, TABLE_SEGMENTS_MAX);
}
