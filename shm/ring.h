/* SPDX-License-Identifier: MIT */
/*
 * A ring: how a channel hands slots from producers to consumers through one
 * memory that all of them map read-write, and in which any of them may die at
 * any instruction.
 *
 * A producer acquires a slot, fills its bytes, and publishes it; a consumer
 * receives it, reads, and releases it. In queue mode each item goes to one
 * consumer; in broadcast mode to each that had joined when it was published.
 * Items are delivered in the order of their publication, and a producer that
 * is slow to fill holds up nobody. Slots are released in any order.
 *
 *	struct ring ring;
 *	r = ring_attach(&ring, memory, size);
 *	r = ring_join(&ring, RING_PRODUCER, owner);
 *	r = ring_wait_acquire(&ring, &forever, &slot);
 *	... fill slot's bytes ...
 *	r = ring_publish(&ring, slot, &note);
 *
 * Nothing here allocates, and only ring_wait_*() sleep. Calls on one struct
 * ring are made by one thread at a time; a thread or process of its own joins
 * on its own. What is shared, and why it is right, is in shm/ring_words.h.
 *
 * Deaths. One reaper calls ring_reap_owner() for those who are gone: what they
 * were filling is free again; what they had published is delivered; what they
 * were reading is delivered again, before anything newer and marked as such
 * (queue), or counts as seen (broadcast). A reaper that dies is followed by
 * one that does the same again. Until then nobody waits for the dead, except
 * for the slots that they hold.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_SLOTS_MAX 65536u
#define RING_PARTICIPANTS 1024u
/* A bit of a slot for each; a participant's number is its bit. */
#define RING_BROADCAST_CONSUMERS 64u
#define RING_TAG_MAX 64u
/* Slots of so many bytes are taken from the first on, not in turn: to map
 * those that nobody had in hand yet costs more than to find one that was used
 * before. Some 20 us to fill one; picked. */
#define RING_LARGE (256u << 10)

enum ring_mode {
	RING_QUEUE = 1,
	RING_BROADCAST = 2,
};

/* What a participant does: one, or both. */
enum ring_kind {
	RING_PRODUCER = 1,
	RING_CONSUMER = 2,
};

struct ring_geometry {
	enum ring_mode mode;
	uint32_t slots;
	uint64_t slot_bytes; /* bounds ring_note.bytes; see RING_LARGE */
};

/* What an item says of itself beside its bytes. */
struct ring_note {
	uint64_t bytes;	  /* of the slot that are in use */
	uint32_t tensors; /* opaque here, as the tag is */
	uint32_t tag_size;
	unsigned char tag[RING_TAG_MAX];
};

struct ring_item {
	uint32_t slot;
	uint64_t position; /* counts publications; modulo 2^48 */
	/* It was delivered before, to one who died or left. */
	bool redelivered;
	struct ring_note note;
};

/* A participant's view: private memory, so that no peer can change it. */
struct ring {
	struct ring_head *head;
	struct ring_member *members;
	struct ring_slot *slots;
	_Atomic uint64_t *order;
	struct ring_geometry geometry;
	uint32_t order_size; /* a power of two */
	uint32_t me;	     /* RING_PARTICIPANTS: has not joined */
	uint64_t word;	     /* what our entry says as long as it is ours */
	uint64_t hand;	     /* what a slot in our hands says of us */
	uint32_t hint;	     /* where to look for a free slot first */
	/* Broadcast: the next position to look at. Queue: none that was not
	 * received is before it. */
	uint64_t cursor;
	uint64_t end;	     /* what is before it was placed */
	uint64_t head_seen;  /* queue: the head was there at least */
	bool crowd_in;	     /* others receive, or publish, between us: */
	bool crowd_out;	     /* so hints are not for us alone */
	bool quiet;	     /* broadcast: it looks no more */
	/* How often, one after the other, no slot was free; what all had freed
	 * before we looked; whether we look although that says the same still,
	 * and the sooner for how much reason; and what the next time says, if
	 * it says anything but 0: to look whatever was freed. */
	uint32_t in_vain;
	uint64_t freed;
	bool doubted;
	uint8_t doubts;
	_Atomic uint32_t thorough;
	/* How often to look before sleeping; a guess, and atomic because
	 * several threads may be in ring_wait_for(). */
	_Atomic uint32_t spin;
	uint32_t spin_max;   /* its bound; 0: sleep at once */
	/* Set by who attached, or NULL: at beside + slot * beside_size lies
	 * what is read along with a slot, and is asked for along with it. */
	const char *beside;
	size_t beside_size;
};

/* How much memory a ring takes; -EINVAL: no such ring. */
int ring_size(const struct ring_geometry *geometry, size_t *ret);
/* Makes one in that much zeroed memory, before anybody else sees it. */
int ring_init(void *memory, size_t size, const struct ring_geometry *geometry);
/* Checks what somebody else made and copies its geometry. The memory, page
 * aligned, stays the caller's and must outlive the ring. -EPROTO. */
int ring_attach(struct ring *ring, void *memory, size_t size);

/*
 * Becomes a participant, of kinds ored; owner is how the reaper will know it.
 * A consumer of a broadcast gets what is published from here on. -EUSERS.
 */
int ring_join(struct ring *ring, unsigned int kinds, uint32_t owner);
/* Gives back what is held, as if reaped, and is a participant no more. */
void ring_leave(struct ring *ring);

/*
 * The producer's side, which never waits. acquire: 1 with a slot that nobody
 * else touches, 0: none is free now, -EPIPE: closed, -ESTALE: we were taken
 * for dead, -EBADMSG: the memory makes no sense. publish gives the slot away,
 * also where it fails: -EPIPE, -ESTALE, -EBADMSG, -EINVAL (note).
 */
int ring_acquire(struct ring *ring, uint32_t *ret_slot);
int ring_publish(
	struct ring *ring, uint32_t slot, const struct ring_note *note);
/* The slot is free again. -ESTALE: it is not ours. */
int ring_abandon(struct ring *ring, uint32_t slot);

/*
 * The consumer's side, which never waits. receive: 1 with an item, 0: there is
 * none now, -EPIPE: the ring is closed and nothing is left; else as acquire.
 */
int ring_receive(struct ring *ring, struct ring_item *ret);
int ring_release(struct ring *ring, const struct ring_item *item);
/* Broadcast: nothing that was not received is for us any more, and receive
 * says -EPIPE; what is in our hands stays ours until it is released. */
void ring_quiet(struct ring *ring);

/* A look that takes nothing: would receive (RING_CONSUMER) or acquire
 * (RING_PRODUCER) say something else than 0 now? */
bool ring_ready(struct ring *ring, enum ring_kind kind);

/* Nothing is published any more, and consumers get the end after what was.
 * May be called by anybody, again too. -EBADMSG. */
int ring_close(struct ring *ring);
/* Has somebody said so? Who is about to may have placed the entry already. */
bool ring_is_closed(const struct ring *ring);
/* The reaper's: who closed it may have died before he said so, and before he
 * woke those who sleep. Does nothing if it was not closed. */
void ring_finish_close(struct ring *ring);

/*
 * How long to wait. interrupted may be NULL; it is asked before sleeping, after
 * each signal, and now and then. signals: a signal that was handled while we
 * slept ends the wait; one that is handled just before does not, so who must
 * not miss it leaves a mark in its handler and has interrupted look at it.
 */
struct ring_wait {
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; UINT64_MAX: none */
	bool (*interrupted)(void *arg);
	void *arg;
	bool signals;
	/* Takes nothing of what it waits for: is woken beside those who do,
	 * and never in the place of one. */
	bool watcher;
};

/* As acquire and receive, but never 0: they spin a little, then sleep.
 * -ETIMEDOUT; -EINTR: interrupted said so, or a signal came. */
int ring_wait_acquire(
	struct ring *ring, const struct ring_wait *wait, uint32_t *ret_slot);
int ring_wait_receive(struct ring *ring, const struct ring_wait *wait,
	struct ring_item *ret);

/* What ends a sleep: something was published, or a slot is free again. Either
 * may also be the end, or nothing. */
enum ring_word {
	RING_ITEMS,
	RING_SPACE,
};

/*
 * Waits until look() says something else than 0, and returns that. Several
 * threads may wait so on one struct ring, joined or not, if look() locks what
 * it calls; no lock is to be held on the way in.
 */
int ring_wait_for(struct ring *ring, enum ring_word which,
	const struct ring_wait *wait, int (*look)(void *arg), void *arg);
/* All who sleep look again, here and in other processes. */
void ring_wake_everybody(struct ring *ring);

/*
 * Watching without taking part, by whoever has attached. end is the position
 * that will be published next. peek: 1 with what was published at *position
 * or, where that went by, the next that is still to be seen (ret->position
 * tells), which *position is then past; 0: not yet; -EPIPE: that is the end;
 * -EBADMSG. Nothing is held: the note was true, and by now is history.
 */
uint64_t ring_end(const struct ring *ring);
int ring_peek(const struct ring *ring, uint64_t *position,
	struct ring_item *ret);

/*
 * The reaper's. What a participant held is given back, as said above; it must
 * run no more, or be content with -ESTALE. Who never joined is no error. One
 * reaper at a time; live participants need not care. Returns how many slots
 * changed hands.
 */
uint32_t ring_reap(struct ring *ring, uint32_t participant);
/* All participants that joined with this owner. */
uint32_t ring_reap_owner(struct ring *ring, uint32_t owner);
/* All whose owner is gone, as fn says, with one look at each slot: the cost
 * does not depend on how many they are. */
uint32_t ring_reap_gone(struct ring *ring,
	bool (*gone)(void *arg, uint32_t owner), void *arg);
/* Of one that is closed, how many items whoever comes would get: of a queue
 * what is published, or returned, and in nobody's hands; of a broadcast none. */
uint32_t ring_left(const struct ring *ring);
/* It is closed, nobody takes part, and nothing is left to be received, now or
 * ever. */
bool ring_is_over(const struct ring *ring);
/* Nobody takes part, and somebody did. */
bool ring_is_deserted(const struct ring *ring);
/* Is there any participant, on its way in or out too, with this owner? */
bool ring_has_owner(const struct ring *ring, uint32_t owner);

struct ring_stat {
	uint32_t free, filling, ready, reading, returned; /* slots */
	uint32_t producers, consumers;
	bool closed;
	/* Since it was made, by the living and the dead: for rates. */
	uint64_t published, received;
	uint64_t bytes; /* of what was published, modulo 2^64 */
};

/* A look while others go on: each number was true at some time. */
void ring_stat(const struct ring *ring, struct ring_stat *ret);
