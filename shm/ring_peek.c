/* SPDX-License-Identifier: MIT */
/*
 * Reading a ring without taking anything.
 *
 * A watcher holds nothing, so it reads, and then verifies that what it read did
 * not change meanwhile (N1 to N4 in shm/ring_internal.h). An item that is gone
 * is skipped.
 */
#include "base/fail.h"
#include "shm/ring_internal.h"

uint64_t ring_end(const struct ring *ring)
{
	uint64_t p = atomic_load(&ring->head->tail) & POSITION_MASK;

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		uint64_t entry = atomic_load(ring_entry(ring, p));

		if (!entry_is(entry, p) || entry & ENTRY_CLOSED)
			break;
		p = position_add(p, 1);
	}
	return p;
}

/* Is the slot's content still about p? note_position is read first. */
static bool is_about(const struct ring_slot *s, uint64_t p)
{
	uint64_t note_position, word;

	/* N3: pairs with N2; and N4, the second time: pairs with N1. */
	note_position =
		atomic_load_explicit(&s->note_position, memory_order_acquire);
	word = atomic_load(&s->word);
	return note_position == p && slot_position(word) == p &&
	       slot_state(word) != SLOT_FILLING;
}

/* Reads the item that was placed at p: 1, or 0: it is gone, or never was. */
static int see(const struct ring *ring, uint64_t p, uint64_t entry,
	struct ring_item *ret)
{
	struct ring_item item = {.slot = entry_slot(entry), .position = p};
	const struct ring_slot *s;
	int r;

	if (item.slot >= ring->geometry.slots)
		return 0;
	s = &ring->slots[item.slot];
	if (!is_about(s, p))
		return 0;
	r = ring_read_note(ring, item.slot, &item.note);
	if (!is_about(s, p))
		return 0;
	if (r < 0)
		return r;
	*ret = item;
	return 1;
}

int ring_peek(
	const struct ring *ring, uint64_t *position, struct ring_item *ret)
{
	uint64_t p = *position & POSITION_MASK;

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		uint64_t entry = atomic_load(ring_entry(ring, p)), oldest;
		int r;

		*position = p;
		if (!entry_is(entry, p)) {
			/* The lap before, or an earlier one: not yet. */
			if (entry_is_before(entry, p))
				return 0;
			oldest = position_add(atomic_load(&ring->head->tail),
				-(int64_t)ring->order_size);
			p = position_add(p, 1);
			if (position_past(oldest, p) > 0)
				p = oldest;
			continue;
		}
		if (entry & ENTRY_CLOSED)
			return tarn_fail(
				EPIPE, "it is closed, and no item will follow");
		p = position_add(p, 1);
		r = see(ring, position_add(p, -1), entry, ret);
		if (r != 0) {
			*position = p;
			return r;
		}
	}
	return ring_nonsense(ring, "the search for what to see");
}

/* ---- for participants ---------------------------------------------- */

static bool has_returned(const struct ring *ring)
{
	for (uint32_t i = 0; i < ring->geometry.slots; i++)
		if (slot_state(atomic_load(&ring->slots[i].word)) ==
			SLOT_RETURNED)
			return true;
	return false;
}

static bool has_item(const struct ring *ring)
{
	uint64_t h = atomic_load(&ring->head->head), word;

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		uint64_t entry = atomic_load(ring_entry(ring, h)); /* S2 */

		if (entry_is_before(entry, h))
			return false;
		if (!entry_is(entry, h)) { /* a lap behind: we were delayed */
			h = atomic_load(&ring->head->head);
			continue;
		}
		if (entry & ENTRY_CLOSED || ring_offers(ring, h, entry, &word))
			return true;
		h = position_add(h, 1);
	}
	return true; /* reports that the memory is inconsistent */
}

/* Is a slot free, or will a producer that looks for one free it? */
static bool has_free(const struct ring *ring)
{
	for (uint32_t i = 0; i < ring->geometry.slots; i++) {
		const struct ring_slot *s = &ring->slots[i];
		uint64_t word = atomic_load(&s->word);
		uint64_t none = pending_word(slot_position(word), 0);

		if (slot_state(word) == SLOT_FREE)
			return true;
		if (ring->geometry.mode == RING_BROADCAST &&
			slot_state(word) == SLOT_OFFERED &&
			atomic_load(&s->pending[0]) == none &&
			atomic_load(&s->pending[1]) == none)
			return true;
	}
	return false;
}

bool ring_ready(struct ring *ring, enum ring_kind kind)
{
	uint64_t end;
	uint32_t slot;

	if (!ring_is_member(ring))
		return true;
	if (kind == RING_PRODUCER) {
		if (atomic_load(&ring->head->closed) || has_free(ring))
			return true;
		/* As ring_acquire: the last item may have no consumer. */
		return ring->geometry.mode == RING_BROADCAST &&
		       (ring_find_end(ring, &end) < 0 || has_free(ring));
	}
	if (ring->geometry.mode == RING_BROADCAST)
		return ring->quiet || ring_receive_broadcast(ring, &slot) != 0;
	return (atomic_load(&ring->head->returned) & 1 && has_returned(ring)) ||
	       has_item(ring);
}
