/* SPDX-License-Identifier: MIT */
/*
 * Joining and leaving a ring.
 *
 * One word records who holds a place, from the first instruction of joining on,
 * so that the reaper always knows the owner; and a participant leaves by
 * reaping itself (ring_reap.c).
 */
#include "base/checked.h"
#include "base/fail.h"
#include "shm/ring_internal.h"

static uint64_t bit_of(uint32_t who)
{
	return who < RING_BROADCAST_CONSUMERS ? 1ull << who : 0;
}

uint32_t ring_places(const struct ring *ring)
{
	uint32_t n = atomic_load(&ring->head->places);

	return MIN(n, RING_PARTICIPANTS);
}

bool ring_is_deserted(const struct ring *ring)
{
	bool was = false;

	for (uint32_t i = 0; i < ring_places(ring); i++) {
		uint64_t word = atomic_load(&ring->members[i].word);

		if (member_state(word) != MEMBER_NONE)
			return false;
		was |= member_generation(word) != 0;
	}
	return was;
}

bool ring_has_owner(const struct ring *ring, uint32_t owner)
{
	for (uint32_t i = 0; i < ring_places(ring); i++) {
		uint64_t word = atomic_load(&ring->members[i].word);

		if (member_state(word) != MEMBER_NONE &&
			member_owner(word) == owner)
			return true;
	}
	return false;
}

void ring_leave(struct ring *ring)
{
	if (ring_is_member(ring))
		ring_reap_me(ring);
	ring->me = RING_PARTICIPANTS;
}

/* Raised before a place is taken, so that the reaper looks there. */
static void raise_places(struct ring *ring, uint32_t to)
{
	uint32_t now = atomic_load(&ring->head->places);

	/* Each failure means that a place was taken for the first time. */
	for (uint32_t i = 0; now < to && i < RING_PARTICIPANTS; i++)
		if (atomic_compare_exchange_strong(
			    &ring->head->places, &now, to))
			return;
}

/* T5: might the last member of this place, taken for dead, still be running? */
static bool rests(const struct ring *ring, uint64_t word)
{
	uint32_t since = atomic_load(&ring->head->joined) - member_owner(word);

	return member_generation(word) != 0 && since < RING_COOLDOWN;
}

/* Takes the place if it is free. */
static bool take(struct ring *ring, uint32_t i, uint64_t word,
	unsigned int kinds, uint32_t owner)
{
	uint64_t mine = member_word(
		MEMBER_JOINING, kinds, member_generation(word) + 1, owner);

	raise_places(ring, i + 1);
	if (!ring_swap(&ring->members[i].word, word, mine))
		return false;
	atomic_fetch_add(&ring->head->joined, 1);
	ring->word = mine;
	ring->owner_tag = slot_owner_tag(i, member_generation(mine));
	ring->me = i;
	return true;
}

/* Takes a free place; one that rests only where there is no other. Consumers of
 * a broadcast need one of the first, others leave those alone. */
static int take_place(struct ring *ring, unsigned int kinds, uint32_t owner)
{
	bool few = ring->geometry.mode == RING_BROADCAST;
	bool receives = few && kinds & RING_CONSUMER;
	uint32_t begin = few && !receives ? RING_BROADCAST_CONSUMERS : 0;
	uint32_t end = receives ? RING_BROADCAST_CONSUMERS : RING_PARTICIPANTS;

	for (int any = 0; any < 2; any++)
		for (uint32_t i = begin; i < end; i++) {
			uint64_t word = atomic_load(&ring->members[i].word);

			if (member_state(word) == MEMBER_NONE &&
				(any || !rests(ring, word)) &&
				take(ring, i, word, kinds, owner))
				return 0;
		}
	return tarn_fail(EUSERS, "ring: %u %s are there already",
		few && receives ? RING_BROADCAST_CONSUMERS : RING_PARTICIPANTS,
		receives ? "consumers" : "participants");
}

/* Where to look for a free slot first: small slots are taken in turn, and each
 * participant begins somewhere else. */
static uint32_t first_look(const struct ring *ring)
{
	if (ring->geometry.slot_bytes >= RING_LARGE)
		return 0;
	return (uint32_t)((uint64_t)ring->me * 2654435761u %
			  ring->geometry.slots);
}

int ring_join(struct ring *ring, unsigned int kinds, uint32_t owner)
{
	uint64_t live;
	int r;

	if (kinds == 0 || kinds & ~(RING_PRODUCER | RING_CONSUMER))
		return tarn_fail(EINVAL, "ring: kinds 0x%x to join as", kinds);
	if (ring->me < RING_PARTICIPANTS)
		return tarn_fail(EALREADY,
			"ring: participant %u has joined already", ring->me);
	r = take_place(ring, kinds, owner);
	if (r < 0)
		return r;
	if (ring->geometry.mode == RING_BROADCAST && kinds & RING_CONSUMER) {
		atomic_fetch_or(&ring->head->consumers, bit_of(ring->me));
		/* Past all placed entries: late B1 and B2 do not concern us. */
		r = ring_find_end(ring, &ring->cursor);
		if (r < 0) {
			ring_leave(ring);
			return r;
		}
		atomic_store(&ring->members[ring->me].until, UNTIL_LEFT);
		atomic_store(&ring->members[ring->me].start, ring->cursor);
		ring->quiet = false;
	}
	ring->end = atomic_load(&ring->head->tail);
	ring->head_seen = atomic_load(&ring->head->head);
	if (ring->geometry.mode == RING_QUEUE)
		ring->cursor = ring->head_seen;
	ring->crowd_in = ring->crowd_out = true;
	ring->hint = first_look(ring);
	live = member_word(
		MEMBER_LIVE, kinds, member_generation(ring->word), owner);
	if (!ring_swap(&ring->members[ring->me].word, ring->word, live)) {
		r = ring_stale(ring);
		ring->me = RING_PARTICIPANTS;
		return r;
	}
	ring->word = live;
	return 0;
}
