/* SPDX-License-Identifier: MIT */
/*
 * The memory of a channel: its size, making it, checking it, and searching it
 * for the storages that its items keep.
 *
 * One function computes where everything is, from four numbers. The process
 * that makes a channel and each process that maps one call it, so both agree or
 * neither has a channel.
 */
#include "shm/channel.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/lease.h"
#include "shm/ring_internal.h"

struct places {
	size_t ring_size;
	uint64_t held, records, bytes, size;
};

static bool is_geometry(const struct channel_geometry *g)
{
	return (g->ring.mode == RING_QUEUE || g->ring.mode == RING_BROADCAST) &&
	       g->ring.slots >= 1 && g->ring.slots <= RING_SLOTS_MAX &&
	       g->tensors >= 1 && g->tensors <= CHANNEL_TENSORS_MAX &&
	       (uint64_t)g->ring.slots * g->tensors <= CHANNEL_RECORDS_MAX &&
	       g->ring.slot_bytes % CHANNEL_PAGE == 0 &&
	       !(g->flags & ~CHANNEL_EPHEMERAL);
}

static int find_places(const struct channel_geometry *g, struct places *ret)
{
	struct places p;
	uint64_t records = (uint64_t)g->ring.slots * g->tensors, end;

	if (!is_geometry(g))
		return tarn_fail(EINVAL,
			"channel: mode %d, %u slots of %llu bytes, %u tensors, "
			"flags 0x%x; mode 1 or 2, 1 to %u slots of whole "
			"pages, 1 to %u tensors, and %u records in all are "
			"possible",
			(int)g->ring.mode, g->ring.slots,
			(unsigned long long)g->ring.slot_bytes, g->tensors,
			g->flags, RING_SLOTS_MAX, CHANNEL_TENSORS_MAX,
			CHANNEL_RECORDS_MAX);
	/* Offsets up to the bytes are some hundred megabytes at most: nothing
	 * overflows. */
	if (ring_size(&g->ring, &p.ring_size) < 0)
		return -EINVAL;
	p.held = CHANNEL_PAGE + p.ring_size;
	round_up_u64(p.held, CHANNEL_PAGE, &p.held);
	round_up_u64(
		p.held + records * sizeof(uint64_t), CHANNEL_PAGE, &p.records);
	round_up_u64(p.records + records * sizeof(struct tarn_descriptor),
		CHANNEL_BYTES_ALIGN, &p.bytes);
	if (mul_u64(g->ring.slots, g->ring.slot_bytes, &end) ||
		add_u64(p.bytes, end, &p.size) || p.size > INT64_MAX / 8)
		return tarn_fail(EOVERFLOW,
			"channel: %u slots of %llu bytes are too large",
			g->ring.slots, (unsigned long long)g->ring.slot_bytes);
	*ret = p;
	return 0;
}

int channel_size(const struct channel_geometry *geometry, uint64_t *ret)
{
	struct places p;
	int r = find_places(geometry, &p);

	if (r == 0)
		*ret = p.size;
	return r;
}

int channel_init(void *memory, uint64_t size, const struct channel_geometry *g)
{
	struct channel_head *head = memory;
	struct places p;
	int r = find_places(g, &p);

	if (r == 0 && size != p.size)
		r = tarn_fail(EINVAL, "channel: %llu bytes, not %llu",
			(unsigned long long)size, (unsigned long long)p.size);
	if (r == 0)
		r = ring_init(
			(char *)memory + CHANNEL_PAGE, p.ring_size, &g->ring);
	if (r < 0)
		return r;
	head->version = CHANNEL_VERSION;
	head->flags = g->flags;
	head->mode = g->ring.mode;
	head->slots = g->ring.slots;
	head->slot_bytes = g->ring.slot_bytes;
	head->tensors = g->tensors;
	head->magic = CHANNEL_MAGIC;
	return 0;
}

/* The head, copied once, and what follows from it. */
static int read_head(const void *memory, uint64_t size,
	struct channel_geometry *ret, struct places *ret_places)
{
	struct channel_head seen;
	struct channel_geometry g;
	struct places p;

	if (size < sizeof(seen))
		return tarn_fail(EPROTO, "channel: %llu bytes have no header",
			(unsigned long long)size);
	memcpy(&seen, memory, offsetof(struct channel_head, rest));
	if (seen.magic != CHANNEL_MAGIC || seen.version != CHANNEL_VERSION)
		return tarn_fail(EPROTO,
			"channel: magic %llx, version %u instead of %llx, %u",
			(unsigned long long)seen.magic, seen.version,
			CHANNEL_MAGIC, CHANNEL_VERSION);
	g = (struct channel_geometry) {
		.ring = {.mode = (enum ring_mode)seen.mode,
			.slots = seen.slots,
			.slot_bytes = seen.slot_bytes},
		.tensors = seen.tensors,
		.flags = seen.flags,
	};
	if (find_places(&g, &p) < 0)
		return tarn_fail_prefix(-EPROTO, "its header says: ");
	if (p.size != size)
		return tarn_fail(EPROTO,
			"channel: %llu bytes, where its header makes %llu",
			(unsigned long long)size, (unsigned long long)p.size);
	*ret = g;
	*ret_places = p;
	return 0;
}

int channel_attach(struct channel_map *map, void *memory, uint64_t size)
{
	struct channel_geometry g;
	struct ring ring;
	struct places p;
	char *at = memory;
	int r = read_head(memory, size, &g, &p);

	if (r == 0)
		r = ring_attach(&ring, at + CHANNEL_PAGE, p.ring_size);
	if (r < 0)
		return r;
	/* All arithmetic uses the copies; the ring must have the same
	 * geometry. */
	if (ring.geometry.mode != g.ring.mode ||
		ring.geometry.slots != g.ring.slots ||
		ring.geometry.slot_bytes != g.ring.slot_bytes)
		return tarn_fail(EPROTO,
			"channel: a ring of %u slots, where its header says %u",
			ring.geometry.slots, g.ring.slots);
	*map = (struct channel_map) {
		.memory = memory,
		.size = size,
		.geometry = g,
		.ring = at + CHANNEL_PAGE,
		.ring_size = p.ring_size,
		.held = (_Atomic uint64_t *)(void *)(at + p.held),
		.records = (struct tarn_descriptor *)(void *)(at + p.records),
		.bytes = (unsigned char *)at + p.bytes,
		.slots = ring.slots,
		.words_size = p.records,
	};
	return 0;
}

bool channel_is_closed(const struct channel_map *map)
{
	struct ring ring;
	uint64_t end;

	if (ring_attach(&ring, map->ring, map->ring_size) < 0)
		return false;
	/* The process that closed it may have died before it set the flag;
	 * ring_find_end sets it. */
	return ring_find_end(&ring, &end) == 0 &&
	       atomic_load(&ring.head->closed);
}

bool channel_went_by(const struct channel_map *map, uint32_t slot)
{
	return slot_state(atomic_load(&map->slots[slot].word)) != SLOT_OFFERED;
}

void channel_search(const struct channel_map *map, struct lease_batch *batch)
{
	uint32_t tensors = map->geometry.tensors;

	/* F2: pairs with P2. */
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t i = 0; i < map->geometry.ring.slots; i++) {
		/* Acquire: the slot's word is read before its held words, in
		 * the order in which they were written; and reads by the slot's
		 * last owner come before the reuse. */
		uint64_t word = atomic_load_explicit(
			&map->slots[i].word, memory_order_acquire);

		if (slot_state(word) != SLOT_FREE)
			lease_batch_look(
				batch, &map->held[i * tensors], tensors);
	}
}
