/* SPDX-License-Identifier: MIT */
/*
 * Room for who waits, where the keeper has none: what is kept only because
 * there was room makes it, whichever rule it belongs to.
 *
 * The idea: the budget and the machine's memory are everybody's, a pool is
 * one rule's. So a file that nobody holds makes room in its own pool at once,
 * and in others by way of the keeper: evicted, the segment dropped when
 * nothing else lies in it, and the growth asked for again when the keeper has
 * it back. Of all files the one used longest ago goes first; what clients
 * created never does. What is on its way back already, since a loader has not
 * yet forgotten it, is waited for before anything more is given up; but not for
 * ever, since a loader may hang in somebody's file.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/server.h"

/* For loaders to forget what is given back; one that hangs meanwhile keeps it.
 * Picked: a loader that works answers in a millisecond. */
#define COMING_NS 5000000000ull

/* ---- how much there could be -------------------------------------------- */

/* Taken out of the allocator, but not yet the budget's again. */
static uint64_t leaving_of(const struct rule *rule)
{
	uint64_t sum = 0;

	if (!rule->server->n_leaving)
		return 0;
	for (uint32_t i = 0; i < rule->n_segments; i++)
		if (rule->segments[i].state == SEGMENT_LEAVING)
			sum += rule->segments[i].mapped.size;
	return sum;
}

/* Is it to be waited for? Not if a loader should have let go of it by now. */
static bool is_coming(const struct segment *segment)
{
	return segment->state == SEGMENT_LEFT ||
	       (segment->state == SEGMENT_LEAVING &&
		       loop_now() - segment->left_at < COMING_NS);
}

static uint64_t coming_of(const struct rule *rule)
{
	uint64_t sum = 0;

	if (!rule->server->n_leaving)
		return 0;
	/* What has left the loaders is counted as free already. */
	for (uint32_t i = 0; i < rule->n_segments; i++)
		if (is_coming(&rule->segments[i]))
			sum += rule->segments[i].mapped.size;
	return sum;
}

static uint64_t coming(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		sum += coming_of(rule);
	return sum;
}

/* Is anything, be it with the loaders or with the keeper? */
static bool something_comes(const struct server *server)
{
	if (!server->n_leaving)
		return false;
	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		for (uint32_t i = 0; i < rule->n_segments; i++)
			if (is_coming(&rule->segments[i]))
				return true;
	return false;
}

/* What the pool's own size is compared with, here and by the keeper. */
static uint64_t taken_of(const struct rule *rule)
{
	return memory_total(rule) + leaving_of(rule);
}

/* What of a rule could be given up, at best: what is leased is among it. */
static uint64_t givable(const struct rule *rule)
{
	return memory_total(rule) - memory_used(rule) +
	       rule->counts.kinds[KIND_CACHED].memory;
}

uint64_t room_givable(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		sum += givable(rule);
	return sum;
}

/* Is it the pool's own size that refuses? Then nobody else can help. */
static bool is_at_its_limit(const struct rule *rule)
{
	return rule->spec.limit &&
	       taken_of(rule) + rule->asked.bytes > rule->spec.limit;
}

/* Of the budget, which segments share with memfds of their own. */
static uint64_t left_of(const struct server *server)
{
	uint64_t budget = server->start.budget;

	return budget - MIN(budget, server->allocated + own_memory(server));
}

/* What cannot fit shall not cost anybody his cache. */
static bool could_fit(const struct rule *rule)
{
	const struct server *server = rule->server;
	uint64_t budget = server->start.budget, limit = rule->spec.limit, room;

	if (is_at_its_limit(rule)) {
		room = givable(rule) + coming_of(rule);
		return rule->asked.whole <= limit &&
		       rule->asked.bytes <=
			       room + limit - MIN(limit, taken_of(rule));
	}
	room = room_givable(server) + coming(server) + left_of(server);
	return rule->asked.whole <= budget && rule->asked.bytes <= room;
}

/* ---- giving -------------------------------------------------------------- */

/* The rule whose oldest file is the oldest of all; NULL: nobody has one. To be
 * given back: but for those that grow, whose segments stay. */
static struct rule *rule_to_evict(
	struct server *server, struct rule *only, bool to_give)
{
	struct rule *best = NULL;
	uint64_t best_use = 0;

	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		uint32_t index;

		if ((only && rule != only) || (to_give && rule->growing))
			continue;
		index = cache_oldest(rule, OWNER_ANY);
		if (index == UINT32_MAX)
			continue;
		if (!best || rule->infos[index].last_use < best_use) {
			best = rule;
			best_use = rule->infos[index].last_use;
		}
	}
	return best;
}

static uint64_t trim_all(struct server *server, struct rule *only)
{
	uint64_t given = 0;

	for (struct rule *rule = server->rules; rule; rule = rule->next)
		if (!rule->growing && (!only || rule == only))
			given += segments_trim(rule, 0);
	return given;
}

uint64_t room_give(struct server *server, uint64_t bytes)
{
	uint64_t given = trim_all(server, NULL);
	struct rule *rule;

	while (given < bytes && (rule = rule_to_evict(server, NULL, true))) {
		cache_evict_one(rule);
		reap(rule);
		given += segments_trim(rule, 0);
	}
	return given;
}

/* What the keeper lacks, as far as one can see from here. */
static uint64_t lacking(const struct rule *rule)
{
	uint64_t left = left_of(rule->server);

	if (is_at_its_limit(rule) || left >= rule->asked.bytes)
		return rule->asked.bytes;
	return rule->asked.bytes - left;
}

/* 1: it fits now; 0: it may, when what was given is back; -ENOSPC. */
static int make_room(struct rule *rule)
{
	struct server *server = rule->server;
	struct rule *only = is_at_its_limit(rule) ? rule : NULL, *from;
	uint64_t given = only ? coming_of(only) : coming(server);
	uint64_t lacks = lacking(rule);

	if (!could_fit(rule))
		return -ENOSPC;
	for (;;) {
		if (alloc_largest(rule->alloc) >= rule->asked.whole)
			return 1;
		given += trim_all(server, only);
		if (given >= lacks)
			return 0;
		from = rule_to_evict(server, only, false);
		if (!from)
			return given ? 0 : -ENOSPC;
		cache_evict_one(from);
		reap(from);
	}
}

/* ---- who waits ----------------------------------------------------------- */

int room_wanted(struct rule *rule)
{
	int r;

	/* Its own empty segments may go too: they were not enough. */
	rule->growing = false;
	r = make_room(rule);
	if (r == 0) {
		rule->growing = true;
		rule->coming_until = loop_now() + COMING_NS;
		room_look(rule->server, loop_now());
	}
	return r;
}

int room_for_own(struct rule *rule, uint64_t size, bool may_wait)
{
	struct server *server = rule->server;
	uint64_t left = left_of(server), then = left + coming(server);

	if (size <= left)
		return 1;
	if (size > then && size - then > room_givable(server))
		return -ENOSPC;
	if (size > then)
		room_give(server, size - then);
	if (size <= left_of(server))
		return 1;
	if (!may_wait || !something_comes(server))
		return -ENOSPC;
	rule->own_until = loop_now() + COMING_NS;
	return 0;
}

/* Is it time? Else *next is not after it. */
static bool is_due(const struct server *server, uint64_t until, uint64_t now,
	uint64_t *next)
{
	if (!until)
		return false;
	if (now >= until || !something_comes(server))
		return true;
	*next = *next ? MIN(*next, until) : until;
	return false;
}

/* What a dead loader's ring may still write is free when its pipe has ended:
 * in a moment, or when a file system answers, which may be never. */
bool room_comes_back(const struct rule *rule, uint64_t *until)
{
	uint64_t now = loop_now();

	if (!rule->counts.kinds[KIND_QUARANTINED].n)
		return false;
	if (!*until)
		*until = now + ROOM_WAIT_NS;
	return now < *until;
}

bool room_unpark(bool *parked, uint64_t until, uint64_t now, uint64_t *next)
{
	if (!*parked)
		return false;
	*parked = now < until;
	if (*parked)
		*next = *next ? MIN(*next, until) : until;
	return !*parked;
}

/* Who waits must hear of it if he cannot be asked. */
static void ask_again(struct rule *rule)
{
	int r = memory_ask(rule, rule->asked.whole);

	if (r < 0) {
		publish_no_memory(rule, -r);
		load_no_memory(rule, -r);
	}
}

uint64_t room_look(struct server *server, uint64_t now)
{
	uint64_t next = 0;
	bool due;

	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		if (is_due(server, rule->coming_until, now, &next)) {
			rule->coming_until = 0;
			ask_again(rule);
		}
		if (is_due(server, rule->own_until, now, &next)) {
			rule->own_until = 0;
			publish_go_on(rule, false);
		}
		due = publish_unpark(rule, now, &next);
		due |= load_unpark(rule, now, &next);
		if (due)
			load_go_on(rule);
	}
	return next;
}
