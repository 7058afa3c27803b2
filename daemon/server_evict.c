/* SPDX-License-Identifier: MIT */
/*
 * Which loaded file goes when room is needed or time has passed: the one that
 * was used least recently.
 *
 * The idea: the list KIND_CACHED is in the order of the uses that the server
 * knows of, and a use that it does not know of can only be later. So those in
 * front are looked at, all at once, since the pass over the clients' pages
 * costs as much for one: which are leased, and when clients say that they gave
 * them back. What turns out to have been used later moves to its place behind;
 * what then stands in front, and was looked at, is the oldest.
 *
 * A client can say what it likes: then it decides which of the files goes that
 * it may use, which it could by taking leases on the others, too. What it says
 * of the future is taken for now.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "daemon/log.h"
#include "daemon/server.h"

/* So many are looked at together; more each time that all of them were leased,
 * as by workers that share a million files. */
#define LOOKED_AT 64u
#define LOOKED_AT_FACTOR 8u
#define LOOKED_AT_MOST (1u << 18) /* a batch of leases holds twice as many */

/* Of so many what clients say is heeded in one search; for every 64 it may
 * cost a walk over the list, which a liar could have us make. */
#define HEEDED 1024u

static const struct table_storage *entry_of(
	const struct rule *rule, uint32_t index)
{
	return &rule->table.storages[index];
}

static uint64_t generation_of(const struct rule *rule, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(rule, index)->word, memory_order_relaxed));
}

void cache_evict(struct rule *rule, uint32_t index, const char *why)
{
	uint64_t bytes = entry_of(rule, index)->size;

	log_info("evicted", log_u64("storage", index), log_u64("bytes", bytes),
		log_text("reason", why));
	rule->counts.n_evicted++;
	rule->counts.bytes_evicted += bytes;
	cache_drop(rule, index);
}

/* ---- looking ------------------------------------------------------ */

/* Some of the cached, in their order. */
struct look {
	uint32_t n, room;
	uint32_t heeded; /* so far */
	struct storage_use *uses;
	uint32_t *indices;
	bool *newer; /* it was used after that; it has moved */
	bool *leased;
	void *block; /* all four */
};

/* Without memory it stays as it is. */
static void look_resize(struct look *look, uint32_t room)
{
	size_t each = sizeof(*look->uses) + sizeof(*look->indices) +
		      sizeof(*look->newer) + sizeof(*look->leased);
	void *block = room == look->room ? NULL : malloc(room * each);

	if (!block)
		return;
	free(look->block);
	look->block = look->uses = block;
	look->indices = (uint32_t *)(look->uses + room);
	look->newer = (bool *)(look->indices + room);
	look->leased = look->newer + room;
	look->room = room;
}

/* How many to look at next time. */
static uint32_t next_room(const struct look *look)
{
	for (uint32_t i = 0; i < look->n; i++)
		if (!look->leased[i])
			return LOOKED_AT;
	return look->n ? MIN(look->room * LOOKED_AT_FACTOR, LOOKED_AT_MOST)
		       : LOOKED_AT;
}

/* The first that are of that owner and were not used since. */
static void look_begin(const struct rule *rule, uint32_t owner,
	uint64_t older_than, struct look *look)
{
	uint32_t index = storage_first(rule, KIND_CACHED);

	look_resize(look, next_room(look));
	for (look->n = 0; index != UINT32_MAX && look->n < look->room;
		index = storage_after(rule, index)) {
		if (rule->infos[index].last_use > older_than)
			break;
		if (owner == OWNER_ANY || entry_of(rule, index)->owner == owner)
			look->indices[look->n++] = index;
	}
}

static uint64_t noted(const struct rule *rule, uint32_t index)
{
	uint64_t generation = generation_of(rule, index), at = 0;

	for (const struct client *c = rule->clients; c; c = c->next)
		at = MAX(at, leases_noted(c, index, generation));
	return at;
}

static void look_at(struct rule *rule, struct look *look)
{
	uint64_t now = loop_now(), at;
	uint32_t n = 0;

	reap_find_leased(rule, look->indices, look->n, look->leased);
	for (uint32_t i = 0; i < look->n; i++) {
		uint32_t index = look->indices[i];

		if (look->leased[i])
			at = now;
		else
			at = look->heeded++ < HEEDED
				     ? MIN(noted(rule, index), now)
				     : 0;
		look->newer[i] = at > rule->infos[index].last_use;
		if (look->newer[i])
			look->uses[n++] = (struct storage_use) {index, at};
	}
	storages_used(rule, look->uses, n);
}

/* ---- room is needed ----------------------------------------------- */

static uint32_t first_of(const struct rule *rule, uint32_t owner)
{
	uint32_t index = storage_first(rule, KIND_CACHED);

	while (index != UINT32_MAX && owner != OWNER_ANY &&
		entry_of(rule, index)->owner != owner)
		index = storage_after(rule, index);
	return index;
}

/* Was it looked at, and is it free to go? */
static bool may_go(const struct look *look, uint32_t index)
{
	for (uint32_t i = 0; i < look->n; i++)
		if (look->indices[i] == index)
			return !look->leased[i];
	return false;
}

uint32_t cache_oldest(struct rule *rule, uint32_t owner)
{
	uint64_t left = rule->counts.kinds[KIND_CACHED].n;
	uint32_t found = UINT32_MAX;
	struct look look = {0};

	while (left && found == UINT32_MAX) {
		look_begin(rule, owner, UINT64_MAX, &look);
		if (!look.n)
			break;
		look_at(rule, &look);
		if (may_go(&look, first_of(rule, owner)))
			found = first_of(rule, owner);
		left -= MIN(look.n, left);
	}
	free(look.block);
	return found;
}

bool cache_evict_one(struct rule *rule)
{
	uint32_t index = cache_oldest(rule, OWNER_ANY);

	if (index != UINT32_MAX)
		cache_evict(rule, index, "room is needed");
	return index != UINT32_MAX;
}

/* ---- time has passed ---------------------------------------------- */

void cache_evict_idle(struct rule *rule, uint64_t older_than)
{
	uint64_t left = rule->counts.kinds[KIND_CACHED].n;
	struct look look = {0};

	while (left) {
		look_begin(rule, OWNER_ANY, older_than, &look);
		if (!look.n)
			break;
		look_at(rule, &look);
		for (uint32_t k = 0; k < look.n; k++)
			if (!look.newer[k] && !look.leased[k])
				cache_evict(
					rule, look.indices[k], "it was idle");
		left -= MIN(look.n, left);
	}
	free(look.block);
}

/* ---- a client leaves ---------------------------------------------- */

static uint32_t index_of(uint64_t word)
{
	return (uint32_t)word & ((1u << TABLE_INDEX_BITS) - 1);
}

static bool is_cached(const struct rule *rule, uint64_t word)
{
	uint32_t index = index_of(word);

	return index < rule->n_infos &&
	       rule->infos[index].kind == KIND_CACHED &&
	       generation_of(rule, index) == word >> TABLE_INDEX_BITS;
}

static void hear_held(struct rule *rule, const struct lease_page *page)
{
	/* Relaxed: nothing depends on it. */
	uint32_t used =
		MIN(atomic_load_explicit(&page->used, memory_order_relaxed),
			(uint32_t)LEASE_SLOTS);

	for (uint32_t i = 0; i < used; i++) {
		uint64_t word = atomic_load_explicit(
			&page->slots[i], memory_order_relaxed);

		if (is_cached(rule, word))
			storage_used(rule, index_of(word));
	}
}

struct last_notes {
	struct rule *rule;
	uint64_t now;
	uint32_t n;
	struct storage_use uses[LEASE_NOTES];
};

static void hear_note(void *arg, uint64_t word, uint64_t at)
{
	struct last_notes *notes = arg;

	at = MIN(at, notes->now);
	if (is_cached(notes->rule, word) &&
		at > notes->rule->infos[index_of(word)].last_use)
		notes->uses[notes->n++] =
			(struct storage_use) {index_of(word), at};
}

void cache_hear_last(struct client *client)
{
	struct last_notes notes;

	if (!client->rule->counts.kinds[KIND_CACHED].n)
		return;
	notes.rule = client->rule;
	notes.now = loop_now();
	for (uint32_t i = 0; i < client->n_leases; i++) {
		notes.n = 0;
		lease_each_note(client->leases[i], hear_note, &notes);
		storages_used(client->rule, notes.uses, notes.n);
		hear_held(client->rule, client->leases[i]);
	}
}
