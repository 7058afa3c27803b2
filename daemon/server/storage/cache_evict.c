/* SPDX-License-Identifier: MIT */
/*
 * Chooses the loaded file that is dropped when memory is needed or time has
 * passed: the one that was used least recently.
 *
 * The list KIND_CACHED is in the order of the uses that the server knows of,
 * and a use that it does not know of can only be later. So the server looks at
 * several entries in front at once, since the pass over the clients' pages
 * costs as much for one: which are leased, and when clients noted their last
 * release. An entry that was used later moves back to its place; the one that
 * is then in front, and was looked at, is the oldest. So are those behind it,
 * up to the first that was not looked at or may not go: a request that needs
 * many evicts them by one search.
 *
 * A client can note any time: then it decides which of the files that it may
 * use is dropped, which it could do by taking leases on the others, too. A time
 * in the future counts as now.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

/* Files examined per search, or as many as are to go; more each time that none
 * of them may go, as where workers share a million files. */
#define LOOKED_AT 64u
#define CANDIDATES_FACTOR 8u
#define CANDIDATES_MAX (1u << 18) /* a batch of leases holds twice as many */

/* Maximum of cached files whose client notes count in one search, and of those
 * that a request has examined at first. Picked: this costs a search about as
 * much as the slots of a page do. */
#define HEEDED 4096u

static const struct table_storage *entry_of(
	const struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

static uint64_t generation_of(const struct domain *domain, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed));
}

void cache_evict(struct domain *domain, uint32_t index, const char *why)
{
	uint64_t bytes = entry_of(domain, index)->size;

	if (quota_may_log(domain))
		log_info("evicted", log_u64("storage", index),
			log_u64("bytes", bytes), log_text("reason", why));
	domain->storages.counts.n_evicted++;
	domain->storages.counts.bytes_evicted += bytes;
	cache_drop(domain, index);
}

/* ---- looking ------------------------------------------------------ */

/* Some of the cached, in their order. */
struct candidates {
	uint32_t n, room;
	uint32_t heeded; /* so far */
	/* Beyond LOOKED_AT no more than these. */
	struct evict_limit enough;
	struct storage_use *uses;
	uint32_t *indices;
	bool *newer; /* it was used after that; it has moved */
	bool *leased;
	void *block; /* all four */
};

/* Without memory it stays as it is. */
static void candidates_resize(struct candidates *candidates, uint32_t room)
{
	size_t each = sizeof(*candidates->uses) + sizeof(*candidates->indices) +
		      sizeof(*candidates->newer) + sizeof(*candidates->leased);
	void *block = room == candidates->room ? NULL : malloc(room * each);

	if (!block)
		return;
	free(candidates->block);
	candidates->block = candidates->uses = block;
	candidates->indices = (uint32_t *)(candidates->uses + room);
	candidates->newer = (bool *)(candidates->indices + room);
	candidates->leased = candidates->newer + room;
	candidates->room = room;
}

/* How many to look at next time. */
static uint32_t next_room(const struct candidates *candidates)
{
	if (candidates->n)
		return MIN(
			candidates->room * CANDIDATES_FACTOR, CANDIDATES_MAX);
	return MAX(LOOKED_AT, (uint32_t)MIN(candidates->enough.n, HEEDED));
}

static bool are_enough(const struct candidates *candidates, uint64_t bytes)
{
	return candidates->n == candidates->room ||
	       (candidates->n >= LOOKED_AT &&
		       bytes >= candidates->enough.bytes);
}

/* The first that are of that owner and were not used since. */
static void candidates_collect(const struct domain *domain, uint32_t owner,
	uint64_t older_than, struct candidates *candidates)
{
	uint32_t index = storage_first(domain, KIND_CACHED);
	uint64_t bytes = 0;

	candidates_resize(candidates, next_room(candidates));
	/* Not those that were looked at: a full room this time. */
	if (candidates->n)
		candidates->enough.bytes = UINT64_MAX;
	for (candidates->n = 0;
		index != UINT32_MAX && !are_enough(candidates, bytes);
		index = storage_after(domain, index)) {
		if (domain->storages.infos[index].last_use > older_than)
			break;
		if (owner != OWNER_ANY &&
			entry_of(domain, index)->owner != owner)
			continue;
		candidates->indices[candidates->n++] = index;
		bytes += storage_memory(entry_of(domain, index));
	}
}

static uint64_t noted(const struct domain *domain, uint32_t index)
{
	uint64_t generation = generation_of(domain, index), at = 0;

	for (const struct client *c = domain->clients; c; c = c->next)
		at = MAX(at, leases_noted(c, index, generation));
	return at;
}

static void candidates_check(
	struct domain *domain, struct candidates *candidates)
{
	uint64_t now = loop_now(), at;
	uint32_t n = 0;

	collect_find_leased(
		domain, candidates->indices, candidates->n, candidates->leased);
	for (uint32_t i = 0; i < candidates->n; i++) {
		uint32_t index = candidates->indices[i];

		if (candidates->leased[i])
			at = now;
		else
			at = candidates->heeded++ < HEEDED
				     ? MIN(noted(domain, index), now)
				     : 0;
		candidates->newer[i] =
			at > domain->storages.infos[index].last_use;
		if (candidates->newer[i])
			candidates->uses[n++] =
				(struct storage_use) {index, at};
	}
	storages_used(domain, candidates->uses, n);
}

/* ---- room is needed ----------------------------------------------- */

static uint32_t next_of(
	const struct domain *domain, uint32_t index, uint32_t owner)
{
	while (index != UINT32_MAX && owner != OWNER_ANY &&
		entry_of(domain, index)->owner != owner)
		index = storage_after(domain, index);
	return index;
}

static uint32_t first_of(const struct domain *domain, uint32_t owner)
{
	return next_of(domain, storage_first(domain, KIND_CACHED), owner);
}

/* Did the last search find it free to go? */
static bool may_go(const struct domain *domain, uint32_t index)
{
	return index != UINT32_MAX && domain->storages.looks &&
	       domain->storages.infos[index].free_at == domain->storages.looks;
}

static void candidates_mark(
	struct domain *domain, const struct candidates *candidates)
{
	domain->storages.looks++;
	for (uint32_t i = 0; i < candidates->n; i++)
		if (!candidates->leased[i])
			domain->storages.infos[candidates->indices[i]].free_at =
				domain->storages.looks;
}

uint32_t cache_look(
	struct domain *domain, uint32_t owner, const struct evict_limit *limit)
{
	uint64_t left = domain->storages.counts.kinds[KIND_CACHED].n,
		 began = loop_now();
	uint32_t found = UINT32_MAX;
	struct candidates candidates = {.enough = *limit};

	while (left && found == UINT32_MAX) {
		candidates_collect(domain, owner, UINT64_MAX, &candidates);
		if (!candidates.n)
			break;
		candidates_check(domain, &candidates);
		candidates_mark(domain, &candidates);
		found = first_of(domain, owner);
		if (!may_go(domain, found))
			found = UINT32_MAX;
		left -= MIN(candidates.n, left);
	}
	free(candidates.block);
	evict_spent(domain, began);
	return found;
}

uint32_t cache_front(const struct domain *domain)
{
	uint32_t index = storage_first(domain, KIND_CACHED);

	return may_go(domain, index) ? index : UINT32_MAX;
}

bool cache_evict_batch(struct domain *domain, uint32_t owner,
	const struct evict_limit *limit, const char *why)
{
	uint32_t index = cache_look(domain, owner, limit), next;
	uint64_t bytes = 0, n = 0;

	for (; n < limit->n && bytes < limit->bytes && may_go(domain, index);
		n++) {
		bytes += storage_memory(entry_of(domain, index));
		next = next_of(domain, storage_after(domain, index), owner);
		cache_evict(domain, index, why);
		index = next;
	}
	return n;
}

/* ---- time has passed ---------------------------------------------- */

void cache_evict_idle(struct domain *domain, uint64_t older_than)
{
	uint64_t left = domain->storages.counts.kinds[KIND_CACHED].n,
		 began = loop_now();
	struct candidates candidates = {
		.enough = {.n = HEEDED, .bytes = UINT64_MAX}};

	/* The next time will do. */
	if (evict_at(domain->server, domain))
		return;
	while (left) {
		candidates_collect(domain, OWNER_ANY, older_than, &candidates);
		if (!candidates.n)
			break;
		candidates_check(domain, &candidates);
		for (uint32_t k = 0; k < candidates.n; k++)
			if (!candidates.newer[k] && !candidates.leased[k])
				cache_evict(domain, candidates.indices[k],
					"it was idle");
		left -= MIN(candidates.n, left);
	}
	free(candidates.block);
	evict_spent(domain, began);
}

/* ---- a client leaves ---------------------------------------------- */

static uint32_t index_of(uint64_t word)
{
	return (uint32_t)word & ((1u << TABLE_INDEX_BITS) - 1);
}

static bool is_cached(const struct domain *domain, uint64_t word)
{
	uint32_t index = index_of(word);

	return index < domain->storages.n_infos &&
	       domain->storages.infos[index].kind == KIND_CACHED &&
	       generation_of(domain, index) == word >> TABLE_INDEX_BITS;
}

static void note_held(struct domain *domain, const struct lease_page *page)
{
	/* Relaxed: nothing depends on it. */
	uint32_t used =
		MIN(atomic_load_explicit(&page->used, memory_order_relaxed),
			(uint32_t)LEASE_SLOTS);

	for (uint32_t i = 0; i < used; i++) {
		uint64_t word = atomic_load_explicit(
			&page->slots[i], memory_order_relaxed);

		if (is_cached(domain, word))
			storage_used(domain, index_of(word));
	}
}

struct last_notes {
	struct domain *domain;
	uint64_t now;
	uint32_t n;
	struct storage_use uses[LEASE_NOTES];
};

static void note_release(void *arg, uint64_t word, uint64_t at)
{
	struct last_notes *notes = arg;

	at = MIN(at, notes->now);
	if (is_cached(notes->domain, word) &&
		at > notes->domain->storages.infos[index_of(word)].last_use)
		notes->uses[notes->n++] =
			(struct storage_use) {index_of(word), at};
}

void cache_note_last(struct client *client)
{
	struct last_notes notes;

	if (!client->domain->storages.counts.kinds[KIND_CACHED].n)
		return;
	notes.domain = client->domain;
	notes.now = loop_now();
	for (uint32_t i = 0; i < client->n_leases; i++) {
		notes.n = 0;
		lease_each_note(client->leases[i], note_release, &notes);
		storages_used(client->domain, notes.uses, notes.n);
		note_held(client->domain, client->leases[i]);
	}
}
