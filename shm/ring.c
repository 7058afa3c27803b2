/* SPDX-License-Identifier: MIT */
/*
 * The memory of a ring: its size, making it, and checking it when it is mapped.
 *
 * A peer may write anything anywhere at any time. So the fields that describe
 * sizes are copied once, the copy is checked, and they are never read again.
 */
#include "shm/ring.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/ring_internal.h"

/* More than there can be entries that a consumer has still to see: one for each
 * slot, the closing one, and one that each participant places too late. */
static uint32_t order_size_of(uint32_t slots)
{
	uint32_t n = RING_ORDER_MIN;

	while (n <= slots + RING_PARTICIPANTS)
		n *= 2;
	return n;
}

/* Slots and entries are some megabytes at most: nothing overflows. */
static size_t size_of(uint32_t slots)
{
	return sizeof(struct ring_head) +
	       RING_PARTICIPANTS * sizeof(struct ring_member) +
	       slots * sizeof(struct ring_slot) +
	       order_size_of(slots) * sizeof(uint64_t);
}

static bool is_geometry(const struct ring_geometry *g)
{
	return (g->mode == RING_QUEUE || g->mode == RING_BROADCAST) &&
	       g->slots >= 1 && g->slots <= RING_SLOTS_MAX;
}

int ring_size(const struct ring_geometry *geometry, size_t *ret)
{
	if (!is_geometry(geometry))
		return tarn_fail(EINVAL,
			"ring: mode %d, %u slots; mode 1 or 2 and 1 to %u "
			"slots are possible",
			(int)geometry->mode, geometry->slots, RING_SLOTS_MAX);
	*ret = size_of(geometry->slots);
	return 0;
}

static void set_parts(struct ring *ring, void *memory)
{
	char *at = memory;

	ring->head = memory;
	at += sizeof(struct ring_head);
	ring->members = (struct ring_member *)(void *)at;
	at += RING_PARTICIPANTS * sizeof(struct ring_member);
	ring->slots = (struct ring_slot *)(void *)at;
	at += ring->geometry.slots * sizeof(struct ring_slot);
	ring->order = (_Atomic uint64_t *)(void *)at;
}

int ring_init(void *memory, size_t size, const struct ring_geometry *geometry)
{
	struct ring ring = {.geometry = *geometry};
	struct ring_head *head = memory;
	size_t wanted;
	int r = ring_size(geometry, &wanted);

	if (r < 0)
		return r;
	if (size < wanted)
		return tarn_fail(EINVAL,
			"ring: %zu bytes for %u slots, not %zu", size,
			geometry->slots, wanted);
	ring.order_size = order_size_of(geometry->slots);
	set_parts(&ring, memory);
	head->version = RING_VERSION;
	head->mode = geometry->mode;
	head->slots = geometry->slots;
	head->slot_bytes = geometry->slot_bytes;
	head->order_size = ring.order_size;
	/* Lap 0 means never placed. */
	for (uint32_t i = 0; i < ring.order_size; i++)
		atomic_init(&ring.order[i], entry_word(i, 0, 0));
	atomic_init(&head->tail, ring.order_size);
	atomic_init(&head->head, ring.order_size);
	head->magic = RING_MAGIC;
	return 0;
}

int ring_attach(struct ring *ring, void *memory, size_t size)
{
	struct ring_head seen;
	struct ring_geometry g;

	if (size < sizeof(seen))
		return tarn_fail(
			EPROTO, "ring: %zu bytes have no header", size);
	/* The fixed part alone: the rest changes concurrently. */
	memcpy(&seen, memory, offsetof(struct ring_head, pad0));
	g = (struct ring_geometry) {.mode = (enum ring_mode)seen.mode,
		.slots = seen.slots,
		.slot_bytes = seen.slot_bytes};
	if (seen.magic != RING_MAGIC || seen.version != RING_VERSION)
		return tarn_fail(EPROTO,
			"ring: magic %llx, version %u instead of %llx, %u",
			(unsigned long long)seen.magic, seen.version,
			RING_MAGIC, RING_VERSION);
	if (!is_geometry(&g) || seen.order_size != order_size_of(g.slots) ||
		size < size_of(g.slots))
		return tarn_fail(EPROTO,
			"ring: mode %d, %u slots, order %u in %zu bytes make "
			"no ring",
			(int)g.mode, g.slots, seen.order_size, size);
	*ring = (struct ring) {.geometry = g,
		.order_size = seen.order_size,
		.me = RING_PARTICIPANTS};
	ring_wait_init(ring);
	set_parts(ring, memory);
	return 0;
}

void ring_raise(_Atomic uint64_t *position, uint64_t to)
{
	uint64_t now = atomic_load(position);

	/* Each failure is a raise by another participant. At most one more try
	 * is needed, except against raises to lower positions, which do not
	 * matter. */
	for (int i = 0; i < 4 && position_past(to, now) > 0; i++)
		if (atomic_compare_exchange_strong(position, &now, to))
			return;
}

int ring_nonsense(const struct ring *ring, const char *what)
{
	return tarn_fail(EBADMSG,
		"ring of %u slots: %s goes on for ever; a participant has "
		"damaged it",
		ring->geometry.slots, what);
}

void ring_stat(const struct ring *ring, struct ring_stat *ret)
{
	struct ring_stat s = {.closed = atomic_load(&ring->head->closed) != 0};
	uint32_t ignored = 0;
	uint32_t *of[8] = {&s.free, &s.filling, &s.ready, &s.reading,
		&s.returned, &ignored, &ignored, &ignored};

	for (uint32_t i = 0; i < ring->geometry.slots; i++)
		++*of[slot_state(atomic_load(&ring->slots[i].word))];
	for (uint32_t i = 0; i < ring_places(ring); i++) {
		struct ring_member *m = &ring->members[i];
		uint64_t w = atomic_load(&m->word);
		bool live = member_state(w) == MEMBER_LIVE;

		s.producers += live && member_kinds(w) & RING_PRODUCER;
		s.consumers += live && member_kinds(w) & RING_CONSUMER &&
			       (ring->geometry.mode == RING_QUEUE ||
				       atomic_load(&m->until) == UNTIL_LEFT);
		/* Relaxed: counts that nothing depends on. */
		s.published += atomic_load_explicit(
			&m->published, memory_order_relaxed);
		s.received += atomic_load_explicit(
			&m->received, memory_order_relaxed);
		s.bytes +=
			atomic_load_explicit(&m->bytes, memory_order_relaxed);
	}
	*ret = s;
}
