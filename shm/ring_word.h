/* SPDX-License-Identifier: MIT */
/*
 * The words of a ring: what is packed into the 64 bits that change by one
 * compare-and-swap. What they mean to each other is in shm/ring_internal.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/ring.h"

/* So that 37 bits of lap and these make positions of 48. */
#define RING_ORDER_BITS 11u

#define POSITION_BITS 48
#define POSITION_MASK ((1ull << POSITION_BITS) - 1)

/* ---- a slot's word: position 48, generation 3, owner 10, state 3 -- */

/* The generation is that of the owner, and 0 unless FILLING or READING. */

enum slot_state {
	SLOT_FREE,
	SLOT_FILLING,
	SLOT_OFFERED,
	SLOT_READING,
	SLOT_RETURNED,
};

static inline uint64_t slot_word(
	enum slot_state state, uint32_t owner, uint64_t position)
{
	return position << 16 | (uint64_t)owner << 3 | state;
}

/* T4 distinguishes this many. */
#define RING_GENERATIONS 8u
#define SLOT_TAG_MASK 0xfff8ull

static inline uint64_t slot_owner_tag(uint32_t owner, uint32_t generation)
{
	uint64_t last_bits = generation % RING_GENERATIONS;

	return last_bits << 13 | (uint64_t)owner << 3;
}

static inline unsigned int slot_state(uint64_t word)
{
	return word & 7;
}

static inline uint32_t slot_owner(uint64_t word)
{
	return word >> 3 & (RING_PARTICIPANTS - 1);
}

static inline uint64_t slot_position(uint64_t word)
{
	return word >> 16;
}

/* What we write into a slot that we take, and what it says as long as it is in
 * our hands: FILLING or READING. */
static inline uint64_t slot_owned(
	const struct ring *ring, enum slot_state state, uint64_t position)
{
	return position << 16 | ring->owner_tag | state;
}

static inline bool slot_is_owned(
	const struct ring *ring, enum slot_state state, uint64_t word)
{
	return (word & (SLOT_TAG_MASK | 7)) == (ring->owner_tag | state);
}

/* ---- positions ----------------------------------------------------- */

static inline uint64_t position_add(uint64_t position, int64_t n)
{
	return (position + (uint64_t)n) & POSITION_MASK;
}

/* How far a is past b; negative: before it. */
static inline int64_t position_past(uint64_t a, uint64_t b)
{
	return (int64_t)((a - b) << (64 - POSITION_BITS)) >>
	       (64 - POSITION_BITS);
}

/* ---- an entry: lap 37, closed 1, owner 10, slot 16 ----------------- */

#define ENTRY_CLOSED (1ull << 26)

static inline uint64_t entry_lap(uint64_t position)
{
	return (position & POSITION_MASK) >> RING_ORDER_BITS;
}

static inline uint64_t entry_word(
	uint64_t position, uint32_t owner, uint32_t slot)
{
	return entry_lap(position) << 27 | (uint64_t)owner << 16 | slot;
}

/* Is it the one that was placed there? */
static inline bool entry_is(uint64_t entry, uint64_t position)
{
	return entry >> 27 == entry_lap(position);
}

/* Is it of an earlier lap than that position? */
static inline bool entry_is_before(uint64_t entry, uint64_t position)
{
	return position_past(entry >> 27 << RING_ORDER_BITS, position) < 0 &&
	       !entry_is(entry, position);
}

static inline uint32_t entry_slot(uint64_t entry)
{
	return entry & 0xffff;
}

static inline uint32_t entry_owner(uint64_t entry)
{
	return entry >> 16 & (RING_PARTICIPANTS - 1);
}

/* ---- a participant's word: owner 32, generation 24, kinds 4, state 4 */

/* Of one that is gone the owner is how many had joined before it went. */

/* Each more is one more place that a failed try adds up; picked. */
#define RING_COOLDOWN 8u

enum member_state {
	MEMBER_NONE,
	MEMBER_JOINING,
	MEMBER_LIVE,
	MEMBER_LEAVING, /* or dead, which is the same */
};

static inline uint64_t member_word(enum member_state state, unsigned int kinds,
	uint32_t generation, uint32_t owner)
{
	return (uint64_t)owner << 32 | (generation & 0xffffff) << 8 |
	       (kinds & 15) << 4 | state;
}

static inline unsigned int member_state(uint64_t word)
{
	return word & 15;
}

static inline unsigned int member_kinds(uint64_t word)
{
	return word >> 4 & 15;
}

static inline uint32_t member_generation(uint64_t word)
{
	return word >> 8 & 0xffffff;
}

static inline uint32_t member_owner(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* ---- pending: tag 32, bits 32 -------------------------------------- */

static inline uint64_t pending_word(uint64_t position, uint32_t bits)
{
	return (uint64_t)(uint32_t)position << 32 | bits;
}

static inline bool pending_is(uint64_t pending, uint64_t position)
{
	return pending >> 32 == (uint32_t)position;
}
