/* SPDX-License-Identifier: MIT */
/*
 * What a ring that was closed has left.
 *
 * The idea: nothing is published behind the entry that closes, and an item
 * stays in its slot, whoever has it in hand or had, until it is released. So
 * who has seen that it is closed, and then looks once at each slot, has seen
 * all items that anybody will get.
 */
#include "shm/ring_words.h"

/* Not only offered: its producer may have come too late, or have died. Once it
 * is closed that does not change any more: whoever placed its entry had done so
 * before the one that closes was placed. */
static bool is_published(const struct ring *ring, uint32_t slot, uint64_t word)
{
	uint64_t p = slot_position(word);

	return atomic_load(ring_entry(ring, p)) ==
	       entry_word(p, slot_owner(word), slot);
}

/* Queue: what somebody will still get, and what he may who gets what another
 * was reading. */
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
	/* Each has its own; who comes late gets nothing. */
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

/*
 * Consumers may come and go while we look. An item that one of them takes is
 * where it was, in another state, until it is done with; so what we do not find
 * is done with, and not in the hands of one who may die with it.
 */
bool ring_is_over(const struct ring *ring)
{
	return ring_is_closed(ring) && !is_anybody(ring) &&
	       (ring->geometry.mode == RING_BROADCAST || !count(ring, true));
}
