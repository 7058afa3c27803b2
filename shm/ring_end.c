/* SPDX-License-Identifier: MIT */
/*
 * What is left in a closed ring.
 *
 * Nothing is published after the closing entry, and an item stays in its slot
 * until it is released, no matter which participant holds or held it. So a
 * participant that has seen the ring closed, and then looks once at each slot,
 * has seen all items that any consumer will get.
 */
#include "shm/ring_internal.h"

/* OFFERED is not enough: the producer may have come too late, or have died.
 * Once the ring is closed the answer does not change any more: a producer that
 * did place its entry had done so before the closing entry was placed. */
static bool is_published(const struct ring *ring, uint32_t slot, uint64_t word)
{
	uint64_t p = slot_position(word);

	return atomic_load(ring_entry(ring, p)) ==
	       entry_word(p, slot_owner(word), slot);
}

/* Queue: how many items consumers will still get; with in_hand also those that
 * another consumer is reading, and may return. */
static uint32_t count(const struct ring *ring, bool in_hand)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ring->geometry.slots; i++) {
		uint64_t word = atomic_load(&ring->slots[i].word);
		unsigned int state = slot_state(word);

		n += state == SLOT_RETURNED ||
		     (state == SLOT_READING && in_hand) ||
		     (state == SLOT_OFFERED && is_published(ring, i, word));
	}
	return n;
}

uint32_t ring_left(const struct ring *ring)
{
	/* Each consumer has its own items; a late one gets nothing. */
	return ring->geometry.mode == RING_BROADCAST ? 0 : count(ring, false);
}

bool ring_is_closed(const struct ring *ring)
{
	return atomic_load(&ring->head->closed);
}

static bool is_anybody(const struct ring *ring)
{
	for (uint32_t i = 0; i < ring_places(ring); i++)
		if (member_state(atomic_load(&ring->members[i].word)) !=
			MEMBER_NONE)
			return true;
	return false;
}

bool ring_is_idle(const struct ring *ring)
{
	return !is_anybody(ring);
}

/*
 * Consumers may come and go during the look. An item that one of them takes is
 * where it was, in another state, until it is done with. So an item that the
 * look does not find is done with, and not held by a consumer that may die with
 * it.
 */
bool ring_is_over(const struct ring *ring)
{
	return ring_is_closed(ring) && !is_anybody(ring) &&
	       (ring->geometry.mode == RING_BROADCAST || !count(ring, true));
}
