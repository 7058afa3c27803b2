/* SPDX-License-Identifier: MIT */
/*
 * The words of a ring, and why the protocol on them is correct.
 *
 * A slot's word says its state, its owner, and a position. It changes by
 * compare-and-swap only:
 *
 *	FREE(c) -> FILLING(me, c)        acquire
 *	FILLING(me, c) -> OFFERED(me, p) publish, first half; p > c
 *	OFFERED(me, p) -> OFFERED(me, q) another took p; q > p
 *	OFFERED(x, p) -> READING(me, p)  receive, queue
 *	READING(me, p) -> FREE(p)        release, queue
 *	OFFERED(x, p) -> FREE(p)         broadcast: all have seen it
 *	FILLING(me, c) -> FREE(c)        abandon
 *	READING(dead, p) -> RETURNED(p) -> READING(me, p)
 *
 * The order ring has N > slots entries; entry p % N says which slot of which
 * owner was published at p, or that the ring was closed there. It goes from p -
 * N to p by one compare-and-swap, and that is the moment of publication: an
 * OFFERED slot whose position names it in the order ring is published, one
 * whose position does not is not, and its owner was about to try the next. No
 * other information is needed, so nothing is half done when its owner dies.
 *
 * c is the last position at which the slot was published, and p > c, so each
 * OFFERED(x, p) that is published occurs once in the life of a ring: a
 * participant that saw an entry and is late fails at its compare-and-swap.
 * (Positions have 48 bits and wrap: after a year at ten million items a second;
 * a stale one would have to sleep for exactly that.)
 *
 * Positions are dense: a producer that places at p has seen the entry of p - 1.
 * tail is a lower bound of the end, a hint that any producer raises. head
 * (queue) is a lower bound of the first item that was not received; a
 * participant that finds an entry whose slot is no longer OFFERED at it raises
 * head. An entry is written over by the next lap only when head is past it
 * (queue). In broadcast a consumer's bit in the slot holds each item that it
 * has not received, and so all later ones; that is at most `slots` items, the
 * closing entry, and one late entry of each participant that was wrongly taken
 * for dead: less than N, so the next lap cannot have reached it.
 *
 * Broadcast. pending[i] of a slot is a tag, 32 bits of the position, and a bit
 * for each of 32 consumers. finish() fills it after the entry was placed: (B1)
 * pending goes from an older tag to this one with the present members; (B2)
 * each of those is checked again, and its bit cleared if it is gone. A consumer
 * leaves by (L1) changing its word, (L2) clearing its bit in all slots. Either
 * B2 sees L1, or L2 comes after B1 and sees the bit. One that goes quiet does
 * the same for all positions from its cursor on, where L1 is its until; bits of
 * what it has received stay, since B2 finds them before that. The participant
 * that meets an entry first finishes it, and no producer goes on to p + 1
 * before p is finished; so the items pending for a consumer have no gaps, from
 * the first one after it joined. It joins at the end of all placed entries, so
 * late B1 and B2, which are about entries placed before, do not concern it. A
 * slot whose two words have its tag and no bit is free: the participant that
 * clears the last bit marks it so, and if that one dies first, a producer that
 * looks for a free slot does.
 *
 * Returned items (queue) are older than all that stands in the order ring, so
 * they are delivered first, the oldest first. `returned` is a bit that is set
 * while there may be some, and a count, so that a consumer that found none
 * clears the bit only if nothing was returned since it looked.
 *
 * Taken for dead. A participant's word changes (M1) before its slots are swept
 * (M2); a participant that has taken a slot (T1) reads its own word again
 * (T2). Either it sees M1 and gives the slot back, or M2 finds the slot.
 * Before it gives away a slot that it took earlier it reads its own word too
 * (T3): its place may belong to a successor by then, which has the same slot
 * at the same position. A participant that is stopped between that look and
 * its swap, for however long, finds another generation in the slot's word
 * (T4): the words of held slots, FILLING or READING, contain the last bits of
 * the generation. And a place gets no successor soon (T5): one that became
 * free rests until RING_COOLDOWN others have joined. So the participant finds
 * its own word again only after RING_GENERATIONS others were in its place, and
 * RING_COOLDOWN elsewhere before each: 72 joins, all of them while it is
 * between those two instructions and nothing is published in that slot. (Where
 * no other place is left, a place is taken that has not rested: 8 joins.)
 *
 * More bits do not fit into a word whose position must not change, such as that
 * of an item that is delivered again. The word of an OFFERED slot has no
 * generation, since a consumer computes it from the entry, which has no room
 * for one. Nor does any participant hold the slot: all that a participant
 * wrongly taken for dead can still do with it is to place its entry. The slot's
 * word is not OFFERED(that participant, p), as long as T5 keeps a successor
 * from offering it there, so all skip the entry. The bytes of a slot and its
 * note are not words: a participant wrongly taken for dead that still writes
 * there writes into another's slot. So the reaper must be sure that a
 * participant is dead.
 *
 * Watching. note_position is the position that a note is about: 0 (N1) before
 * the note is written, then (N2) the position, before the slot becomes OFFERED
 * there. A watcher of p reads note_position (N3), the note, note_position
 * again and the slot's word (N4). If note_position is p both times, and the
 * word is not FILLING, the note is that of p: had it been overwritten
 * meanwhile, N4 would see N1, or, as a slot that is filled again after p ends
 * at another position, that position. (A slot that failed to be published goes
 * back to FREE(p), but note_position does not.)
 *
 * Sleeping. items and space are futex words: bit 0 means that a taker may be
 * asleep, bit 1 that a watcher may be, the rest counts. A sleeper sets its bit
 * (S1), looks once more (S2), and sleeps only on the value that it saw. A
 * participant that changes something does so (W1) and then reads the bits (W2);
 * so either S2 sees W1, or W2 sees S1. There is no count of sleepers: it would
 * be wrong after the first death. One taker is woken, and all watchers: the
 * kernel tells them apart by a mask, so that no watcher is woken instead of a
 * taker.
 *
 * All these arguments are of the form "each writes, then reads what the other
 * wrote", so all words are read and written sequentially consistent (on x86
 * that costs nothing beyond the compare-and-swaps, which are needed anyway);
 * "pairs with" and the marks above name the partners in the code. Notes and the
 * bytes of slots are plain memory: the store to the word that gives them away
 * is the release, the one that takes them the acquire.
 *
 * Full. To find out that no slot is free, a producer must look at all of them.
 * A participant that frees a slot does so (R1), and counts it in a cache line
 * of its own (R2). A producer that found none reads the counts before it looks
 * (Q1, Q2), and as long as these are the same (Q3) it need not look again: it
 * has seen all slots freed before Q2, and those freed later are counted after
 * Q1. This is not relied on for ever, since a participant may die between R1
 * and R2, or never count; the reaper counts for the dead, and now and then a
 * try looks anyway, often where that has found a slot. The look of S2 always
 * does. In broadcast a slot without a bit is as good as free, and Q2 treats it
 * so; the participant that clears the last bit, or finds that there is none,
 * makes it FREE next (R1), or another has done so, which counts it too (R2).
 *
 * A hostile peer may write anything here. A value is used as an index only
 * after it was checked against private geometry, and each loop is bounded by
 * ring_steps(), after which the memory counts as inconsistent: -EBADMSG.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>

#include "shm/ring_word.h"

#define RING_MAGIC 0x676e69726e726174ull /* "tarnring" */
#define RING_VERSION 2u

#define RING_ORDER_MIN (1u << RING_ORDER_BITS)

/* Each has a line of its own, and the next one that is fetched along. */
#define RING_LINE 128

/* A participant that is alone raises tail and head only once in so many
 * positions. */
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
	_Atomic uint64_t tail; /* written by producers */
	char pad1[RING_LINE - 8];
	_Atomic uint64_t head; /* written by the consumers of a queue */
	char pad2[RING_LINE - 8];
	_Atomic uint32_t items; /* futex: consumers sleep */
	char pad3[RING_LINE - 4];
	_Atomic uint32_t space; /* futex: producers sleep */
	char pad4[RING_LINE - 4];
	/* Rarely written: a bit and a count; a flag, set after the closing
	 * entry was placed; the participants that may consume a broadcast, and
	 * more. */
	_Atomic uint64_t returned;
	_Atomic uint32_t closed;
	/* No place from here on was ever taken: it is raised before one is
	 * taken. */
	_Atomic uint32_t places;
	_Atomic uint64_t consumers; /* consumers, also former ones: bits stay */
	/* Counts the freed slots that no member counts. */
	_Atomic uint64_t freed;
	_Atomic uint32_t joined; /* of all times */
	char pad6[RING_LINE - 36 + 256];
};
static_assert(sizeof(struct ring_head) == 1024, "lines");

/* A participant. The first line is written when it joins or leaves. */
struct ring_member {
	_Atomic uint64_t word;
	/* Broadcast: it receives from position start on, and up to until, or
	 * UNTIL_LEFT. */
	_Atomic uint64_t start;
	_Atomic uint64_t until;
	char pad0[RING_LINE / 2 - 24];
	/* Written by this member alone. The counts go on for the next in this
	 * place. */
	_Atomic uint64_t published;
	_Atomic uint64_t received;
	_Atomic uint64_t bytes; /* of published items */
	_Atomic uint64_t freed; /* slots */
	char pad1[RING_LINE / 2 - 32];
};
static_assert(sizeof(struct ring_member) == RING_LINE, "a line each");

#define UNTIL_LEFT UINT64_MAX

struct ring_slot {
	_Atomic uint64_t word;
	_Atomic uint64_t pending[2];
	/* Written by the owner, as the slot's bytes are; atomic, and relaxed,
	 * for watchers. note_position: the last bits of the position that this
	 * is about, 0 while it is being written. */
	_Atomic uint64_t bytes;
	_Atomic uint32_t tensors;
	_Atomic uint32_t tag_size;
	_Atomic uint64_t note_position;
	_Atomic uint64_t tag[RING_TAG_MAX / 8];
	char pad[RING_LINE - 48 - RING_TAG_MAX];
};
static_assert(sizeof(struct ring_slot) == RING_LINE, "a line each");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words that two processes share");

/* ---- shared by the files of a ring --------------------------------- */

/* More than honest peers can ever make a participant loop: in each round one of
 * them has made progress. */
static inline uint64_t ring_steps(const struct ring *ring)
{
	return 4ull * ring->order_size;
}

static inline _Atomic uint64_t *ring_entry(
	const struct ring *ring, uint64_t position)
{
	return &ring->order[position & (ring->order_size - 1)];
}

static inline bool ring_swap(_Atomic uint64_t *word, uint64_t old, uint64_t new)
{
	return atomic_compare_exchange_strong(word, &old, new);
}

/* Prefetches a line that we are about to write, without waiting. */
static inline void ring_fetch(const void *line)
{
#if defined(__x86_64__)
	/* The compiler's own builtin asks for a shared copy, unless it is told
	 * of the CPU. */
	__asm__ __volatile__("prefetchw %0" : : "m"(*(const char *)line));
#else
	__builtin_prefetch(line, 1);
#endif
}

/* Prefetches the data that is read along with a slot: its first line, and the
 * one after it. Only a hint: the address is ours, and nothing is read. */
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

/* T2: are we still a member under this word? */
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
	/* Written by us alone. Release: pairs with the acquire in
	 * freed_by_all(). */
	freed = &ring->members[ring->me].freed;
	atomic_store_explicit(freed,
		atomic_load_explicit(freed, memory_order_relaxed) + 1,
		memory_order_release);
}

/* Did the last look find no slot, and was none freed since? Called before each
 * look for a free slot; the two below report a look that found none, and one
 * that found one. */
bool ring_is_still_full(struct ring *ring);
void ring_note_full(struct ring *ring);
void ring_note_found(struct ring *ring);

/* Raises a position to at least to; it is never lowered. */
void ring_raise(_Atomic uint64_t *position, uint64_t to);
/* How many places may be taken. */
uint32_t ring_places(const struct ring *ring);
/* It leaves: gives back what it holds, and its place. */
void ring_reap_me(struct ring *ring);
int ring_stale(const struct ring *ring);
int ring_nonsense(const struct ring *ring, const char *what);
/* The first position without an entry; all before are finished. */
int ring_find_end(struct ring *ring, uint64_t *ret);
/* Queue: raises head past items that were received. */
void ring_skip_received(struct ring *ring);
/* Reads the note of a slot that we may read; -EBADMSG. */
int ring_read_note(
	const struct ring *ring, uint32_t slot, struct ring_note *ret);
/* Marks the ring as closed, after the closing entry was seen. */
void ring_mark_closed(struct ring *ring);

/* Broadcast: moves the cursor to the next item for this consumer: 1 with its
 * slot, 0, or an error, as ring_receive. */
int ring_receive_broadcast(struct ring *ring, uint32_t *ret_slot);
/* The word of the slot that this entry is about, if the item was not
 * received. */
bool ring_offers(const struct ring *ring, uint64_t position, uint64_t entry,
	uint64_t *ret_word);
/* Broadcast: B1 and B2 for the entry at that position. */
void ring_finish(struct ring *ring, uint64_t position, uint64_t entry);
/* Broadcast: this consumer has seen it, or never will. */
void ring_seen(struct ring *ring, uint32_t slot, uint64_t word, uint32_t bit);
/* Broadcast: frees the slot if all consumers have seen its item. */
bool ring_free_seen(struct ring *ring, uint32_t slot, uint64_t word);

/* Bits of a futex word, and of the sets that the kernel wakes. */
#define RING_ASLEEP 1u
#define RING_WATCHED 2u
#define RING_BOTH (RING_ASLEEP | RING_WATCHED)

/* Wakes some of the sleepers whose bits are set in now. */
void ring_wake_those(_Atomic uint32_t *futex, uint32_t now, bool all);

/* W2: wakes one sleeper, or all; no system call if there are none. */
static inline void ring_wake(_Atomic uint32_t *futex, bool all)
{
	uint32_t now = atomic_load(futex); /* W2: pairs with S1 */

	if (now & RING_BOTH)
		ring_wake_those(futex, now, all);
}

/* Queue: records that there are returned items. */
void ring_count_returned(struct ring *ring);

/* ring_wait.c: how long this participant looks before it sleeps. */
void ring_wait_init(struct ring *ring);
