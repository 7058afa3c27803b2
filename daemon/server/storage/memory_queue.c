/* SPDX-License-Identifier: MIT */
/*
 * One queue of requests that wait for memory of any kind: for a load, a copy
 * into the pool, or a memfd that has to count against the budget.
 *
 * Each has a place, in the order in which they first wanted memory, and keeps
 * it until it has its memory or is refused. All waiting is here: for the
 * keeper, which makes a pool larger; for loaders that have to unmap a segment;
 * for the ring of a dead loader. The owner of a request is called back.
 *
 * Requests compete for two things.
 *
 * Within a pool, a request that fits into the free memory takes it, also past
 * those that wait: a small publication must not wait while gigabytes are
 * populated for a load. So others may use up the memory by which the pool has
 * grown for one request. When that has happened once, no request behind that
 * one is served from the pool before it: so it waits for two growths at most.
 * The keeper is asked for one growth of each pool at a time, for the first that
 * does not fit. It sets room aside for them in the order in which it is asked;
 * those that have room take turns.
 *
 * All pools and all memfds share the budget. The memory for which the requests
 * in front wait is reserved for them, even if they are of other pools: the
 * keeper counts it as taken, and a memfd takes the rest only if that, and the
 * memory about to be freed, still suffices for those in front. So no request is
 * passed for ever. Nor does any wait for ever: one that waits for memory of
 * others is refused when nothing more is about to be freed, or after
 * RECLAIM_WAIT_NS.
 *
 * To search for leases takes as long as the pages are full, which clients
 * decide. So a search has a share of the time, and a request that needs one
 * sooner rests here until it is due; that time does not count against it.
 */
#include "base/page.h"
#include "daemon/server/storage/memory_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/server.h"

static struct memory_queue *queue_of(const struct memory_wait *wait)
{
	return &wait->domain->server->memory;
}

/* ---- the queue ----------------------------------------------------------- */

/* By their numbers, most of which are the last. */
static void enqueue(struct memory_wait *wait)
{
	struct memory_queue *queue = queue_of(wait);
	struct memory_wait *before = queue->last;

	while (before && before->number > wait->number)
		before = before->before;
	wait->before = before;
	wait->next = before ? before->next : queue->first;
	*(before ? &before->next : &queue->first) = wait;
	*(wait->next ? &wait->next->before : &queue->last) = wait;
	wait->domain->growth.n_waits++;
	wait->queued = true;
	/* A deadline is set for it. */
	queue->changed |= wait->parked || wait->resume_at;
}

static void dequeue(struct memory_wait *wait)
{
	struct memory_queue *queue = queue_of(wait);
	struct domain *domain = wait->domain;

	if (!wait->queued)
		return;
	*(wait->before ? &wait->before->next : &queue->first) = wait->next;
	*(wait->next ? &wait->next->before : &queue->last) = wait->before;
	if (queue->cursor == wait)
		queue->cursor = wait->next;
	if (domain->growth.asker == wait)
		domain->growth.asker = NULL;
	if (domain->growth.first_claim == wait)
		domain->growth.first_claim = NULL;
	domain->growth.n_waits--;
	wait->queued = wait->parked = false;
	wait->need = 0;
	wait->resume_at = 0;
	wait->victims = 0;
	/* Those behind it may have what it waited for. */
	queue->changed = true;
}

/* Without what has come for it: server->allocated has that already. */
static uint64_t still_needs(const struct memory_wait *wait)
{
	const struct domain *domain = wait->domain;
	uint64_t came = domain->growth.asker == wait ? domain->growth.grown : 0;

	return wait->limited ? 0 : wait->need - MIN(wait->need, came);
}

/* The same as the keeper sees it when it comes to the next growth: those that
 * were asked for before have come or have room set aside, or were refused. */
static uint64_t ahead_unasked(const struct memory_wait *wait)
{
	uint64_t sum = 0;

	for (const struct memory_wait *w = queue_of(wait)->first;
		w && w->number < wait->number; w = w->next)
		if (w->domain->growth.asker != w)
			sum += still_needs(w);
	return sum;
}

uint64_t memory_ahead(const struct memory_wait *wait)
{
	uint64_t sum = 0;

	for (const struct memory_wait *w = queue_of(wait)->first;
		w && w->number < wait->number; w = w->next)
		sum += still_needs(w);
	return sum;
}

void memory_cancel(struct memory_wait *wait)
{
	if (wait->domain)
		dequeue(wait);
	if (wait->granted && !wait->own) {
		alloc_give(lane_alloc_at(&wait->domain->pool, wait->offset),
			wait->offset, wait->size);
		queue_of(wait)->freed = true;
	}
	wait->granted = wait->pausing = false;
	wait->until = 0;
}

/* ---- the keeper ---------------------------------------------------------- */

static int ask(struct memory_wait *wait)
{
	struct domain *domain = wait->domain;
	uint64_t size = wait->size;
	int r;

	/* New memory joins what is free at the lane's end. */
	domain->growth.asked = (struct msg_grow) {
		.domain = domain->number,
		.lane = (uint16_t)wait->lane,
		.strict = wait->strict,
		.whole = size,
		.own = own_memory(domain->server) + ahead_unasked(wait),
		.bytes = size -
			 MIN(size - PAGE, lane_tail(&domain->pool, wait->lane)),
	};
	r = server_send_keeper(domain->server, D_GROW, &domain->growth.asked,
		sizeof(domain->growth.asked), NULL, 0);
	if (r < 0)
		return r;
	domain->growth.growing = true;
	domain->growth.grown = 0;
	domain->growth.asker = wait;
	wait->parked = wait->limited = false;
	wait->need = domain->growth.asked.bytes;
	return 0;
}

/* True: it waits for what is on its way back, rather than be refused. */
static bool park(struct memory_wait *wait)
{
	struct domain *domain = wait->domain;
	uint64_t now = loop_now();

	if (!wait->until)
		wait->until = now + RECLAIM_WAIT_NS;
	if (now >= wait->until)
		return false;
	/* It waits for others' memory: its pool does not wait for it. */
	if (domain->growth.first_claim == wait)
		domain->growth.first_claim = NULL;
	wait->parked = true;
	wait->look_at = MIN(now + RECLAIM_PENDING_NS, wait->until);
	wait->left = reclaim_limit(wait);
	return true;
}

int memory_rest(struct memory_wait *wait, uint64_t at)
{
	uint64_t from = MAX(loop_now(), wait->resume_at);

	if (wait->until && at > from)
		wait->until += at - from;
	wait->resume_at = MAX(wait->resume_at, at);
	return MEMORY_LATER;
}

static bool is_resting(const struct memory_wait *wait)
{
	return wait->resume_at > loop_now();
}

/* Is the keeper to be asked again for one that it has refused? */
static bool is_due(const struct memory_wait *wait)
{
	uint64_t left = reclaim_limit(wait);

	return loop_now() >= wait->look_at || !reclaim_is_pending(wait) ||
	       (left > wait->left && left >= wait->need + memory_ahead(wait));
}

/* ---- serving ------------------------------------------------------------- */

/* Does the pool owe memory to one in front? */
static bool is_blocked(const struct memory_wait *wait)
{
	const struct memory_wait *first_claim =
		wait->domain->growth.first_claim;

	return first_claim && first_claim->number < wait->number;
}

static int take_of_pool(struct memory_wait *wait)
{
	struct domain *domain = wait->domain;
	uint64_t at;

	if (is_blocked(wait))
		return 0;
	do {
		if (lane_take(&domain->pool, wait->lane, wait->size,
			    &wait->offset))
			return 1;
		/* Frees what this turn released, before more is asked for. */
		at = collect_at(domain);
		if (at)
			memory_rest(wait, at);
	} while (!at && collect_counted(domain));
	if (domain->growth.growing || is_resting(wait) ||
		(wait->parked && !is_due(wait)))
		return 0;
	wait->resume_at = 0;
	return ask(wait);
}

static int take_beside(struct memory_wait *wait)
{
	int r = reclaim_for_own(wait);

	wait->need = wait->size;
	if (r == MEMORY_LATER || (r == 0 && park(wait)))
		return 0;
	return r == 1 ? 1 : own_no_room(wait->domain->server, wait->size);
}

static int take(struct memory_wait *wait)
{
	if (wait->pausing)
		return !is_resting(wait);
	return wait->own ? take_beside(wait) : take_of_pool(wait);
}

int memory_want(struct memory_wait *wait, uint64_t size, bool own)
{
	bool same = wait->size == size && wait->own == own;
	int r;

	if (same && wait->queued)
		return 0;
	if (!same || !wait->granted) {
		memory_cancel(wait);
		if (!wait->number)
			wait->number = ++queue_of(wait)->numbers;
		wait->size = size;
		wait->own = own;
		r = take(wait);
		if (r != 1) {
			if (r == 0)
				enqueue(wait);
			return r;
		}
	}
	wait->granted = false;
	wait->until = 0;
	return 1;
}

int memory_pause(struct memory_wait *wait, uint64_t at)
{
	memory_cancel(wait);
	if (!wait->number)
		wait->number = ++queue_of(wait)->numbers;
	wait->pausing = true;
	memory_rest(wait, at);
	enqueue(wait);
	return MEMORY_LATER;
}

/* 1: it has what it wants; or an error. Called with the owner's state as it
 * was when it wanted memory, or the owner would have cancelled. */
static void finish(struct memory_wait *wait, int r)
{
	struct domain *user = wait->user;
	uint64_t began = loop_now();

	dequeue(wait);
	wait->granted = r == 1 && !wait->pausing;
	wait->pausing = false;
	wait->done(wait, r == 1 ? 0 : r);
	quantum_spend(user, began);
}

/* The owners that are called back may cancel any, and want more. */
static bool serve_all(struct memory_queue *queue)
{
	struct memory_wait *wait;
	bool served = false;
	int r;

	for (queue->cursor = queue->first; (wait = queue->cursor);) {
		queue->cursor = wait->next;
		r = take(wait);
		if (r == 0)
			continue;
		finish(wait, r);
		served = true;
	}
	return served;
}

/* Some that was taken is free: it may be what any of them waits for. */
static void unpark_all(struct memory_queue *queue)
{
	for (struct memory_wait *w = queue->first; w; w = w->next)
		w->parked = false;
	queue->freed = false;
	queue->changed = true;
}

static uint64_t earlier(uint64_t at, uint64_t other)
{
	return at ? MIN(at, other) : other;
}

/* 0: there is none to look at. */
static uint64_t next_look(const struct memory_queue *queue)
{
	uint64_t at = 0;

	for (const struct memory_wait *w = queue->first; w; w = w->next)
		if (is_resting(w))
			at = earlier(at, w->resume_at);
		else if (w->parked && (w->own || !w->domain->growth.growing))
			at = earlier(at, w->look_at);
	return at;
}

static void on_timer(void *arg)
{
	struct memory_queue *queue = arg;

	queue->changed = true;
}

bool memory_serve(struct server *server)
{
	struct memory_queue *queue = &server->memory;
	bool served = false;

	if (queue->freed)
		unpark_all(queue);
	if (queue->changed) {
		queue->changed = false;
		served = serve_all(queue);
		deadline_call(loop_deadlines(server->loop), &queue->look,
			next_look(queue), on_timer, queue);
	}
	return served || queue->changed || queue->freed;
}

/* ---- the keeper's answer ------------------------------------------------- */

/* Its owner gets the keeper's sentence, not that of a later failure. */
static void refused(struct memory_wait *wait, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());
	struct domain *domain = wait->domain;
	bool freed = queue_of(wait)->freed,
	     first_claim = domain->growth.first_claim == wait;
	int r;

	/* The policy prefers another place to a refusal, and to the loss of
	 * what is cached. */
	if (!wait->strict &&
		lane_take_any(&domain->pool, wait->size, &wait->offset))
		return finish(wait, 1);
	/* The free memory of its pool is not enough: it may be given up,
	 * too. */
	if (first_claim)
		domain->growth.first_claim = NULL;
	r = error == -ENOSPC ? reclaim_for(wait) : error;
	if (r == 1) {
		domain->growth.first_claim =
			first_claim ? wait : domain->growth.first_claim;
		return;
	}
	/* Memory that was given up for it is still on its way: no news. */
	if (r == 0)
		queue_of(wait)->freed = freed;
	if (r == MEMORY_LATER || (r == 0 && park(wait)))
		return;
	/* From its own pool, at the cost of what is cached there; what cannot
	 * fit shall not cost others their cache. */
	r = reclaim_own_pool(wait);
	if (r == MEMORY_LATER)
		return;
	if (r == 1)
		return finish(wait, 1);
	finish(wait, tarn_fail_verbatim(-error, why ? why : "out of memory"));
}

/* All of it lies on several nodes then, where no node has so much. */
static bool spread(struct memory_wait *wait, const struct msg_grown *answer)
{
	if (!(answer->flags & GROWN_NODE) || wait->strict || !wait->lane)
		return false;
	wait->lane = 0;
	return true;
}

void memory_grown(
	struct domain *domain, int error, const struct msg_grown *answer)
{
	struct memory_wait *asker = domain->growth.asker;

	domain->growth.growing = false;
	domain->growth.asker = NULL;
	domain->server->memory.changed = true;
	if (!asker)
		return;
	domain->growth.of_node = error < 0 && answer->flags & GROWN_NODE;
	if (error < 0 && spread(asker, answer))
		return;
	if (error < 0)
		return refused(asker, error);
	asker->lane = answer->lane;
	/* All of it has come, and is kept for it until it is served. */
	asker->need = 0;
	if (!domain->growth.first_claim)
		domain->growth.first_claim = asker;
}
