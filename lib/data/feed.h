/* SPDX-License-Identifier: MIT */
/*
 * A feed: the batches of a node, read once for all of its processes.
 *
 * It is a broadcast channel, whose items are parts of global batches with their
 * positions, and the turn, which the process has that reads. The turn is the one
 * slot of another channel: the process that has acquired it reads, and when it
 * leaves or dies, the slot is free for the next.
 *
 * What an item contains follows from its position and the configuration, which is
 * a part of the channels' names. So no order of events gives a rank wrong samples,
 * the same twice, or too few:
 *
 *  - A rank wants one position, w, and gives nothing else to its caller.
 *  - An item at w is what reading w would give. Two readers at once, or one that
 *    repeats what a dead one has published, make equal items; the rank takes the
 *    first, and drops the others, since it wants w + batch by then.
 *  - If the next item is later than w, no item will come for w, or only as a
 *    repetition: items are delivered in order, and readers go on from what was
 *    published, or from what their own rank wants. The rank reads w itself.
 *  - An item that went by before the process took part does not come either, and
 *    the next one may wait for this rank: so it must not be waited for. The process
 *    watches while it joins, counts what it cannot see any more, and so knows what
 *    went by.
 *  - A reader goes on behind what was published, by any reader: repetitions would
 *    take the slots that what follows needs, and which the others keep until this
 *    rank has come as far as they. Where it cannot know, a rank that waits in vain
 *    for long reads for itself (loader.c).
 *  - If no item comes, no process reads, and the turn is free: each process that
 *    receives also waits for the turn, so one of them gets it, and goes on.
 *
 * A rank that joined late, or whose position is far from the feed's, does not
 * take part and reads for itself; it watches, and joins where they meet. Deaths
 * and such detours cost reads, and decide nothing.
 */
#pragma once

#include <tarn/channel.h>

#include "lib/data/batch.h"

struct feed;

struct feed_options {
	const char *name;
	uint64_t batch;    /* samples of a global batch */
	uint64_t first, n; /* of each, the node's */
	uint64_t end;
	uint32_t slots;
	uint32_t processes; /* that are expected; see feed_turn.c */
};

/* wanted: the position that the rank wants, which it keeps up to date. Nothing is
 * joined yet. -EMEDIUMTYPE, and errors of tarn_channel_open. */
int feed_open(tarn_store *store, tarn_data *data, const struct batch_form *form,
	const struct feed_options *options, const atomic_uint_least64_t *wanted,
	struct ahead_counts *counts, struct feed **ret);
/* Takes NULL and returns NULL. */
struct feed *feed_end(struct feed *feed);
/* In a child of fork, where its thread does not exist. */
struct feed *feed_forget(struct feed *feed);

/* Takes part, if the feed is at about the position that is wanted, or nobody
 * does. True: it does now, or did before. */
bool feed_join(struct feed *feed);
void feed_leave(struct feed *feed);
bool feed_reads(const struct feed *feed);

/* A part of a batch that has come. */
struct feed_item {
	tarn_item *item;
	uint64_t position;
	bool failed;
};

enum feed_outcome {
	FEED_OVER = 1,    /* for this process */
	FEED_WENT_BY = 2, /* what is wanted went by before it took part */
};

/* The next one, or an outcome; -ETIMEDOUT, -EINTR. */
int feed_receive(struct feed *feed, int timeout_ms, struct feed_item *ret);
/* Samples first .. first + n - 1 of it, as a batch; the item stays the caller's.
 * -EBADMSG: it is none. */
int feed_batch(struct feed *feed, const struct feed_item *item, uint64_t first,
	uint64_t n, tarn_batch **ret);
/* How many items this process has received and not dropped. */
uint64_t feed_held(const struct feed *feed);
/* Is a position so far from the one that is wanted that waiting makes no
 * sense? */
bool feed_is_far(const struct feed *feed, uint64_t position);

/* So long a reader waits at most for the processes that are expected, see
 * feed_turn.c. Picked: processes that are started at once import their libraries
 * meanwhile. A variable for tests. */
extern uint64_t feed_expect_ns;

/* ---- private to feed*.c -------------------------------------------------- */

struct feed {
	tarn_store *store;
	tarn_data *data;
	const struct batch_form *form;
	struct feed_options options;
	const atomic_uint_least64_t *wanted;
	struct ahead_counts *counts;
	char *name; /* of the channel; the turn's has an end */
	tarn_channel *channel, *turn;
	bool joined, begun; /* begun: there is a thread */
	bool over;          /* what it is worth is spent: no more of it */
	/* Written while there is no thread. */
	uint64_t cursor; /* of watching; the last item that went by: */
	uint64_t passed_item, passed_last;
	bool passed;
	uint64_t passed_position; /* the latest one that did */
	pthread_t thread;
	atomic_bool stop;
	atomic_bool reads;    /* this process has the turn */
	atomic_bool awaited;  /* the rank waits, or has got something */
	atomic_bool broken;   /* this process cannot read for the feed */
	bool ready;           /* the thread's: parts may be given */
	uint64_t turn_ns;     /* when it got the turn */
	pthread_mutex_t lock; /* guards what follows */
	bool seen;
	uint64_t seen_item, seen_position; /* of the last item received */
};

/* Bytes of an item's tag; little-endian words. */
struct feed_tag {
	uint64_t magic, position;
	uint64_t failed; /* 0 or 1 */
};

#define FEED_MAGIC 0x31726461656c7274u /* "trleadr1" */

static inline uint64_t feed_wanted(const struct feed *s)
{
	/* Relaxed: a number, of which an old value costs reads alone. */
	return atomic_load_explicit(s->wanted, memory_order_relaxed);
}

static inline bool feed_flag(const atomic_bool *flag)
{
	/* Relaxed: flags that order nothing. */
	return atomic_load_explicit(flag, memory_order_relaxed);
}

static inline void feed_set(atomic_bool *flag, bool value)
{
	atomic_store_explicit(flag, value, memory_order_relaxed);
}

/* Opens the channels, anew if they are open. */
int feed_open_channels(struct feed *feed);
void feed_close_channels(struct feed *feed);
/* The same, for those in which nobody has taken part: they end. */
void feed_end_channels(struct feed *feed);
/* The thread that waits for the turn, and reads when it has it. */
int feed_begin_turns(struct feed *feed);
void feed_end_turns(struct feed *feed);
