/* SPDX-License-Identifier: MIT */
/*
 * Reaping participants that are gone: what they held is free, delivered or
 * delivered again.
 *
 * Each step is a compare-and-swap on a word that records whether it was done,
 * so if a reaper dies the next one simply continues.
 */
#include <string.h>

#include "base/checked.h"
#include "shm/ring_internal.h"

/* The new word of a slot whose owner is gone. */
static uint64_t after_death(struct ring *ring, uint32_t slot, uint64_t word)
{
	uint64_t p = slot_position(word), entry;

	switch (slot_state(word)) {
	case SLOT_FILLING:
		return slot_word(SLOT_FREE, 0, p);
	case SLOT_READING:
		return slot_word(SLOT_RETURNED, 0, p);
	case SLOT_OFFERED:
		entry = atomic_load(ring_entry(ring, p));
		/* Compares all of entry_word(), not only entry_is(): the entry
		 * may be another's. */
		if (entry == entry_word(p, slot_owner(word), slot)) {
			ring_finish(ring, p, entry);
			return word;
		}
		/* Broadcast: the entry may be gone, and the item still be
		 * read; then it was finished. */
		if (ring->geometry.mode == RING_BROADCAST &&
			pending_is(
				atomic_load(&ring->slots[slot].pending[0]), p))
			return word;
		/* The item never got that position, and another may get it. */
		return slot_word(SLOT_FREE, 0, position_add(p, -1));
	default:
		return word;
	}
}

/* How often to read again a slot's word that a participant, taken for dead,
 * goes on writing: filling, offered, and offered at another position. */
#define SWEEPS 64

/* A kind that marks a member as being reaped, so that a participant that was
 * just leaving does not free its place: another would join there and be swept
 * too. */
#define REAPED 8u

/* Participants that are reaped together: one look at each slot serves all. */
struct doomed {
	uint64_t set[RING_PARTICIPANTS / 64];
	uint32_t n;
	uint32_t who[RING_PARTICIPANTS];
	uint64_t leaving[RING_PARTICIPANTS]; /* their new words */
};

static bool is_doomed(const struct doomed *d, uint32_t who)
{
	return d->set[who / 64] >> (who % 64) & 1;
}

/* M1 and L1: pairs with T2 and B2. The swap from word fails only if the
 * participant is alive after all and goes on joining or leaving: then it is
 * tried again, or the participant has left. */
static void doom(struct ring *ring, struct doomed *d, uint32_t who,
	uint64_t word, unsigned int how)
{
	_Atomic uint64_t *at = &ring->members[who].word;
	uint64_t leaving;

	leaving = member_word(MEMBER_LEAVING, member_kinds(word) | how,
		member_generation(word), member_owner(word));
	for (int i = 0; word != leaving; i++) {
		/* It left by itself, and another may have joined; or it is
		 * being reaped; or the peer is hostile. */
		if (member_state(word) == MEMBER_NONE || i == 8 ||
			member_kinds(word) & ~member_kinds(leaving) ||
			member_owner(word) != member_owner(leaving) ||
			member_generation(word) != member_generation(leaving))
			return;
		if (atomic_compare_exchange_strong(at, &word, leaving))
			break;
	}
	d->set[who / 64] |= 1ull << (who % 64);
	d->leaving[d->n] = leaving;
	d->who[d->n++] = who;
}

/* Does one of them hold this slot? */
static bool holds(const struct doomed *d, uint64_t word)
{
	return slot_state(word) != SLOT_FREE &&
	       slot_state(word) != SLOT_RETURNED &&
	       is_doomed(d, slot_owner(word));
}

/* Was a participant that is just leaving taken for dead? Then the reaper frees
 * the place, after looking at all slots itself, and another may take it. Reads
 * made before this returned false are not about a successor. */
static bool is_reaped(const struct ring *ring, const struct doomed *d)
{
	return d->n == 1 && !(member_kinds(d->leaving[0]) & REAPED) &&
	       atomic_load(&ring->members[d->who[0]].word) != d->leaving[0];
}

/* L2: pairs with B1 in ring_finish. A bit that is set before is_reaped()
 * returns false is not that of a later member, and none is set again. */
static void all_seen(
	struct ring *ring, const struct doomed *d, uint32_t slot, uint64_t word)
{
	_Atomic uint64_t *pending = ring->slots[slot].pending;
	uint64_t p = slot_position(word), bits = 0;

	static_assert(
		RING_BROADCAST_CONSUMERS == 64, "the first word of a set");
	for (int half = 0; half < 2; half++) {
		uint64_t now = atomic_load(&pending[half]);

		if (pending_is(now, p))
			bits |= (now & UINT32_MAX) << (32 * half);
	}
	if (slot_state(word) == SLOT_OFFERED)
		ring_free_seen(ring, slot, word);
	bits &= d->set[0];
	if (is_reaped(ring, d))
		return;
	for (; bits; bits &= bits - 1)
		ring_seen(ring, slot, word, (uint32_t)__builtin_ctzll(bits));
}

/* M2: all slots that they hold. */
static uint32_t sweep(struct ring *ring, const struct doomed *d)
{
	uint32_t changed = 0;
	bool returned = false;

	for (uint32_t i = 0; i < ring->geometry.slots; i++) {
		uint64_t word = atomic_load(&ring->slots[i].word), then;

		/* It fails if another has done it, or if a participant that is
		 * not dead goes on, at most until its item is published. */
		for (int j = 0; j < SWEEPS && holds(d, word); j++) {
			then = after_death(ring, i, word);
			if (then == word || is_reaped(ring, d))
				break;
			if (atomic_compare_exchange_strong(
				    &ring->slots[i].word, &word, then)) {
				changed++;
				word = then;
			}
		}
		/* Also if an earlier reaper, which died, has returned it. */
		returned |= slot_state(word) == SLOT_RETURNED;
		if (ring->geometry.mode == RING_BROADCAST)
			all_seen(ring, d, i, word);
	}
	if (returned)
		ring_count_returned(ring);
	return changed;
}

static uint32_t reap_doomed(struct ring *ring, const struct doomed *d)
{
	uint32_t changed;

	if (!d->n)
		return 0;
	changed = sweep(ring, d);
	/* R2, for the slots that we freed, and for those that they freed
	 * without counting: pairs with Q1 and Q3. */
	atomic_fetch_add(&ring->head->freed, 1);
	/* For changes that they made without a wake-up, and for wake-ups that
	 * they consumed. While they have their places: if we die here, the next
	 * reaper finds them, and wakes all. */
	ring_wake_everybody(ring);
	for (uint32_t i = 0; i < d->n; i++) {
		uint32_t who = d->who[i];

		/* From here on the place rests: pairs with T5. */
		ring_swap(&ring->members[who].word, d->leaving[i],
			member_word(MEMBER_NONE, 0,
				member_generation(d->leaving[i]),
				atomic_load(&ring->head->joined)));
	}
	return changed;
}

static uint32_t reap_one(
	struct ring *ring, uint32_t who, uint64_t word, unsigned int how)
{
	struct doomed d;

	memset(d.set, 0, sizeof(d.set));
	d.n = 0;
	doom(ring, &d, who, word, how);
	return reap_doomed(ring, &d);
}

uint32_t ring_reap(struct ring *ring, uint32_t who)
{
	uint64_t word;

	if (who >= RING_PARTICIPANTS)
		return 0;
	word = atomic_load(&ring->members[who].word);
	if (member_state(word) == MEMBER_NONE)
		return 0;
	return reap_one(ring, who, word, REAPED);
}

uint32_t ring_reap_gone(
	struct ring *ring, bool (*gone)(void *arg, uint32_t owner), void *arg)
{
	struct doomed d;

	memset(d.set, 0, sizeof(d.set));
	d.n = 0;
	for (uint32_t i = 0; i < ring_places(ring); i++) {
		uint64_t word = atomic_load(&ring->members[i].word);

		if (member_state(word) != MEMBER_NONE &&
			gone(arg, member_owner(word)))
			doom(ring, &d, i, word, REAPED);
	}
	return reap_doomed(ring, &d);
}

static bool is_owner(void *arg, uint32_t owner)
{
	return owner == *(uint32_t *)arg;
}

uint32_t ring_reap_owner(struct ring *ring, uint32_t owner)
{
	return ring_reap_gone(ring, is_owner, &owner);
}

void ring_reap_me(struct ring *ring)
{
	reap_one(ring, ring->me, ring->word, 0);
}
