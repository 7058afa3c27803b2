/* SPDX-License-Identifier: MIT */
/*
 * Broadcast: which consumers have not yet seen an item.
 *
 * The consumers of an item are determined after it has got its position, by the
 * first participant that gets there. They are then checked once more against
 * those that left meanwhile (B1, B2 and L1, L2 in shm/ring_internal.h).
 */
#include "shm/ring_internal.h"

static bool is_until(uint64_t until, uint64_t position)
{
	return until == UNTIL_LEFT || position_past(until, position) > 0;
}

static bool is_for(const struct ring *ring, uint32_t member, uint64_t position)
{
	struct ring_member *m = &ring->members[member];
	uint64_t word = atomic_load(&m->word);

	/* start is written before the word becomes LIVE; the start of a later
	 * member is past all that was placed in this one's time. */
	return member_state(word) == MEMBER_LIVE &&
	       member_kinds(word) & RING_CONSUMER &&
	       position_past(position, atomic_load(&m->start)) >= 0 &&
	       is_until(atomic_load(&m->until), position);
}

static uint32_t bits_of(const struct ring *ring, int half, uint64_t position)
{
	uint32_t of = (uint32_t)(atomic_load(&ring->head->consumers) >>
				 (half * 32)),
		 bits = 0;

	for (; of; of &= of - 1) {
		uint32_t i = (uint32_t)__builtin_ctz(of);

		if (is_for(ring, (uint32_t)half * 32 + i, position))
			bits |= 1u << i;
	}
	return bits;
}

/* Clears a bit as long as the word is about that position. */
static void clear_bit(
	_Atomic uint64_t *pending, uint64_t position, uint32_t bit)
{
	uint64_t now = atomic_load(pending);

	/* Each failure means that another of 32 bits was cleared. */
	for (int i = 0; i < 64; i++) {
		if (!pending_is(now, position) || !(now & bit))
			return;
		if (atomic_compare_exchange_strong(
			    pending, &now, now & ~(uint64_t)bit))
			return;
	}
}

bool ring_free_seen(struct ring *ring, uint32_t slot, uint64_t word)
{
	struct ring_slot *s = &ring->slots[slot];
	uint64_t none = pending_word(slot_position(word), 0);

	/* Once both are so, they stay so until the slot is offered again. */
	if (atomic_load(&s->pending[0]) != none ||
		atomic_load(&s->pending[1]) != none)
		return false;
	/* R1: a participant that did it before us would count it. */
	if (!ring_swap(&s->word, word,
		    slot_word(SLOT_FREE, 0, slot_position(word))))
		return false;
	ring_count_freed(ring);
	ring_wake(&ring->head->space, false);
	return true;
}

void ring_seen(struct ring *ring, uint32_t slot, uint64_t word, uint32_t member)
{
	if (slot_state(word) != SLOT_OFFERED ||
		member >= RING_BROADCAST_CONSUMERS)
		return;
	/* Release: our reads come before any participant frees the slot. */
	clear_bit(&ring->slots[slot].pending[member / 32], slot_position(word),
		1u << (member & 31));
	ring_free_seen(ring, slot, word);
}

void ring_finish(struct ring *ring, uint64_t position, uint64_t entry)
{
	uint32_t slot = entry_slot(entry);
	uint64_t word = slot_word(SLOT_OFFERED, entry_owner(entry), position);
	struct ring_slot *s;

	if (ring->geometry.mode != RING_BROADCAST ||
		slot >= ring->geometry.slots)
		return;
	s = &ring->slots[slot];
	for (int half = 0; half < 2; half++) {
		uint64_t was = atomic_load(&s->pending[half]);

		/* If the word is unchanged, was is no later than this
		 * position. */
		if (atomic_load(&s->word) != word)
			return;
		if (!pending_is(was, position)) /* B1: pairs with L2 */
			ring_swap(&s->pending[half], was,
				pending_word(position,
					bits_of(ring, half, position)));
	}
	for (int half = 0; half < 2; half++) { /* B2: pairs with L1 */
		uint64_t now = atomic_load(&s->pending[half]);
		uint32_t gone;

		if (!pending_is(now, position))
			return;
		gone = (uint32_t)now & ~bits_of(ring, half, position);
		for (; gone; gone &= gone - 1)
			clear_bit(&s->pending[half], position, gone & -gone);
	}
	ring_free_seen(ring, slot, word);
}

void ring_quiet(struct ring *ring)
{
	if (ring->geometry.mode != RING_BROADCAST || ring->quiet ||
		!(member_kinds(ring->word) & RING_CONSUMER) ||
		!ring_is_member(ring))
		return;
	ring->quiet = true;
	/* L1: pairs with B2. */
	atomic_store(&ring->members[ring->me].until, ring->cursor);
	for (uint32_t i = 0; i < ring->geometry.slots; i++) {
		uint64_t word = atomic_load(&ring->slots[i].word);

		/* L2: pairs with B1. */
		if (position_past(slot_position(word), ring->cursor) >= 0)
			ring_seen(ring, i, word, ring->me);
	}
}
