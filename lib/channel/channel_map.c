/* SPDX-License-Identifier: MIT */
/*
 * A channel's memory in this process: one mapping, of which the ring and the
 * words beside it are writable, and the bytes of slots as far as necessary.
 *
 * A process that only consumes a broadcast reads bytes that others read at the
 * same time, and a stray write of it would reach all of them: it maps those
 * bytes read-only.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/publish.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/channel/channel.h"
#include "lib/store/own_map.h"

/* The daemon checks the mode too; this check only names the owner. */
static int check_kind(const struct table_storage *entry)
{
	if (entry->flags & STORAGE_CHANNEL)
		return 0;
	return tarn_fail(EINVAL, "a tensor of that name is there");
}

static int map_file(tarn_channel *channel, const struct table_storage *entry)
{
	_cleanup_fd_ int fd = own_fetch_checked(
		channel->store, channel->index, channel->generation, entry);
	struct stat st;
	void *memory;

	if (fd < 0)
		return fd;
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return tarn_fail(EPERM,
			"this user may only read its pool, and every "
			"participant of a channel writes there");
	/* Read-only at first: the geometry determines how much of it becomes
	 * writable. */
	memory = mmap(NULL, entry->size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return tarn_fail(errno, "mapping %llu bytes: %s",
			(unsigned long long)entry->size,
			tarn_errno_text(errno));
	channel->map.memory = memory;
	channel->map.size = entry->size;
	channel->sparse = fstat(fd, &st) == 0 &&
			  (uint64_t)st.st_blocks * 512 < entry->size;
	return 0;
}

static int make_writable(void *from, uint64_t size)
{
	if (mprotect(from, size, PROT_READ | PROT_WRITE) < 0)
		return tarn_fail(errno, "%llu bytes to be written: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	return 0;
}

static uint64_t bytes_before_slots(const tarn_channel *channel)
{
	const struct channel_map *map = &channel->map;

	return (uint64_t)(map->bytes - (unsigned char *)map->memory);
}

static int map_bytes(tarn_channel *channel)
{
	struct channel_map *map = &channel->map;
	int r;

	if (channel->bytes_writable)
		return 0;
	r = make_writable(map->bytes, map->size - bytes_before_slots(channel));
	channel->bytes_writable = r >= 0;
	return r;
}

int channel_map_writable(tarn_channel *channel)
{
	int r;

	pthread_mutex_lock(&channel->mapping);
	r = map_bytes(channel);
	pthread_mutex_unlock(&channel->mapping);
	return r;
}

/* ---- what is to be filled --------------------------------------------- */

/* Without it no check would be made whether there is memory for the holes of a
 * slot, and filling it could be a SIGBUS. */
static int note_slots(tarn_channel *channel)
{
	const struct ring_geometry *g = &channel->map.geometry.ring;

	if (g->slot_bytes < CHANNEL_MAP_MIN)
		return 0;
	channel->mapped = calloc(g->slots, sizeof(*channel->mapped));
	if (!channel->mapped)
		return tarn_fail(ENOMEM, "no memory to note %u slots",
			(unsigned)g->slots);
	return 0;
}

/* The first write to a page of a shared file is a fault of a microsecond or
 * two, whether the page exists or not; reading maps many pages at once,
 * writable where the mapping is. */
static int map_ahead(void *start, uint64_t size)
{
	if (madvise(start, size, MADV_POPULATE_READ) == 0 ||
		(errno != ENOMEM && errno != EFAULT && errno != EHWPOISON))
		return 0;
	return tarn_fail(ENOMEM, "no memory for %llu bytes of a slot: %s",
		(unsigned long long)size, tarn_errno_text(errno));
}

static bool is_hole(void *page)
{
	unsigned char there = 0;

	return mincore(page, 1, &there) == 0 && !(there & 1);
}

/* Half of a huge page; smaller holes are covered by the reserve. */
#define HOLE_MIN (1ull << 20)

/* Is a part of the range not allocated yet? Its first and last page may be, by
 * an earlier, shorter content of the slot, or by the slots beside it. To check
 * each page would take a quarter of the time of mapping them. Swapped-out pages
 * look the same, and only cost the check whether there is room. */
static bool has_hole(unsigned char *from, uint64_t size, uint64_t page)
{
	for (uint64_t at = 0; at < size; at += HOLE_MIN)
		if (is_hole(from + at))
			return true;
	return is_hole(from + ((size - 1) & ~(page - 1)));
}

int channel_map_slot(tarn_channel *channel, uint32_t slot, uint64_t end)
{
	uint64_t *mapped = &channel->mapped[slot];
	uint64_t before = slot * channel->map.geometry.ring.slot_bytes;
	uint64_t page, from, size;
	unsigned char *at;
	int r;

	if (end < *mapped + CHANNEL_MAP_MIN)
		return 0;
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	/* A slot begins at a small page, which may lie in a larger one. */
	from = (before + *mapped) & ~(page - 1);
	size = before + end - from;
	at = channel->map.bytes + from;
	/* For small ones too, since there may be thousands of slots. */
	r = channel->sparse && has_hole(at, size, page)
		    ? own_check_room(MAX(size, (uint64_t)TARN_ADOPT_MIN))
		    : 0;
	if (r >= 0)
		r = map_ahead(at, size);
	if (r >= 0)
		*mapped = end;
	return r;
}

void channel_map_forget(tarn_channel *channel)
{
	if (channel->mapped)
		memset(channel->mapped, 0,
			channel->map.geometry.ring.slots *
				sizeof(*channel->mapped));
}

/* ---- all of it --------------------------------------------------------- */

int channel_map_storage(tarn_channel *channel, bool *ret_closed)
{
	struct channel_map *map = &channel->map;
	struct table_storage entry;
	int r;

	r = table_storage_get(&channel->store->table, channel->index,
		channel->generation, &entry);
	if (r >= 0)
		r = check_kind(&entry);
	if (r >= 0)
		r = map_file(channel, &entry);
	if (r >= 0)
		r = channel_attach(map, map->memory, map->size);
	if (r >= 0)
		r = make_writable(map->memory, bytes_before_slots(channel));
	if (r >= 0 && map->geometry.ring.mode == RING_QUEUE)
		r = map_bytes(channel);
	if (r >= 0)
		r = ring_attach(&channel->ring, map->ring, map->ring_size);
	if (r >= 0)
		r = note_slots(channel);
	if (r < 0)
		return r;
	channel->ring.beside = (const char *)map->records;
	channel->ring.beside_size =
		map->geometry.tensors * sizeof(*map->records);
	/* Only a hint. */
	madvise(map->bytes, map->size - bytes_before_slots(channel),
		MADV_HUGEPAGE);
	record_begin(channel);
	*ret_closed = channel_is_closed(map);
	return 0;
}

/* ---- copy-on-write ---------------------------------------------------- */

/* Kept open, since items come by thousands: one descriptor a channel. */
static int channel_fd(tarn_channel *channel)
{
	struct table_storage entry;
	int fd, seen, r;

	/* Acquire: pairs with the release of the exchange below. */
	seen = atomic_load_explicit(&channel->fd, memory_order_acquire);
	if (seen >= 0)
		return seen;
	r = table_storage_get(&channel->store->table, channel->index,
		channel->generation, &entry);
	if (r < 0)
		return r;
	fd = own_fetch_checked(
		channel->store, channel->index, channel->generation, &entry);
	/* Pairs with itself, in a thread that was not the first. */
	if (fd < 0 ||
		atomic_compare_exchange_strong_explicit(&channel->fd, &seen, fd,
			memory_order_acq_rel, memory_order_acquire))
		return fd;
	fd_close(fd); /* another thread was quicker */
	return seen;
}

/* A separate mapping for each item: writes to one must be gone when its slot
 * has another. */
int channel_map_cow(
	tarn_channel *channel, uint32_t slot, struct cow_map *map, void **ret)
{
	uint64_t size = channel->map.geometry.ring.slot_bytes, offset;
	int fd = channel_fd(channel), r;

	if (fd < 0)
		return fd;
	offset = bytes_before_slots(channel) + slot * size;
	r = cow_map_reserve(map, size, offset);
	if (r >= 0)
		r = cow_map_add(map, 0, fd, offset, map->size);
	if (r >= 0)
		*ret = map->start;
	return r;
}

static uint64_t twin_size(const tarn_channel *channel)
{
	return own_mapped_size(channel->map.size) - bytes_before_slots(channel);
}

static int map_twin(tarn_channel *channel, unsigned char **ret)
{
	struct cow_map map = {0};
	int fd = channel_fd(channel), r;

	if (fd < 0)
		return fd;
	r = cow_map_reserve(
		&map, twin_size(channel), bytes_before_slots(channel));
	if (r >= 0)
		r = cow_map_add(
			&map, 0, fd, bytes_before_slots(channel), map.size);
	if (r < 0)
		cow_map_done(&map);
	else
		*ret = map.start;
	return r;
}

/* Without a lock, as for the descriptor: a fork takes the connection's lock before
 * the channel's, so a thread that asks the server must have none of these. */
int channel_map_twin(tarn_channel *channel, uint32_t slot, void **ret)
{
	unsigned char *twin, *seen;
	int r;

	/* Acquire: pairs with the release of the exchange below. */
	seen = atomic_load_explicit(&channel->twin, memory_order_acquire);
	if (!seen) {
		r = map_twin(channel, &twin);
		if (r < 0)
			return r;
		/* Pairs with itself, in a thread that was not the first. */
		if (atomic_compare_exchange_strong_explicit(&channel->twin,
			    &seen, twin, memory_order_acq_rel,
			    memory_order_acquire))
			seen = twin;
		else
			munmap(twin, twin_size(channel));
	}
	*ret = seen + slot * channel->map.geometry.ring.slot_bytes;
	return 0;
}

void channel_unmap(tarn_channel *channel)
{
	/* Relaxed, both: no other thread has the channel. */
	unsigned char *twin =
		atomic_load_explicit(&channel->twin, memory_order_relaxed);

	if (twin)
		munmap(twin, twin_size(channel));
	fd_close(atomic_load_explicit(&channel->fd, memory_order_relaxed));
	free(channel->mapped);
	if (channel->map.memory)
		munmap(channel->map.memory, channel->map.size);
}
