/* SPDX-License-Identifier: MIT */
/*
 * Mapping segments at their place in the table.
 *
 * A number and a serial together name one segment for good (table_segments.c),
 * so both are kept with each mapping. One count in the table shows whether any
 * entry has changed since all of them were read.
 */
#include "lib/store/pool_segments.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/cuda/cuda.h"
#include "shm/segment.h"

/* Makes room to note one more. This comes before anything is mapped, so that
 * noting a mapped or unmapped segment cannot fail. */
static int reserve_mapping(struct pool_map *map, struct mapped_pool *pool)
{
	uint32_t room = MAX(2 * map->room, 16u);
	struct segment_mapping *mappings;

	if (map->n_mappings == map->room) {
		mappings = reallocarray(map->mappings, room, sizeof(*mappings));
		if (!mappings)
			return tarn_fail(ENOMEM,
				"pool: no memory for %u segments", room);
		map->mappings = mappings;
		map->room = room;
	}
	return extents_reserve(&pool->extents, map->n_mappings + 1);
}

static void record_mapping(
	struct pool_map *map, const struct segment_mapping *mapping)
{
	map->mappings[map->n_mappings++] = *mapping;
	map->seen[mapping->number] = mapping->serial;
	extents_add(&mapping->pool->extents, mapping->offset, mapping->end);
}

/* The addresses stay reserved, the memory is released. If the reservation
 * fails, the pages stay until the store ends, and nothing refers to them. */
static void drop_mapping(struct segment_mapping *mapping)
{
	struct mapped_pool *pool = mapping->pool;

	cuda_forget(
		pool->addr + mapping->offset, mapping->end - mapping->offset);
	mmap(pool->addr + mapping->offset, mapping->end - mapping->offset,
		PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	if (mapping->twin)
		mmap(pool->twin + mapping->offset,
			mapping->end - mapping->offset, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			-1, 0);
	extents_remove(&pool->extents, mapping->offset, mapping->end);
}

void pool_segments_unmap(struct pool_map *map)
{
	/* Read before the words: a segment that is dropped meanwhile is found
	 * next time. */
	uint64_t changes = pool_segments_changes(map);
	uint32_t kept = 0;

	/* Relaxed: it only decides whether to look; the lock orders everything
	 * else. */
	if (changes ==
		atomic_load_explicit(&map->unmapped_at, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < map->n_mappings; i++) {
		struct segment_mapping *p = &map->mappings[i];

		if (table_segment_serial(map->table, p->number) == p->serial)
			map->mappings[kept++] = *p;
		else
			drop_mapping(p);
	}
	map->n_mappings = kept;
	atomic_store_explicit(&map->unmapped_at, changes, memory_order_relaxed);
}

/* The place of a segment; its pool is NULL where it has none here. */
static int place_segment(struct pool_map *map, uint32_t number,
	const struct segment_shown *s, struct segment_mapping *ret)
{
	struct mapped_pool *pool = pool_by_id(map, s->pool);
	uint64_t end;

	if (!pool || s->size == 0 || add_u64(s->offset, s->size, &end) ||
		end > pool->reach || (s->offset | s->size) & 4095)
		return tarn_fail(EPROTO,
			"daemon: segment %u of pool %u at %llu with %llu bytes "
			"does not fit",
			number, s->pool, (unsigned long long)s->offset,
			(unsigned long long)s->size);
	*ret = (struct segment_mapping) {
		.number = number,
		.serial = s->serial,
		/* pool_map_range reports it to readers that need it. */
		.pool = end > pool->reserved ? NULL : pool,
		.offset = s->offset,
		.end = end,
	};
	return 0;
}

/* Of a descriptor for reading. Only a pool whose entry says so has segments that
 * are not sealed against writing. */
static int check_segment(const struct segment_mapping *mapping, int fd)
{
	uint64_t size = mapping->end - mapping->offset;

	return mapping->pool->registers
		       ? segment_check_register(fd, size, O_RDONLY)
		       : segment_check(fd, size);
}

int pool_segment_map_at(
	const struct segment_mapping *mapping, int fd, int rights)
{
	unsigned char *at = mapping->pool->addr + mapping->offset;
	uint64_t size = mapping->end - mapping->offset;

	if (mmap(at, size, rights, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return tarn_fail(errno, "segment %u: mapping %llu bytes: %s",
			mapping->number, (unsigned long long)size,
			tarn_errno_text(errno));
	/* Only a hint: kernels without THP for shared memory refuse it. */
	madvise(at, size, MADV_HUGEPAGE);
	return 0;
}

static int add_mapping(
	struct pool_map *map, const struct segment_mapping *mapping, int fd)
{
	int r = check_segment(mapping, fd);

	if (r >= 0)
		r = reserve_mapping(map, mapping->pool);
	if (r < 0)
		return r;
	/* The segment that lay at these addresses was dropped, and counted,
	 * before this one was shown. Its place must not outlast its mapping. */
	pool_segments_unmap(map);
	r = pool_segment_map_at(mapping, fd, PROT_READ);
	if (r >= 0)
		record_mapping(map, mapping);
	return r;
}

/* Segments that are new here, with consecutive numbers. */
struct run {
	uint32_t first, count;
	uint64_t serials[WIRE_FDS_MAX];
};

/* Maps fd, which is of the segment with that serial according to the daemon. */
static int map_segment(struct pool_map *map, uint32_t number, uint64_t wanted,
	uint64_t serial, int fd)
{
	struct segment_shown shown = {0};
	struct segment_mapping mapping = {0};
	int r;

	if (!table_segment_get(map->table, number, &shown) ||
		shown.serial != serial)
		/* Dropped while it was requested: the count has changed. */
		return shown.serial != wanted
			       ? 0
			       : tarn_fail(ESTALE,
					 "daemon: segment %u is number %llu "
					 "there, and number %llu in its table",
					 number, (unsigned long long)serial,
					 (unsigned long long)wanted);
	r = place_segment(map, number, &shown, &mapping);
	if (r < 0)
		return r;
	if (mapping.pool)
		return add_mapping(map, &mapping, fd);
	map->seen[number] = serial;
	return 0;
}

/* Asks for the descriptors of segments; the caller clears *reply. */
static int ask_segments(struct pool_map *map, const struct msg_segments *ask,
	struct wire_message *reply, struct msg_segments *ret)
{
	uint32_t first = ask->first, count = ask->count;
	int r = connection_call(map->connection, WIRE_SEGMENTS, ask,
		sizeof(*ask), WIRE_SEGMENT_FDS, sizeof(*ask), reply);

	if (r < 0)
		return r;
	memcpy(ret, reply->body, sizeof(*ret));
	if (ret->first == first && ret->count <= count &&
		ret->count == (uint32_t)reply->n_fds &&
		reply->size >= sizeof(*ret) + ret->count * sizeof(uint64_t))
		return 0;
	r = tarn_fail(EPROTO,
		"daemon: asked for segments %u to %u, it sent %u from %u in "
		"%u bytes, and %d descriptors",
		first, first + count - 1, ret->count, ret->first, reply->size,
		reply->n_fds);
	wire_message_clear(reply);
	return r;
}

/* The serial of the i-th segment in a reply. */
static uint64_t serial_in(const struct wire_message *reply, uint32_t i)
{
	uint64_t serial;

	memcpy(&serial,
		reply->body + sizeof(struct msg_segments) + i * sizeof(serial),
		sizeof(serial));
	return serial;
}

/* Fetches the descriptors of a run, or of its first segments, and leaves the
 * rest to the caller. Returns how many were mapped, or are gone: at least
 * one. */
static int fetch_run(struct pool_map *map, const struct run *run)
{
	struct wire_message reply = {0};
	const struct msg_segments ask = {
		.first = run->first, .count = (uint16_t)run->count};
	struct msg_segments got = {0};
	int r = ask_segments(map, &ask, &reply, &got);

	if (r < 0)
		return r;
	if (got.count == 0 &&
		table_segment_serial(map->table, run->first) == run->serials[0])
		r = tarn_fail(
			ESTALE, "daemon: it has no segment %u", run->first);
	for (uint32_t i = 0; i < got.count && r >= 0; i++) {
		_cleanup_fd_ int fd = wire_take_fd(&reply, (int)i);

		r = map_segment(map, run->first + i, run->serials[i],
			serial_in(&reply, i), fd);
	}
	wire_message_clear(&reply);
	return r < 0 ? r : (int)MAX(got.count, 1u);
}

/* The first run of at most that many segments, from number from on and below
 * n. */
static void find_run(const struct pool_map *map, uint32_t from, uint32_t n,
	uint32_t most, struct run *ret)
{
	ret->count = 0;
	for (; from < n && ret->count < most; from++) {
		uint64_t serial = table_segment_serial(map->table, from);

		if (serial && serial != map->seen[from]) {
			if (!ret->count)
				ret->first = from;
			ret->serials[ret->count++] = serial;
		} else if (ret->count) {
			break;
		}
	}
}

/* How many numbers have been used. */
static uint32_t count_numbers(const struct pool_map *map)
{
	/* Pairs with the release store of n_segments in table_add_segment. */
	uint32_t n = atomic_load_explicit(
		&map->table->header->n_segments, memory_order_acquire);

	return MIN(n, TABLE_SEGMENTS_MAX);
}

static int reserve_seen(struct pool_map *map, uint32_t n)
{
	uint64_t *seen;

	if (n <= map->n_seen)
		return 0;
	seen = reallocarray(map->seen, n, sizeof(*seen));
	if (!seen)
		return tarn_fail(ENOMEM, "pool: no memory for %u segments", n);
	memset(seen + map->n_seen, 0, (n - map->n_seen) * sizeof(*seen));
	map->seen = seen;
	map->n_seen = n;
	return 0;
}

int pool_segments_map(struct pool_map *map)
{
	uint32_t n = count_numbers(map), most = WIRE_FDS_MAX;
	struct run run;
	int r = reserve_seen(map, n);

	if (r < 0)
		return r;
	/* Once along all numbers: the caller looks again if the count has
	 * changed, so this ends however fast segments are made and dropped. */
	for (uint32_t at = 0;;) {
		find_run(map, at, n, most, &run);
		if (!run.count)
			return 0;
		r = fetch_run(map, &run);
		if (r == -EMFILE && most > 1) {
			/* They are closed as they are mapped, so a process, or
			 * a daemon, with few descriptors left can do with one
			 * at a time. */
			most = 1;
			continue;
		}
		if (r < 0)
			return r;
		at = run.first + (uint32_t)r;
	}
}

/* *ret is -1 if the number belongs to another segment now, or to none. */
static int fetch(struct pool_map *map, const struct segment_mapping *mapping,
	uint16_t flags, int *ret)
{
	const struct msg_segments ask = {
		.first = mapping->number, .count = 1, .flags = flags};
	struct wire_message reply = {0};
	struct msg_segments got = {0};
	int r = ask_segments(map, &ask, &reply, &got);

	if (r < 0)
		return r;
	*ret = -1;
	if (got.count == 1 && serial_in(&reply, 0) == mapping->serial)
		*ret = wire_take_fd(&reply, 0);
	wire_message_clear(&reply);
	return 0;
}

int pool_segments_fetch(
	struct pool_map *map, const struct segment_mapping *mapping)
{
	_cleanup_fd_ int fd = -1;
	int r = fetch(map, mapping, 0, &fd);

	if (r < 0)
		return r;
	/* It is leased, so its number belongs to no other segment. */
	if (fd < 0)
		return tarn_fail(EPROTO,
			"daemon: segment %u was dropped while bytes in it are "
			"leased",
			mapping->number);
	r = check_segment(mapping, fd);
	return r < 0 ? r : fd_steal(&fd);
}

int pool_segments_fetch_writable(
	struct pool_map *map, const struct segment_mapping *mapping)
{
	_cleanup_fd_ int fd = -1;
	int r = fetch(map, mapping, SEGMENTS_WRITABLE, &fd);

	if (r < 0)
		return r;
	if (fd < 0)
		return table_segment_serial(map->table, mapping->number) ==
				       mapping->serial
			       ? tarn_fail(EPROTO,
					 "daemon: it sends no segment %u for "
					 "writing",
					 mapping->number)
			       : tarn_fail(ESTALE,
					 "daemon: segment %u was dropped "
					 "meanwhile",
					 mapping->number);
	r = segment_check_register(fd, mapping->end - mapping->offset, O_RDWR);
	return r < 0 ? r : fd_steal(&fd);
}
