/* SPDX-License-Identifier: MIT */
/*
 * A producer's failed try to find a slot, and the next try.
 *
 * It is expensive to find out that no slot is free, and that stays true until a
 * participant frees one. Each participant counts its releases in a line of its
 * own, and of those there are few (R1, R2 and Q1 to Q3 in shm/ring_internal.h).
 */
#include "shm/ring_internal.h"

/* With fewer slots, looking at all of them is as fast. Picked. */
#define SLOTS_MIN 32u
/* This many tries trust the counts. Picked: the cost of one look at all slots
 * of the largest ring is then small for each try. */
#define TRUST 1024u
/* As many halvings as reduce TRUST to none. From there each look in vain is
 * followed by twice as many tries that trust. */
#define DOUBTS 9u

/* Each count only rises, so equal sums mean equal counts. A place that was
 * never taken has 0. */
static uint64_t freed_by_all(const struct ring *ring)
{
	uint64_t sum = atomic_load(&ring->head->freed);
	uint32_t n = ring_places(ring);

	/* Acquire: pairs with the release in ring_count_freed(). */
	for (uint32_t i = 0; i < n; i++)
		sum += atomic_load_explicit(
			&ring->members[i].freed, memory_order_acquire);
	return sum;
}

bool ring_is_still_full(struct ring *ring)
{
	uint64_t freed = freed_by_all(ring); /* Q1, Q3: pair with R2 */
	bool same = ring->in_vain > 1 && freed == ring->freed;

	/* Pairs with the store in ring_wait_for(). */
	if (atomic_load(&ring->thorough))
		atomic_store(&ring->thorough, 0);
	else if (same && ring->in_vain < TRUST >> ring->doubts) {
		ring->in_vain++;
		return true;
	}
	ring->doubted = same;
	ring->in_vain = 1;
	ring->freed = freed;
	return false;
}

void ring_note_full(struct ring *ring)
{
	if (ring->geometry.slots < SLOTS_MIN)
		return;
	/* No participant has freed without counting for that long. */
	if (ring->doubted && ring->doubts)
		ring->doubts--;
	ring->doubted = false;
	/* Before the first look the counts were not read. */
	ring->in_vain++;
}

void ring_note_found(struct ring *ring)
{
	/* A participant frees and does not count: it may do so again. */
	if (ring->doubted && freed_by_all(ring) == ring->freed)
		ring->doubts = DOUBTS;
	ring->doubted = false;
	ring->in_vain = 0;
}
