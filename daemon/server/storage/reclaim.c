/* SPDX-License-Identifier: MIT */
/*
 * Makes memory available for requests that wait, when the keeper has none: it
 * drops cached files of any domain.
 *
 * All domains share the budget and the machine's memory, while a pool belongs
 * to one domain. So a file without a holder makes room in its own pool at
 * once, and in others through the keeper: the file is evicted, the segment
 * dropped if it is empty, and the growth asked for again when the keeper has
 * the memory back. Of all files the one used longest ago is dropped first;
 * storages that clients created never are. The server waits for memory that is
 * about to be freed, since a loader has not yet unmapped it, before it gives
 * up more; but not for ever, since a loader may hang in a client's file.
 */
#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

/* ---- how much there could be -------------------------------------------- */

/* Taken out of the allocator, but not yet the budget's again. */
static uint64_t leaving_of(const struct domain *domain)
{
	uint64_t sum = 0;

	if (!domain->server->n_leaving)
		return 0;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (domain->pool.segments[i].state == SEGMENT_LEAVING)
			sum += domain->pool.segments[i].mapped.size;
	return sum;
}

/* Is it worth waiting for? Not if a loader should have unmapped it by now. */
static bool is_pending(const struct segment *segment)
{
	return segment->state == SEGMENT_LEFT ||
	       (segment->state == SEGMENT_LEAVING &&
		       loop_now() - segment->left_at < RECLAIM_PENDING_NS);
}

static uint64_t pending_reclaim_of(const struct domain *domain)
{
	uint64_t sum = 0;

	if (!domain->server->n_leaving)
		return 0;
	/* A segment that loaders have unmapped is counted as free already. */
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (is_pending(&domain->pool.segments[i]))
			sum += domain->pool.segments[i].mapped.size;
	return sum;
}

static uint64_t pending_reclaim(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		sum += pending_reclaim_of(domain);
	return sum;
}

/* Is anything, be it with the loaders or with the keeper? */
static bool something_leaves(const struct domain *domain)
{
	if (!domain->server->n_leaving)
		return false;
	for (uint32_t i = 0; i < domain->pool.n_segments; i++)
		if (is_pending(&domain->pool.segments[i]))
			return true;
	return false;
}

/* Memory that a dead loader's ring may still write is free when the loader's
 * pipe has ended: soon, or when a file system answers, which may be never. */
static uint64_t quarantined(const struct domain *domain)
{
	uint32_t i = storage_first(domain, KIND_QUARANTINED);
	uint64_t now = loop_now(), sum = 0;

	for (; i != UINT32_MAX; i = storage_after(domain, i))
		if (now - domain->storages.infos[i].last_use < RECLAIM_WAIT_NS)
			sum += storage_memory(&domain->table.storages[i]);
	return sum;
}

static uint64_t quarantined_by_all(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		sum += quarantined(domain);
	return sum;
}

/* The bytes that count against the pool's size, here and in the keeper. */
static uint64_t taken_of(const struct domain *domain)
{
	return memory_total(&domain->pool) + leaving_of(domain);
}

/* The most that a domain could give up: includes leased files, but not the
 * memory that has just come for the request in front. */
static uint64_t reclaimable(const struct domain *domain)
{
	uint64_t spare =
		memory_total(&domain->pool) - memory_used(&domain->pool);
	uint64_t first_claim = domain->growth.first_claim
				       ? domain->growth.first_claim->size
				       : 0;

	return spare - MIN(spare, first_claim) +
	       domain->storages.counts.kinds[KIND_CACHED].memory;
}

uint64_t reclaimable_bytes(const struct server *server)
{
	uint64_t sum = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		sum += reclaimable(domain);
	return sum;
}

/* Is the pool's own size the limit? Then no other domain can help. */
static bool is_at_its_limit(const struct domain *domain)
{
	return domain->spec.limit &&
	       taken_of(domain) + domain->growth.asked.bytes >
		       domain->spec.limit;
}

/* Of the budget, which segments share with memfds of their own. */
static uint64_t left_of(const struct server *server)
{
	uint64_t budget = server->start.budget;

	return budget - MIN(budget, server->allocated + own_memory(server));
}

/* A request that cannot fit must not cost any user its cache. */
static bool could_fit(const struct domain *domain)
{
	const struct server *server = domain->server;
	uint64_t budget = server->start.budget, limit = domain->spec.limit,
		 room;

	if (is_at_its_limit(domain)) {
		room = reclaimable(domain) + pending_reclaim_of(domain) +
		       quarantined(domain);
		return domain->growth.asked.whole <= limit &&
		       domain->growth.asked.bytes <=
			       room + limit - MIN(limit, taken_of(domain));
	}
	room = reclaimable_bytes(server) + pending_reclaim(server) +
	       left_of(server) + quarantined_by_all(server);
	return domain->growth.asked.whole <= budget &&
	       domain->growth.asked.bytes <= room;
}

/* ---- giving -------------------------------------------------------------- */

/* Do its segments stay? The pool grows for one that waits, or has grown for one
 * that takes the memory before the server's next turn. */
static bool segments_stay(const struct domain *domain)
{
	return domain->growth.growing || domain->growth.first_claim;
}

/* May its files go, for that one domain or for any? To give back: not where
 * segments stay. */
static bool may_evict(
	const struct domain *domain, const struct domain *only, bool to_give)
{
	return (!only || domain == only) && !(to_give && segments_stay(domain));
}

/* The domain with the oldest file of all that were found free; NULL: there is
 * no file. */
static struct domain *domain_to_evict(const struct server *server)
{
	struct domain *best = NULL;
	uint64_t best_use = 0;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		uint32_t index = cache_front(domain);

		if (index == UINT32_MAX)
			continue;
		if (!best ||
			domain->storages.infos[index].last_use < best_use) {
			best = domain;
			best_use = domain->storages.infos[index].last_use;
		}
	}
	return best;
}

/* In their order, until enough have gone or the next was not looked at. */
static bool evict_found(struct server *server, const struct evict_limit *limit)
{
	uint64_t bytes = 0, n = 0;
	struct domain *from;

	while (n < limit->n && bytes < limit->bytes &&
		(from = domain_to_evict(server))) {
		uint32_t index = cache_front(from);

		bytes += storage_memory(&from->table.storages[index]);
		cache_evict(from, index, "room is needed");
		n++;
		if (cache_front(from) == UINT32_MAX &&
			storage_first(from, KIND_CACHED) != UINT32_MAX)
			break;
	}
	return n;
}

/*
 * One step: a search in each domain, and a pass that collects what goes. It is
 * not known beforehand whose end empties a segment, so the first step evicts
 * one file, and each that follows some times as many, but no more than their
 * bytes could make enough.
 */
#define VICTIMS_FACTOR 8u
#define VICTIMS_MAX 4096u

static bool evict_step(struct server *server, struct domain *only, bool to_give,
	uint64_t bytes, uint32_t *victims)
{
	struct evict_limit limit = {.n = MAX(*victims, 1u), .bytes = bytes};
	bool any;

	*victims = (uint32_t)MIN(limit.n * VICTIMS_FACTOR, VICTIMS_MAX);
	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		/* What an earlier search found has aged. */
		domain->storages.looks++;
		if (may_evict(domain, only, to_give))
			cache_look(domain, OWNER_ANY, &limit);
	}
	any = evict_found(server, &limit);
	return collect_all(server, only) || any;
}

static uint64_t trim_all(struct server *server, struct domain *only)
{
	uint64_t given = 0;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		if (!segments_stay(domain) && (!only || domain == only))
			given += segments_trim(domain, 0);
	return given;
}

/* Until it is enough: 1; there is no more: 0; or the time is spent, but one step
 * at least: MEMORY_LATER. */
static int give(struct server *server, uint64_t bytes, uint32_t *victims,
	uint64_t *ret_given)
{
	uint64_t given = trim_all(server, NULL);
	int r = given >= bytes;

	while (!r && evict_step(server, NULL, true, bytes - given, victims)) {
		given += trim_all(server, NULL);
		if (given >= bytes)
			r = 1;
		else if (evict_at(server, NULL))
			r = MEMORY_LATER;
	}
	*ret_given = given;
	return r;
}

uint64_t reclaim_give(struct server *server, uint64_t bytes)
{
	uint32_t victims = 0;
	uint64_t given;

	/* The caller looks again soon. */
	if (evict_at(server, NULL))
		return 0;
	collect_all(server, NULL);
	give(server, bytes, &victims, &given);
	return given;
}

/* The memory that the keeper lacks, as far as the server knows. */
static uint64_t lacking(const struct domain *domain, uint64_t ahead)
{
	uint64_t left = left_of(domain->server),
		 bytes = domain->growth.asked.bytes;

	return left >= bytes + ahead ? bytes : bytes + ahead - left;
}

/* Evicts until what it gives is enough, or the time is spent; but one step at
 * least, since the pass before it may have spent it. */
static int give_for(
	struct memory_wait *wait, struct domain *only, uint64_t ahead)
{
	struct domain *domain = wait->domain;
	struct server *server = domain->server;
	uint64_t at = 0;
	uint64_t given =
		only ? pending_reclaim_of(only) : pending_reclaim(server);
	uint64_t lacks =
		only ? domain->growth.asked.bytes : lacking(domain, ahead);

	for (;;) {
		if (lane_largest(&domain->pool, wait->lane) >=
			domain->growth.asked.whole)
			return 1;
		given += trim_all(server, only);
		if (given >= lacks)
			return 0;
		if (at)
			return memory_rest(wait, at);
		if (!evict_step(
			    server, only, false, lacks - given, &wait->victims))
			return given || reclaim_is_pending(wait) ? 0 : -ENOSPC;
		at = evict_at(server, only);
	}
}

int reclaim_for(struct memory_wait *wait)
{
	struct domain *domain = wait->domain, *only;
	struct server *server = domain->server;
	uint64_t ahead = memory_ahead(wait), at;

	/* What other domains have may lie on any node. */
	wait->limited = is_at_its_limit(domain) || domain->growth.of_node;
	only = wait->limited ? domain : NULL;
	at = evict_at(server, only);
	if (at)
		return memory_rest(wait, at);
	collect_all(server, only);
	/* The keeper counted memfds that are gone: it is asked anew. */
	if (own_memory(server) + ahead < domain->growth.asked.own &&
		left_of(server) >= domain->growth.asked.bytes + ahead && !only)
		return 1;
	return could_fit(domain) ? give_for(wait, only, ahead) : -ENOSPC;
}

int reclaim_own_pool(struct memory_wait *wait)
{
	struct domain *domain = wait->domain;
	uint64_t at = 0;

	while (!lane_take(
		&domain->pool, wait->lane, wait->size, &wait->offset)) {
		if (at)
			return memory_rest(wait, at);
		if (wait->size > lane_total(&domain->pool, wait->lane) ||
			!evict_step(domain->server, domain, false, wait->size,
				&wait->victims))
			return -ENOSPC;
		at = evict_at(domain->server, domain);
	}
	return 1;
}

/* ---- beside the pools ---------------------------------------------------- */

/* The memory about to be freed still suffices for those in front of it. */
static bool fits_beside(const struct memory_wait *wait)
{
	const struct server *server = wait->domain->server;
	uint64_t left = left_of(server), ahead = memory_ahead(wait);

	return wait->size <= left &&
	       (!ahead || wait->size + ahead <= left + pending_reclaim(server));
}

int reclaim_for_own(struct memory_wait *wait)
{
	struct server *server = wait->domain->server;
	uint64_t size = wait->size, ahead = memory_ahead(wait), then, at, given;
	int r = 0;

	if (fits_beside(wait))
		return 1;
	at = evict_at(server, NULL);
	if (at)
		return memory_rest(wait, at);
	collect_all(server, NULL);
	if (fits_beside(wait))
		return 1;
	then = left_of(server) + pending_reclaim(server);
	if (size > then && size - then > reclaimable_bytes(server) +
						 quarantined_by_all(server))
		return -ENOSPC;
	if (size + ahead > then)
		r = give(server, size + ahead - then, &wait->victims, &given);
	if (fits_beside(wait))
		return 1;
	if (r == MEMORY_LATER)
		return memory_rest(wait, evict_at(server, NULL));
	return reclaim_is_pending(wait) ? 0 : -ENOSPC;
}

/* ---- those that wait ----------------------------------------------------- */

bool reclaim_is_pending(const struct memory_wait *wait)
{
	const struct server *server = wait->domain->server;

	if (wait->limited)
		return something_leaves(wait->domain) ||
		       quarantined(wait->domain);
	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		if (something_leaves(domain) || quarantined(domain))
			return true;
	return memory_ahead(wait);
}

uint64_t reclaim_limit(const struct memory_wait *wait)
{
	const struct domain *domain = wait->domain;
	uint64_t limit = domain->spec.limit;

	if (wait->limited)
		return limit - MIN(limit, taken_of(domain));
	return left_of(domain->server);
}
