/* SPDX-License-Identifier: MIT */
/*
 * What nobody holds goes back, once a turn of the loop, all at once.
 *
 * The idea: whatever loses its last name, or its place in the cache, is let go
 * of. After the turn all that were let go of are marked FREEING, and one pass
 * over the lease pages of the rule's clients, and over what is in its channels,
 * tells which of them are held: the
 * pass costs the same for one as for a thousand, and a rule's leases count for
 * its own storages only. Those that are held become UNNAMED, and wait for the
 * bell of their last holder or for the end of a client, which lets go of them
 * again. See shm/lease.h for the argument why that is safe. The same pass tells
 * who is charged for them from now on: one of those who hold them, since their
 * owner, who cannot find them any more, could do nothing about it.
 *
 * Until it is marked, what was let go of is UNNAMED in the table, so that a
 * server that dies before it looks leaves it to the next one.
 */
#include <stdatomic.h>

#include "base/checked.h"
#include "daemon/server.h"

static uint64_t generation_of(const struct rule *rule, uint32_t index)
{
	/* Only this thread writes the word. */
	return storage_word_generation(atomic_load_explicit(
		&rule->table.storages[index].word, memory_order_relaxed));
}

/* The channels first: what their items say of channels is forgotten, what
 * clients say is not. */
static void search(struct rule *rule)
{
	channels_search(rule, &rule->batch);
	for (const struct client *c = rule->clients; c; c = c->next) {
		rule->batch.whose = c->uid;
		leases_search(c, &rule->batch);
	}
}

static void free_storage(struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = &rule->table.storages[index];
	uint64_t generation = generation_of(rule, index);

	if (entry->alloc_size)
		memory_give(rule, index);
	storage_set(rule, index, STORAGE_FREE);
	if (entry->flags & STORAGE_OWN)
		own_drop(rule, index, generation);
	/* Lets go of what only its items kept: behind those of this pass. */
	if (entry->flags & STORAGE_CHANNEL)
		channel_drop(rule, index, generation);
	rule->memory_freed = true;
}

/* Found or not: one that was marked. */
static void settle(struct rule *rule, uint32_t index, uint32_t holder)
{
	rule->infos[index].let_go = false;
	/* A release that read FREEING rings; one that read LIVE before us left
	 * its slot empty, which the pass saw. */
	if (holder == TABLE_NOBODY)
		return free_storage(rule, index);
	storage_set(rule, index, STORAGE_UNNAMED);
	quota_hand_on(rule, index, holder);
}

/* As many as fit into the batch, from the first on; they stay in the list. */
static uint32_t mark(struct rule *rule)
{
	uint32_t n = 0, index = storage_first(rule, KIND_LET_GO);

	for (; index != UINT32_MAX; n++, index = storage_after(rule, index)) {
		if (!lease_batch_add(
			    &rule->batch, index, generation_of(rule, index)))
			break;
		lease_batch_seek(&rule->batch, index,
			generation_of(rule, index), quota_payer(rule, index));
		storage_set(rule, index, STORAGE_FREEING);
	}
	return n;
}

bool reap(struct rule *rule)
{
	bool freed = false;

	while (rule->counts.kinds[KIND_LET_GO].n) {
		uint32_t n = mark(rule);

		search(rule);
		while (n--) {
			uint32_t index = storage_first(rule, KIND_LET_GO);
			uint32_t holder = lease_batch_holder(&rule->batch,
				index, generation_of(rule, index));

			settle(rule, index, holder);
			freed |= holder == TABLE_NOBODY;
		}
		lease_batch_clear(&rule->batch);
	}
	return freed;
}

/*
 * Who fills his lease pages with rubbish makes a pass as long as they are. So
 * after one that took its time the next comes later, and what it would free
 * stays UNNAMED until then.
 */
#define REAP_SHARE 10u     /* a tenth of the time at most; picked */
#define REAP_SHORT 1000000 /* ns: nobody notices */

bool reap_in_turn(struct rule *rule, uint64_t *ret_at)
{
	uint64_t began, took;
	bool freed;

	if (!rule->counts.kinds[KIND_LET_GO].n)
		return false;
	began = loop_now();
	if (began < rule->next_reap) {
		*ret_at = MIN(*ret_at, rule->next_reap);
		return false;
	}
	freed = reap(rule);
	took = loop_now() - began;
	rule->next_reap =
		took > REAP_SHORT ? began + took + REAP_SHARE * took : 0;
	return freed;
}

void reap_unnamed(struct rule *rule)
{
	uint64_t n = rule->counts.kinds[KIND_UNNAMED].n;

	while (n--)
		storage_release(rule, storage_first(rule, KIND_UNNAMED));
}

void reap_find_leased(struct rule *rule, const uint32_t *indices, uint32_t n,
	bool *ret_leased)
{
	uint32_t done = 0, to;

	while (done < n) {
		for (to = done; to < n; to++)
			if (!lease_batch_add(&rule->batch, indices[to],
				    generation_of(rule, indices[to])))
				break;
		search(rule);
		for (; done < to; done++)
			ret_leased[done] =
				lease_batch_found(&rule->batch, indices[done],
					generation_of(rule, indices[done]));
		lease_batch_clear(&rule->batch);
	}
}

void client_find_held(struct client *client, const uint32_t *indices,
	const uint64_t *generations, uint32_t n, bool *ret_held)
{
	struct lease_batch *batch = &client->rule->batch;
	uint32_t added = 0;

	while (added < n &&
		lease_batch_add(batch, indices[added], generations[added]))
		added++;
	if (added)
		leases_search(client, batch);
	for (uint32_t i = 0; i < n; i++)
		ret_held[i] = i < added && lease_batch_found(batch, indices[i],
						   generations[i]);
	lease_batch_clear(batch);
}
