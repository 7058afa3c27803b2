/* SPDX-License-Identifier: MIT */
/*
 * Memory for loads and publications: one queue of those that wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/deadline.h"
#include "daemon/messages.h"

struct domain;
struct server;

/*
 * A request for memory, a member of the structure that needs it. The owner
 * calls memory_want() until that has succeeded, and memory_cancel() before it
 * frees the structure.
 */
struct memory_wait {
	struct domain *domain;
	struct domain *user; /* whose time what follows takes: quantum.c */
	/* When it is worth calling memory_want() again (error 0), or when
	 * there will be no memory (a negative errno, with the reason in this
	 * thread's sentence). Called between turns of the loop, or with an
	 * answer of the keeper; never by memory_want(). */
	void (*done)(struct memory_wait *wait, int error);
	/* lane_choose: where it wants the memory, and whether there alone.
	 * One that is not strict is moved to a lane that has some. */
	uint32_t lane;
	bool strict, chosen;
	uint64_t offset; /* in the pool, when it was given */

	/* The queue's own. */
	struct memory_wait *before, *next;
	uint64_t number; /* its place: in the order of the first wishes */
	uint64_t size;
	bool own; /* of the budget, beside the pool */
	bool queued;
	bool granted;     /* and not yet given to its owner */
	bool parked;      /* it waits for what is on its way back */
	bool limited;     /* of its own pool, the size of which is reached */
	uint64_t need;    /* of the budget, for which it waits */
	uint64_t left;    /* of the budget or the pool, when it was parked */
	uint64_t look_at; /* when it waits no longer for what comes now */
	uint64_t until;   /* nor for anything; 0: it has not yet waited */
	/* When there is time to search for it again: others' turn is first. */
	uint64_t resume_at;
	bool pausing;     /* it wants nothing but that */
	uint32_t victims; /* so many files the next step evicts; 0: one */
};

/* For loaders to forget what is given back; one that hangs meanwhile keeps it.
 * Picked: a loader that works answers in a millisecond. */
#define RECLAIM_PENDING_NS 5000000000ull

/* So long one waits for all that is on its way, and others may take before it;
 * and so long a dead loader's ring is waited for. Picked: twice as long. */
#define RECLAIM_WAIT_NS (2 * RECLAIM_PENDING_NS)

struct memory_queue {
	struct memory_wait *first, *last;
	struct memory_wait *cursor; /* the next one that is looked at */
	uint64_t numbers;
	bool changed;         /* memory came, went or was refused */
	bool freed;           /* some that was taken is free */
	struct deadline look; /* at those that are parked */
};

/* What a domain waits for: memory of the keeper's, and its own for others. */
struct growth {
	bool growing;              /* the keeper was asked for memory */
	struct msg_grow asked;     /* of the keeper, the last time */
	bool of_node;              /* refused for want of a node's memory */
	uint64_t grown;            /* bytes of segments that came since then */
	struct memory_wait *asker; /* for whom, if growing; NULL: it left */
	/* The pool has grown for it, and others have taken that: nobody behind
	 * it goes first. */
	struct memory_wait *first_claim;
	uint32_t n_waits; /* for memory */
};

/* ---- storage/memory_queue.c: requests that wait for memory --------------- */

/*
 * Size bytes, whole pages, of the pool; or, if own, of the budget beside it,
 * which the caller must use before it returns to the loop. 1: wait->offset is
 * where; 0: it is queued; or an error.
 */
int memory_want(struct memory_wait *wait, uint64_t size, bool own);
/* It wants none any more; what it was granted goes back. */
void memory_cancel(struct memory_wait *wait);
/* D_GROWN: error 0, or one with this thread's last sentence. */
void memory_grown(
	struct domain *domain, int error, const struct msg_grown *answer);
/* Between turns: serves those that wait. True: call it again. */
bool memory_serve(struct server *server);
/* It waits in the queue until then, for time to search: MEMORY_LATER. */
#define MEMORY_LATER 2
int memory_rest(struct memory_wait *wait, uint64_t at);
/* The same for one that wants no memory yet: the queue takes it in its place, and
 * calls it back then. Memory that it had goes back to the pool. */
int memory_pause(struct memory_wait *wait, uint64_t at);
/* Bytes of the budget for which those before it wait. */
uint64_t memory_ahead(const struct memory_wait *wait);

/* ---- storage/reclaim.c: room where there is none ------------------------ */

/* The keeper refused what the domain of wait had asked for. 1: it is worth
 * asking again; 0: memory is on its way; -ENOSPC, without a sentence: there is
 * none; MEMORY_LATER. */
int reclaim_for(struct memory_wait *wait);
/* The same for what is not in a pool. 1: it fits. */
int reclaim_for_own(struct memory_wait *wait);
/* From what is cached in its own pool alone. 1: wait->offset is taken. */
int reclaim_own_pool(struct memory_wait *wait);
/* Is any memory that it waits for on its way back? */
bool reclaim_is_pending(const struct memory_wait *wait);
/* How much the keeper could grant, by the budget and by the pool's size. */
uint64_t reclaim_limit(const struct memory_wait *wait);
/* Gives at least so many bytes back to the system, if so many have no holder;
 * returns how many: fewer when the time for it is spent. */
uint64_t reclaim_give(struct server *server, uint64_t bytes);
/* The most that it could give back. */
uint64_t reclaimable_bytes(const struct server *server);
