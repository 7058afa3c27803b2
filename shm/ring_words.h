/* SPDX-License-Identifier: MIT */
/*
 * The words of a ring, and why what is done with them is right.
 *
 * A slot's word says its state, its owner, and a position. It changes by
 * compare-and-swap only:
 *
 *	FREE(c) -> FILLING(me, c)        acquire
 *	FILLING(me, c) -> OFFERED(me, p) publish, first half; p > c
 *	OFFERED(me, p) -> OFFERED(me, q) somebody else took p; q > p
 *	OFFERED(x, p) -> READING(me, p)  receive, queue
 *	READING(me, p) -> FREE(p)        release, queue
 *	OFFERED(x, p) -> FREE(p)         broadcast: all have seen it
 *	FILLING(me, c) -> FREE(c)        abandon
 *	READING(dead, p) -> RETURNED(p) -> READING(me, p)
 *
 * The order ring has N > slots entries; entry p % N says which slot of which
 * owner was published at p, or that the ring was closed there. It goes from
 * p - N to p by one compare-and-swap, and that is the moment of publication:
 * an OFFERED slot whose position names it in the order ring is published, one
 * whose position does not is not, and its owner was about to try the next.
 * Nothing else is needed to know, so nothing is half done when its owner dies.
 *
 * c is the last position at which the slot was published, and p > c, so each
 * OFFERED(x, p) that is published occurs once in the life of a ring: who saw
 * an entry and is late fails at his compare-and-swap. (Positions have 48 bits
 * and wrap: after a year at ten million items a second; a stale one would have
 * to sleep for exactly that.)
 *
 * Positions are dense: who places at p has seen the entry of p - 1. tail is a
 * lower bound of the end, a hint that any producer raises. head (queue) is a
 * lower bound of the first that was not received; whoever finds an entry whose
 * slot is no longer OFFERED at it raises head. An entry is written over by the
 * next lap only when head is past it (queue). In broadcast what a consumer has
 * not received is held by its bit in the slot, and so is all that came after;
 * that is at most `slots` items, the entry that closes, and one late entry of
 * each who was wrongly taken for dead: less than N, so the next lap cannot have
 * come round.
 *
 * Broadcast. pending[i] of a slot is a tag, 32 bits of the position, and a
 * bit for each of 32 consumers. finish() fills it after the entry was placed:
 * (B1) pending goes from an older tag to this one with the members of now;
 * (B2) each of those is looked at again, and its bit cleared if it is gone.
 * A consumer leaves by (L1) its word saying so, (L2) clearing its bit in all
 * slots. Either B2 sees L1, or L2 comes after B1 and sees the bit. One that
 * goes quiet does the same for all positions from its cursor on, where L1 is
 * its until; bits of what it has received stay, since B2 finds them before
 * that. Whoever
 * meets an entry first finishes it, and no producer goes on to p + 1 before p
 * is finished; so what is pending for a consumer is without gaps, from the
 * first item after it joined. It joins at the end of all that was placed, so
 * that no late B1 or B2, which are about what was placed before, concern it.
 * A slot whose two words have its tag and no bit is free: who clears the last
 * bit says so, and if he dies first then who looks for a free slot does.
 *
 * Returned items (queue) are older than all that stands in the order ring, so
 * they are delivered first, the oldest first. `returned` is a bit that says
 * that there may be some, and a count, so that who found none clears the bit
 * only if nothing was returned since he looked.
 *
 * Taken for dead. A participant's word changes (M1) before its slots are swept
 * (M2); who has taken a slot (T1) looks at his own word again (T2). Either he
 * sees M1 and gives the slot back, or M2 finds it. Before he gives a slot away
 * that he took earlier he looks at his own word too (T3): his place may have
 * another by then, who has the same slot at the same position. Who is stopped
 * between that look and his swap, for however long, finds that the slot's word
 * says another generation (T4): of slots in somebody's hands, FILLING or
 * READING, the word tells the last bits of it. And a place has no other soon
 * (T5): one that became free rests until RING_REST others have joined. So what
 * he finds is his word again only after RING_GENERATIONS others were in his
 * place, and RING_REST elsewhere before each, 72 joins, all of them while he is
 * between those two instructions and nothing is published in that slot. (Where
 * no other place is left, one is taken that has not rested: 8 joins.)
 *
 * More does not fit into a word whose position must stay as it is, as that of
 * an item that is delivered again does. An OFFERED slot tells no generation,
 * since who receives it has its word from the entry, where there is no room;
 * nor is it in anybody's hands: what one who is wrongly taken for dead can do
 * with it late is to place its entry. The slot does not say OFFERED(he, p), as
 * long as T5 keeps a successor from offering it there, so all skip it. (An
 * older library says generation 0 always, and goes by T3 and T5 alone. It
 * sweeps, counts and watches slots of any generation, as it does not look at
 * those bits.) The bytes of a slot and its note are not words: what he still
 * writes there he writes into what is another's by then. So who reaps is to be
 * sure.
 *
 * Watching. told says what position a note is about: 0 (N1) before it is
 * written, then (N2) the position, before the slot says OFFERED there. Who
 * watches p reads told (N3), the note, told again and the slot's word (N4).
 * If both say p, and the word is not FILLING, the note is that of p: had it
 * been written over meanwhile, N4 would see N1, or, as a slot that is filled
 * again after p ends at another position, what was told of that. (A slot that
 * failed to be published goes back to FREE(p), but told does not.)
 *
 * Sleeping. items and space are futex words: bit 0 says that one who takes may
 * be asleep, bit 1 that one who only watches may be, the rest counts. Who
 * sleeps sets his bit (S1), looks once more (S2), and sleeps only on the value
 * that he saw. Who changes something does so (W1) and then looks at the bits
 * (W2); so either S2 sees W1, or W2 sees S1. Nobody counts the sleepers: a
 * count would be wrong after the first death. One taker is woken, and all
 * watchers: the kernel tells them apart, so that no watcher is woken instead.
 *
 * All these arguments are of the form "each writes, then reads what the other
 * wrote", so all words are read and written sequentially consistent (on x86
 * that costs nothing but for the compare-and-swaps, which it needs anyhow);
 * "pairs with" and the marks above name the partners in the code. Notes and
 * the bytes of slots are plain memory: the word that gives them away is the
 * release, the one that takes them the acquire.
 *
 * Full. To see that no slot is free takes a look at all. Who frees one
 * does so (R1), and counts it in a line of his own (R2); who found none reads
 * the counts before he looks (Q1, Q2), and as long as these say the same (Q3)
 * he has no need to look again: what was freed before Q2 he has seen, and what
 * was after is counted after Q1. Not for ever, since one may die between R1
 * and R2, or be of an older library; the reaper counts for the dead, and now
 * and then a try looks anyhow, often where that has found one. The look of S2
 * always does. In broadcast a slot without a bit is as good as free, and Q2
 * takes it so; who clears the last bit, or finds that there is none, makes it
 * FREE next (R1), or somebody else has, who counts, too (R2).
 *
 * Everything here may be written by a peer that lies. What it says is an index
 * only after it was checked against private geometry, and each loop is bounded
 * by RING_STEPS, after which the memory makes no sense: -EBADMSG.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>

#include "shm/ring.h"

#define RING_MAGIC 0x676e69726e726174ull /* "tarnring" */
#define RING_VERSION 2u

/* So that 37 bits of lap and these make positions of 48. */
#define RING_ORDER_BITS 11u
#define RING_ORDER_MIN (1u << RING_ORDER_BITS)

#define POSITION_BITS 48
#define POSITION_MASK ((1ull << POSITION_BITS) - 1)

/* Each has a line of its own, and the next one that is fetched along. */
#define RING_LINE 128

/* So often, in positions, are tail and head raised by who is alone. */
#define RING_LAZY 16u

struct ring_head {
	/* Written by ring_init alone. */
	uint64_t magic;
	uint32_t version;
	uint32_t mode;
	uint32_t slots;
	uint32_t order_size;
	uint64_t slot_bytes;
	char pad0[RING_LINE - 32];
	_Atomic uint64_t tail; /* producers */
	char pad1[RING_LINE - 8];
	_Atomic uint64_t head; /* consumers of a queue */
	char pad2[RING_LINE - 8];
	_Atomic uint32_t items; /* futex: consumers sleep */
	char pad3[RING_LINE - 4];
	_Atomic uint32_t space; /* futex: producers sleep */
	char pad4[RING_LINE - 4];
	/* Seldom written: a bit and a count; a flag, set after the entry that
	 * closes was placed; who may consume a broadcast, and more. */
	_Atomic uint64_t returned;
	_Atomic uint32_t closed;
	/* No place from here on was ever taken: raised before one is. */
	_Atomic uint32_t places;
	_Atomic uint64_t consumers; /* or did: bits stay */
	/* Of what was freed, what no member counts. */
	_Atomic uint64_t freed;
	_Atomic uint32_t joined; /* how many, of all times */
	char pad6[RING_LINE - 36 + 256];
};
static_assert(sizeof(struct ring_head) == 1024, "lines");

/* One that takes part. The first line is written when it comes or goes. */
struct ring_member {
	_Atomic uint64_t word;
	/* Broadcast: from this position on, and up to that, or UNTIL_LEFT. */
	_Atomic uint64_t start;
	_Atomic uint64_t until;
	char pad0[RING_LINE / 2 - 24];
	/* Its own alone. They go on counting for the next in this place. */
	_Atomic uint64_t published;
	_Atomic uint64_t received;
	_Atomic uint64_t bytes; /* published */
	_Atomic uint64_t freed; /* slots */
	char pad1[RING_LINE / 2 - 32];
};
static_assert(sizeof(struct ring_member) == RING_LINE, "a line each");

#define UNTIL_LEFT UINT64_MAX

struct ring_slot {
	_Atomic uint64_t word;
	_Atomic uint64_t pending[2];
	/* The owner's, as the slot's bytes are; atomic, and relaxed, for those
	 * who only watch. told: the last bits of the position that this is
	 * about, 0 while it is being written. */
	_Atomic uint64_t bytes;
	_Atomic uint32_t tensors;
	_Atomic uint32_t tag_size;
	_Atomic uint64_t told;
	_Atomic uint64_t tag[RING_TAG_MAX / 8];
	char pad[RING_LINE - 48 - RING_TAG_MAX];
};
static_assert(sizeof(struct ring_slot) == RING_LINE, "a line each");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words that two processes share");

/* ---- a slot's word: position 48, generation 3, owner 10, state 3 -----------
 * The generation is that of the owner, and 0 unless FILLING or READING. */

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

/* So many are told apart: T4. */
#define RING_GENERATIONS 8u
#define SLOT_HAND_MASK 0xfff8ull

static inline uint64_t slot_hand(uint32_t owner, uint32_t generation)
{
	return (uint64_t)(generation % RING_GENERATIONS) << 13 |
	       (uint64_t)owner << 3;
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
static inline uint64_t slot_in_hand(
	const struct ring *ring, enum slot_state state, uint64_t position)
{
	return position << 16 | ring->hand | state;
}

static inline bool slot_is_in_hand(
	const struct ring *ring, enum slot_state state, uint64_t word)
{
	return (word & (SLOT_HAND_MASK | 7)) == (ring->hand | state);
}

/* ---- positions ------------------------------------------------------------- */

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

/* ---- an entry: lap 37, closed 1, owner 10, slot 16 --------------------------- */

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
	return position_past(
		       entry >> 27 << RING_ORDER_BITS, position) < 0 &&
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

/* ---- a participant's word: owner 32, generation 24, kinds 4, state 4 ----------
 * Of one that is gone the owner is how many had joined before it went. */

/* Each more is one more place that a failed try adds up; picked. */
#define RING_REST 8u

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

/* ---- pending: tag 32, bits 32 -------------------------------------------------- */

static inline uint64_t pending_word(uint64_t position, uint32_t bits)
{
	return (uint64_t)(uint32_t)position << 32 | bits;
}

static inline bool pending_is(uint64_t pending, uint64_t position)
{
	return pending >> 32 == (uint32_t)position;
}

/* ---- shared by the files of a ring ---------------------------------------------- */

/* More than honest peers can make anybody go round: each time round, one of
 * them has got a step further. */
static inline uint64_t ring_steps(const struct ring *ring)
{
	return 4ull * ring->order_size;
}

static inline _Atomic uint64_t *ring_entry(
	const struct ring *ring, uint64_t position)
{
	return &ring->order[position & (ring->order_size - 1)];
}

static inline bool ring_swap(
	_Atomic uint64_t *word, uint64_t old, uint64_t new)
{
	return atomic_compare_exchange_strong(word, &old, new);
}

/* Asks for a line that we are about to write, and does not wait for it. */
static inline void ring_fetch(const void *line)
{
#if defined(__x86_64__)
	/* The compiler's own asks for a copy only, unless told of the CPU. */
	__asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* What is read along with a slot: its first line, and the one that comes with
 * it. Only wishes: the address is ours, and nothing is read. */
static inline void ring_fetch_beside(
	const struct ring *ring, uint32_t slot, bool write)
{
	const char *at;

	if (!ring->beside)
		return;
	at = ring->beside + slot * ring->beside_size;
	if (write) {
		ring_fetch(at);
		ring_fetch(at + RING_LINE / 2);
	} else {
		__builtin_prefetch(at);
		__builtin_prefetch(at + RING_LINE / 2);
	}
}

/* T2: are we still who we were? */
static inline bool ring_is_member(const struct ring *ring)
{
	return ring->me < RING_PARTICIPANTS &&
	       atomic_load(&ring->members[ring->me].word) == ring->word;
}

/* R2, after R1: pairs with Q1 and Q3. */
static inline void ring_count_freed(struct ring *ring)
{
	_Atomic uint64_t *freed = &ring->head->freed;

	if (!ring_is_member(ring)) {
		atomic_fetch_add(freed, 1);
		return;
	}
	/* Our own alone. Release: pairs with the acquire in freed_by_all(). */
	freed = &ring->members[ring->me].freed;
	atomic_store_explicit(freed,
		atomic_load_explicit(freed, memory_order_relaxed) + 1,
		memory_order_release);
}

/* Did we look in vain, and was nothing freed since? Asked before each look for
 * a free slot; and told, after one in vain, and after the one that was not. */
bool ring_is_still_full(struct ring *ring);
void ring_note_full(struct ring *ring);
void ring_note_found(struct ring *ring);

/* Raises a position to at least that; it is never lowered. */
void ring_raise(_Atomic uint64_t *position, uint64_t to);
/* How many places may have somebody in them. */
uint32_t ring_places(const struct ring *ring);
int ring_stale(const struct ring *ring);
int ring_nonsense(const struct ring *ring, const char *what);
/* The first position that nothing was placed at; all before are finished. */
int ring_find_end(struct ring *ring, uint64_t *ret);
/* Queue: raises head past what was received. */
void ring_skip_received(struct ring *ring);
/* Reads the note of a slot that is ours to read; -EBADMSG. */
int ring_read_note(
	const struct ring *ring, uint32_t slot, struct ring_note *ret);
/* Somebody saw the entry that closes. */
void ring_say_closed(struct ring *ring);

/* Broadcast: moves the cursor to the next item for us: 1 with its slot, 0, or
 * an error, as ring_receive. */
int ring_hear(struct ring *ring, uint32_t *ret_slot);
/* The word of the slot that this entry is about, if it was not received. */
bool ring_offers(const struct ring *ring, uint64_t position, uint64_t entry,
	uint64_t *ret_word);
/* Broadcast: B1 and B2 for what was placed at that position. */
void ring_finish(struct ring *ring, uint64_t position, uint64_t entry);
/* Broadcast: this consumer has seen it, or never will. */
void ring_seen(struct ring *ring, uint32_t slot, uint64_t word, uint32_t bit);
/* Broadcast: the slot becomes free if all have seen what it says. */
bool ring_free_seen(struct ring *ring, uint32_t slot, uint64_t word);

/* Bits of a futex word, and of the sets that the kernel wakes. */
#define RING_ASLEEP 1u
#define RING_WATCHED 2u
#define RING_BOTH (RING_ASLEEP | RING_WATCHED)

/* Some of those whom now, what the word says, tells of. */
void ring_wake_those(_Atomic uint32_t *futex, uint32_t now, bool all);

/* W2: wakes one who sleeps, or all; no system call if nobody does. */
static inline void ring_wake(_Atomic uint32_t *futex, bool all)
{
	uint32_t now = atomic_load(futex); /* W2: pairs with S1 */

	if (now & RING_BOTH)
		ring_wake_those(futex, now, all);
}

/* Queue: says that there are returned items. */
void ring_say_returned(struct ring *ring);
