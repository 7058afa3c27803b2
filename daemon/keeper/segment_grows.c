/* SPDX-License-Identifier: MIT */
/*
 * Growths of pools: which have room, and whose turn it is.
 *
 * A growth of many segments takes seconds, so growths of several pools take
 * turns, one segment each: a small one does not wait until a large one is done.
 * Two that do not fit together must not both begin, or they share the room that
 * is left, and both fail. So a growth has room for all of its bytes, of the
 * budget, the machine, the node and the reserve of huge pages, before its first
 * segment is made, and what others have room for counts as taken from then on.
 * The turns decide nothing but the order.
 *
 * One that does not fit beside others waits until these are done, since one of
 * them may fail; one that would not fit without them either is refused at once.
 * Behind one that waits, all wait: nobody passes it for ever.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/headroom.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/placement.h"
#include "shm/table.h"

static struct keeper_domain *domain_of(
	struct keeper *keeper, const struct keeper_grow *grow)
{
	return &keeper->domains[grow->want.domain];
}

uint64_t keeper_grow_unit(const struct keeper_domain *domain)
{
	return MAX(SEGMENT_UNIT, 1ull << pool_page_shift(&domain->spec));
}

/* ---- room --------------------------------------------------------------- */

/* What the other growths under way are still to take. */
struct held {
	uint64_t bytes;
	uint64_t alike; /* of these, of pages as this pool has */
	uint64_t segments;
};

static uint64_t segments_of(const struct keeper_domain *domain, uint64_t bytes)
{
	uint64_t most = MAX(domain->spec.segment_max, SEGMENT_UNIT);

	return bytes / most + !!(bytes % most);
}

static bool is_beside(
	const struct keeper_grow *other, const struct keeper_grow *grow)
{
	return other != grow && other->placed && !grow->alone;
}

static bool is_alike(const struct keeper *keeper,
	const struct keeper_grow *other, const struct keeper_grow *grow)
{
	return pool_page_shift(&keeper->domains[other->want.domain].spec) ==
	       pool_page_shift(&keeper->domains[grow->want.domain].spec);
}

/* No sum overflows: each of them had room beside those before it. */
static struct held held_beside(
	const struct keeper *keeper, const struct keeper_grow *grow)
{
	struct held held = {0};

	for (const struct keeper_grow *g = keeper->memory.grows; g;
		g = g->next) {
		if (!is_beside(g, grow))
			continue;
		held.bytes += g->left;
		held.alike += is_alike(keeper, g, grow) ? g->left : 0;
		held.segments +=
			segments_of(&keeper->domains[g->want.domain], g->left);
	}
	return held;
}

uint64_t keeper_held_on(
	const struct keeper *keeper, const struct keeper_grow *grow, int node)
{
	uint64_t sum = 0;

	for (const struct keeper_grow *g = keeper->memory.grows; g;
		g = g->next) {
		int on = node_of_lane(g->lane);

		if (!is_beside(g, grow) || !is_alike(keeper, g, grow))
			continue;
		if (on == node)
			sum += g->left;
		else if (on < 0)
			sum += g->left /
			       MAX(1, __builtin_popcountll(
					      keeper->memory.nodes.memory));
	}
	return sum;
}

static int check_limit(const struct keeper_domain *domain, uint64_t bytes)
{
	const struct pool_spec *spec = &domain->spec;
	uint64_t sum;

	if (!spec->limit)
		return 0;
	if (add_u64(domain->allocated, bytes, &sum) || sum > spec->limit)
		return tarn_fail(ENOSPC,
			"%.1f MiB more do not fit into the pool %s of %.1f "
			"MiB, of which %.1f MiB are taken; remove tensors "
			"(tarn rm) or raise its size in tarnd.conf",
			(double)bytes / 1048576, spec->name,
			(double)spec->limit / 1048576,
			(double)domain->allocated / 1048576);
	return 0;
}

/* The memory beside segments is as the server knew it when it asked for this
 * growth; a later request would count memory for which this one waits. */
static int check_budget(const struct keeper *keeper,
	const struct keeper_grow *grow, uint64_t held, uint64_t bytes)
{
	uint64_t sum, taken = keeper->memory.allocated + grow->want.own + held;

	if (add_u64(taken, bytes, &sum) || sum > keeper->memory.budget)
		return tarn_fail(ENOSPC,
			"%.1f MiB more do not fit into the daemon's budget of "
			"%.1f MiB, of which %.1f MiB are taken; remove tensors "
			"(tarn rm) or start tarnd with a larger --budget",
			(double)bytes / 1048576,
			(double)keeper->memory.budget / 1048576,
			(double)taken / 1048576);
	return 0;
}

int keeper_may_grow(
	struct keeper *keeper, const struct keeper_grow *grow, uint64_t bytes)
{
	const struct keeper_domain *domain = domain_of(keeper, grow);
	struct held held = held_beside(keeper, grow);
	uint64_t sum;

	/* Of the budget a growth has its part since it began, and requests
	 * after it count that among their own. */
	if ((!grow->placed || bytes > grow->left) &&
		check_budget(keeper, grow, held.bytes, bytes) < 0)
		return -ENOSPC;
	static_assert(SEGMENTS_MAX <= TABLE_SEGMENTS_MAX,
		"a table has a number for each segment");
	if (keeper->memory.n_segments + held.segments +
			segments_of(domain, bytes) >
		SEGMENTS_MAX)
		return tarn_fail(ENOSPC,
			"there are %u segments, which is the "
			"limit; use a larger --segment-size",
			SEGMENTS_MAX);
	if (check_limit(domain, bytes) < 0)
		return -ENOSPC;
	/* The reserve of huge pages was taken from what is free long ago. Others
	 * may take of either meanwhile: then a segment fails. */
	if (pool_is_reserved(&domain->spec))
		return keeper_reserve_check(&domain->spec, bytes, held.alike);
	return headroom_check(
		add_u64(bytes, held.alike, &sum) ? UINT64_MAX : sum);
}

/* ---- a place -------------------------------------------------------------- */

/* A hole takes all that is wanted, the pool's end less if something is free
 * there: it is preferred where it saves half. */
static bool into_hole(struct keeper *keeper, struct keeper_grow *grow)
{
	uint64_t unit = keeper_grow_unit(domain_of(keeper, grow));
	uint64_t at, end;
	uint64_t bytes = grow->want.bytes, whole = grow->want.whole;
	bool fits = bytes <= grow->end - grow->at;

	if (round_up_u64(MAX(whole, bytes), unit, &whole) ||
		(fits && bytes <= whole / 2))
		return false;
	if (!keeper_hole(
		    keeper, grow->want.domain, grow->lane, whole, &at, &end) ||
		keeper_may_grow(keeper, grow, whole) < 0)
		return false;
	grow->at = at;
	grow->end = end;
	grow->left = whole;
	return true;
}

static int find_place(struct keeper *keeper, struct keeper_grow *grow)
{
	int r = placement_choose(keeper, grow);

	grow->of_node = r < 0;
	if (r < 0)
		return r;
	grow->at = keeper_lane_end(keeper, grow->want.domain, grow->lane);
	grow->end = (grow->lane + 1) * keeper_lane_size(keeper);
	if (into_hole(keeper, grow))
		return 0;
	/* What does not fit into 64 bits fits nowhere. */
	if (round_up_u64(grow->want.bytes,
		    keeper_grow_unit(domain_of(keeper, grow)), &grow->left))
		grow->left = grow->want.bytes;
	return keeper_may_grow(keeper, grow, grow->left);
}

/* Refused as a whole rather than after the first of many segments. It is as it
 * was if it cannot be placed. */
static int place(struct keeper *keeper, struct keeper_grow *grow, bool alone)
{
	struct keeper_grow old = *grow;
	int r;

	grow->alone = alone;
	r = find_place(keeper, grow);
	grow->alone = false;
	if (r == 0 && !alone) {
		grow->placed = true;
		return 0;
	}
	old.lane = grow->lane; /* for the answer */
	old.of_node = grow->of_node;
	*grow = old;
	return r;
}

/* ---- the queue ------------------------------------------------------------ */

static bool is_any_placed(const struct keeper *keeper)
{
	for (const struct keeper_grow *g = keeper->memory.grows; g; g = g->next)
		if (g->placed)
			return true;
	return false;
}

static void take_out(struct keeper *keeper, struct keeper_grow *grow)
{
	struct keeper_grow **at = &keeper->memory.grows;

	while (*at != grow)
		at = &(*at)->next;
	*at = grow->next;
	grow->next = NULL;
}

static void append(struct keeper *keeper, struct keeper_grow *grow)
{
	struct keeper_grow **end = &keeper->memory.grows;

	while (*end)
		end = &(*end)->next;
	grow->next = NULL;
	*end = grow;
}

void keeper_grow_done(struct keeper *keeper, struct keeper_grow *grow, int r)
{
	const char *text = r < 0 ? tarn_fail_message() : "";
	size_t length = strlen(text);
	union {
		struct msg_grown head;
		char space[sizeof(struct msg_grown) + TARN_MESSAGE_MAX];
	} body = {.head = {.domain = grow->want.domain,
			  .error = -r,
			  .lane = grow->lane,
			  .flags = grow->of_node ? GROWN_NODE : 0}};

	take_out(keeper, grow);
	grow->asked = grow->placed = false;
	if (grow == &keeper->memory.orphan)
		return;
	memcpy(body.head.text, text, length);
	keeper_insist(keeper, D_GROWN, &body, sizeof(body.head) + length);
}

/* Those without room, in the order in which they were asked for, which turns do
 * not change: room for each, until one has to wait. */
static void place_all(struct keeper *keeper)
{
	struct keeper_grow *grow, *next;

	for (grow = keeper->memory.grows; grow; grow = next) {
		int r;

		next = grow->next;
		if (grow->placed)
			continue;
		r = place(keeper, grow, false);
		if (r == 0)
			continue;
		if (is_any_placed(keeper)) {
			r = place(keeper, grow, true);
			if (r == 0)
				return;
		}
		keeper_grow_done(keeper, grow, r);
	}
}

struct keeper_grow *keeper_grow_next(struct keeper *keeper)
{
	struct keeper_grow *grow;

	place_all(keeper);
	for (grow = keeper->memory.grows; grow && !grow->placed;)
		grow = grow->next;
	if (!grow)
		return NULL;
	take_out(keeper, grow);
	grow->next = keeper->memory.grows;
	keeper->memory.grows = grow;
	return grow;
}

void keeper_grow_turn(struct keeper *keeper)
{
	struct keeper_grow *grow = keeper->memory.grows;

	take_out(keeper, grow);
	append(keeper, grow);
}

int keeper_grow_add(struct keeper *keeper, const struct msg_grow *want)
{
	struct keeper_grow *grow;

	if (want->domain >= keeper->n_domains)
		return tarn_fail(EPROTO, "there is no domain %u", want->domain);
	grow = &keeper->domains[want->domain].grow;
	if (grow->asked)
		return tarn_fail(
			EPROTO, "domain %u has asked already", want->domain);
	*grow = (struct keeper_grow) {.want = *want, .asked = true};
	append(keeper, grow);
	return 0;
}

void keeper_grows_forget(struct keeper *keeper)
{
	for (; keeper->memory.grows;
		keeper->memory.grows = keeper->memory.grows->next)
		keeper->memory.grows->asked = keeper->memory.grows->placed =
			false;
}
