/* SPDX-License-Identifier: MIT */
/*
 * A ring: how a channel hands slots from producers to consumers through one
 * memory that all of them map read-write, and in which any of them may die at
 * any instruction.
 *
 * A producer acquires a slot, fills its bytes, and publishes it; a consumer
 * receives it, reads, and releases it. In queue mode each item goes to one
 * consumer; in broadcast mode to each that had joined when it was published.
 * Items are delivered in the order of their publication, and a producer that is
 * slow to fill does not hold up the others. Slots are released in any order.
 *
 *	struct ring ring;
 *	r = ring_attach(&ring, memory, size);
 *	r = ring_join(&ring, RING_PRODUCER, owner);
 *	r = ring_wait_acquire(&ring, &forever, &slot);
 *	... fill slot's bytes ...
 *	r = ring_publish(&ring, slot, &note);
 *
 * Nothing here allocates, and only ring_wait_*() sleep. One thread at a time
 * calls functions on one struct ring; each independent thread or process joins
 * with its own. The shared words, and why the protocol is correct, are in
 * shm/ring_internal.h.
 *
 * Deaths. One reaper calls ring_reap_owner() for participants that are gone:
 * the slots that they were filling are free again; the items that they had
 * published are delivered; the items that they were reading are delivered
 * again, before anything newer and marked as such (queue), or count as seen
 * (broadcast). If a reaper dies, the next one does the same again. Until then
 * no participant waits for the dead, except for the slots that they hold.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_SLOTS_MAX 65536u
#define RING_PARTICIPANTS 1024u
/* Each consumer has a bit in a slot; a participant's number is its bit. */
#define RING_BROADCAST_CONSUMERS 64u
#define RING_TAG_MAX 64u
/* Slots of at least this size are taken from the first on, not in turn: mapping
 * the pages of a slot that this process has not used yet costs more than
 * finding a slot that was used before. To fill one takes some 20 us; picked. */
#define RING_LARGE (256u << 10)

enum ring_mode {
	RING_QUEUE = 1,
	RING_BROADCAST = 2,
};

/* The role of a participant: one, or both. */
enum ring_kind {
	RING_PRODUCER = 1,
	RING_CONSUMER = 2,
};

struct ring_geometry {
	enum ring_mode mode;
	uint32_t slots;
	uint64_t slot_bytes; /* bounds ring_note.bytes; see RING_LARGE */
};

/* An item's description, beside its bytes. */
struct ring_note {
	uint64_t bytes;   /* of the slot that are in use */
	uint32_t tensors; /* opaque to the ring, as the tag is */
	uint32_t tag_size;
	unsigned char tag[RING_TAG_MAX];
};

struct ring_item {
	uint32_t slot;
	uint64_t position; /* counts publications; modulo 2^48 */
	/* It was delivered before, to a consumer that died or left. */
	bool redelivered;
	struct ring_note note;
};

/* A participant's view. It is in private memory, so that no peer can change
 * it. */
struct ring {
	struct ring_head *head;
	struct ring_member *members;
	struct ring_slot *slots;
	_Atomic uint64_t *order;
	struct ring_geometry geometry;
	uint32_t order_size; /* a power of two */
	uint32_t me;         /* RING_PARTICIPANTS: has not joined */
	uint64_t word;       /* the word of our entry as long as it is ours */
	uint64_t owner_tag;  /* marks slots as held by us */
	uint32_t hint;       /* where to look for a free slot first */
	/* Broadcast: the next position to read. Queue: all items before it were
	 * received. */
	uint64_t cursor;
	uint64_t end;       /* every position before it has an entry */
	uint64_t head_seen; /* queue: head is at least here */
	bool crowd_in;      /* other consumers receive, or other producers
			      * publish, at the same time: */
	bool crowd_out;     /* so hints must be shared at once */
	bool quiet;         /* broadcast: it receives no more */
	/* in_vain: how many tries in a row found no free slot. freed: the sum
	 * of all members' counts of freed slots, read before the last look.
	 * doubted: the next look is made although that sum has not changed, and
	 * doubts: how much sooner such looks come. thorough: not 0, the next
	 * try must look whatever the sum. */
	uint32_t in_vain;
	uint64_t freed;
	bool doubted;
	uint8_t doubts;
	_Atomic uint32_t thorough;
	/* How often to look before sleeping. An estimate; atomic because
	 * several threads may be in ring_wait_for(). */
	_Atomic uint32_t spin;
	uint32_t spin_max; /* its bound; 0: sleep at once */
	/* Set by the process that attached, or NULL: at beside + slot *
	 * beside_size lies data that is read along with a slot, and is
	 * prefetched with it. */
	const char *beside;
	size_t beside_size;
};

/* The memory that a ring needs; -EINVAL: no such ring. */
int ring_size(const struct ring_geometry *geometry, size_t *ret);
/* Makes a ring in zeroed memory of that size, before any other process sees
 * it. */
int ring_init(void *memory, size_t size, const struct ring_geometry *geometry);
/* Checks a ring that another process made and copies its geometry. The memory,
 * page aligned, stays the caller's and must outlive the ring. -EPROTO. */
int ring_attach(struct ring *ring, void *memory, size_t size);

/*
 * Becomes a participant, of one or more kinds; the reaper finds it by owner. A
 * consumer of a broadcast gets the items published from now on. -EUSERS.
 */
int ring_join(struct ring *ring, unsigned int kinds, uint32_t owner);
/* Gives back everything that it holds, as if reaped, and ends the
 * participation. */
void ring_leave(struct ring *ring);

/*
 * The producer's side, which never waits. acquire: 1 with a slot that no other
 * participant touches, 0: none is free now, -EPIPE: closed, -ESTALE: this
 * participant was taken for dead, -EBADMSG: the shared memory is inconsistent.
 * publish gives the slot away, also where it fails: -EPIPE, -ESTALE, -EBADMSG,
 * -EINVAL (note).
 */
int ring_acquire(struct ring *ring, uint32_t *ret_slot);
int ring_publish(
	struct ring *ring, uint32_t slot, const struct ring_note *note);
/* Makes the slot free again. -ESTALE: it is not the caller's. */
int ring_abandon(struct ring *ring, uint32_t slot);

/*
 * The consumer's side, which never waits. receive: 1 with an item, 0: there is
 * none now, -EPIPE: the ring is closed and nothing is left; else as acquire.
 */
int ring_receive(struct ring *ring, struct ring_item *ret);
int ring_release(struct ring *ring, const struct ring_item *item);
/* Broadcast: this consumer wants no further items, and receive returns -EPIPE;
 * the items that it holds stay its own until it releases them. */
void ring_quiet(struct ring *ring);

/* A test that takes nothing: would receive (RING_CONSUMER) or acquire
 * (RING_PRODUCER) return something else than 0 now? */
bool ring_ready(struct ring *ring, enum ring_kind kind);

/* No item is published any more, and consumers get the end after the last one.
 * Any participant may call it, also repeatedly. -EBADMSG. */
int ring_close(struct ring *ring);
/* Is it marked as closed? A participant that is about to mark it may have
 * placed the closing entry already. */
bool ring_is_closed(const struct ring *ring);
/* For the reaper: the participant that closed the ring may have died before it
 * marked it as closed, and before it woke the sleepers. Does nothing if the
 * ring was not closed. */
void ring_finish_close(struct ring *ring);

/*
 * How long to wait. interrupted may be NULL; it is called before sleeping,
 * after each signal, and now and then. signals: a signal that was handled
 * during the sleep ends the wait; one that is handled just before does not. A
 * caller that must not miss it sets a flag in its handler, which interrupted
 * checks.
 */
struct ring_wait {
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; UINT64_MAX: none */
	bool (*interrupted)(void *arg);
	void *arg;
	bool signals;
	/* It does not take the thing that it waits for: it is woken beside the
	 * takers, and never in place of one. */
	bool watcher;
};

/* As acquire and receive, but never 0: they spin a little, then sleep.
 * -ETIMEDOUT; -EINTR: interrupted returned true, or a signal came. */
int ring_wait_acquire(
	struct ring *ring, const struct ring_wait *wait, uint32_t *ret_slot);
int ring_wait_receive(
	struct ring *ring, const struct ring_wait *wait, struct ring_item *ret);

/* The event that ends a sleep: an item was published, or a slot is free again.
 * In both cases the ring may also be closed, or the wake-up be spurious. */
enum ring_word {
	RING_ITEMS,
	RING_SPACE,
};

/*
 * Waits until look() returns something else than 0, and returns that. Several
 * threads may wait so on one struct ring, joined or not, if look() locks the
 * ring functions that it calls; the caller must hold no lock.
 */
int ring_wait_for(struct ring *ring, enum ring_word which,
	const struct ring_wait *wait, int (*look)(void *arg), void *arg);
/* Makes all sleepers look again, in this process and others. */
void ring_wake_everybody(struct ring *ring);
/* The same, for a process that need not be a participant: where no reaper makes good
 * for its death in between. Costs the next ones a superfluous system call. */
void ring_stir(struct ring *ring);

/*
 * Watching without taking part, for any process that has attached. end is the
 * position that will be published next. peek: 1 with the item published at
 * *position or, if that is gone, the next one that can still be seen
 * (ret->position), and *position is set to the one after it; 0: not yet;
 * -EPIPE: that is the end; -EBADMSG. Nothing is held: the note was correct when
 * it was read, and the item may be gone since.
 */
uint64_t ring_end(const struct ring *ring);
int ring_peek(
	const struct ring *ring, uint64_t *position, struct ring_item *ret);

/*
 * For the reaper. Gives back all that a participant held, as described above;
 * the participant must not run any more, or accept -ESTALE. A number that never
 * joined is no error. One reaper at a time; live participants are not affected.
 * Returns how many slots changed hands.
 */
uint32_t ring_reap(struct ring *ring, uint32_t participant);
/* All participants that joined with this owner. */
uint32_t ring_reap_owner(struct ring *ring, uint32_t owner);
/* All whose owner is gone, by fn's judgement, with one look at each slot: the
 * cost does not depend on their number. */
uint32_t ring_reap_gone(
	struct ring *ring, bool (*gone)(void *arg, uint32_t owner), void *arg);
/* For a closed ring: how many items a new consumer would still get. Queue: the
 * published or returned items that no consumer holds; broadcast: none. */
uint32_t ring_left(const struct ring *ring);
/* It is closed, has no participants, and no item is left to be received, now or
 * ever. */
bool ring_is_over(const struct ring *ring);
/* It has no participants. */
bool ring_is_idle(const struct ring *ring);
/* It has no participants, but had some. */
bool ring_is_deserted(const struct ring *ring);
/* Is there any participant with this owner, including one that is joining or
 * leaving? */
bool ring_has_owner(const struct ring *ring, uint32_t owner);

struct ring_stat {
	uint32_t free, filling, ready, reading, returned; /* slots */
	uint32_t producers, consumers;
	bool closed;
	/* Since the ring was made, by live and dead participants: for rates. */
	uint64_t published, received;
	uint64_t bytes; /* of all published items, modulo 2^64 */
};

/* Reads the numbers while others go on: each was true at some time. */
void ring_stat(const struct ring *ring, struct ring_stat *ret);
