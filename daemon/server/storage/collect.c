/* SPDX-License-Identifier: MIT */
/*
 * Frees storages without a holder, once a turn of the loop, all at once.
 *
 * A storage that loses its last name, or its place in the cache, is released.
 * After the turn all released storages are marked FREEING, and one pass over
 * the lease pages of the domain's clients, and over the items in its channels,
 * finds which of them are held: the pass costs the same for one as for a
 * thousand, and a domain's leases count only for its own storages. Those that
 * are held become UNNAMED, and wait for the message of their last holder or
 * for the end of a client, which releases them again. See shm/lease.h for the
 * argument why that is safe. The same pass finds the user that is charged for
 * them from now on: one of the holders, since the owner cannot find them any
 * more, and could do nothing about the charge.
 *
 * Until it is marked, a released storage is UNNAMED in the table, so that a
 * server that dies before it looks leaves it to the next one.
 */
#include <stdatomic.h>

#include "base/checked.h"
#include "daemon/server/server.h"

static uint64_t generation_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return storage_word_generation(atomic_load_explicit(
		&domain->table.storages[index].word, memory_order_relaxed));
}

/*
 * No item of a channel keeps a channel. Clients do not send one, since there are
 * no tensors over it; but a client that writes there could have one keep
 * itself, or two each other, and they would stay when all who know of them are
 * gone. What items keep is charged to the channel's user.
 */
static void search_holders(struct domain *domain)
{
	for (const struct storage_holder *h = domain->storages.holders; h;
		h = h->next) {
		domain->storages.batch.whose = quota_payer(domain, h->index);
		h->search(h, &domain->storages.batch);
	}
	for (const struct storage_holder *h = domain->storages.holders; h;
		h = h->next)
		lease_batch_miss(
			&domain->storages.batch, h->index, h->generation);
}

/* The channels first: what their items say of channels is forgotten, what
 * clients say is not. */
static void search(struct domain *domain)
{
	search_holders(domain);
	for (const struct client *c = domain->clients; c; c = c->next) {
		domain->storages.batch.whose = c->uid;
		leases_search(c, &domain->storages.batch);
	}
}

void storage_holder_join(struct domain *domain, struct storage_holder *holder)
{
	holder->next = domain->storages.holders;
	domain->storages.holders = holder;
}

void storage_holder_leave(struct domain *domain, struct storage_holder *holder)
{
	struct storage_holder **p = &domain->storages.holders;

	while (*p != holder)
		p = &(*p)->next;
	*p = holder->next;
}

/* That storage is free, and may have been one. */
static void free_holder(
	struct domain *domain, uint32_t index, uint64_t generation)
{
	struct storage_holder *h = domain->storages.holders;

	while (h && (h->index != index || h->generation != generation))
		h = h->next;
	if (!h)
		return;
	storage_holder_leave(domain, h);
	h->freed(h, domain);
	/* What lay in it may be nobody's now. */
	collect_unnamed(domain);
}

static void free_storage(struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = &domain->table.storages[index];
	uint64_t generation = generation_of(domain, index);

	if (entry->alloc_size)
		memory_give(domain, index);
	storage_set(domain, index, STORAGE_FREE);
	if (entry->flags & STORAGE_OWN)
		own_drop(domain, index, generation);
	/* Lets go of what it was over: behind those of this pass. */
	if (entry->flags & STORAGE_PATCH)
		patch_leave(domain, index);
	/* Lets go of what only its items kept: behind those of this pass. */
	if (entry->flags & STORAGE_CHANNEL)
		free_holder(domain, index, generation);
	domain->server->memory.freed = true;
}

/* Found or not: one that was marked. */
static void settle(struct domain *domain, uint32_t index, uint32_t holder)
{
	domain->storages.infos[index].let_go = false;
	/* A release that read FREEING rings; one that read LIVE before us left
	 * its slot empty, which the pass saw. */
	if (holder == TABLE_NOBODY)
		return free_storage(domain, index);
	storage_set(domain, index, STORAGE_UNNAMED);
	quota_hand_on(domain, index, holder);
	patch_paid(domain, index);
}

/* As many as fit into the batch, from the first on; they stay in the list. */
static uint32_t mark(struct domain *domain)
{
	uint32_t n = 0, index = storage_first(domain, KIND_LET_GO);

	for (; index != UINT32_MAX; n++, index = storage_after(domain, index)) {
		if (!lease_batch_add(&domain->storages.batch, index,
			    generation_of(domain, index)))
			break;
		lease_batch_seek(&domain->storages.batch, index,
			generation_of(domain, index),
			quota_payer(domain, index));
		storage_set(domain, index, STORAGE_FREEING);
	}
	return n;
}

bool collect(struct domain *domain)
{
	bool freed = false;

	while (domain->storages.counts.kinds[KIND_LET_GO].n) {
		uint32_t n = mark(domain);

		search(domain);
		while (n--) {
			uint32_t index = storage_first(domain, KIND_LET_GO);
			uint32_t holder =
				lease_batch_holder(&domain->storages.batch,
					index, generation_of(domain, index));

			settle(domain, index, holder);
			freed |= holder == TABLE_NOBODY;
		}
		lease_batch_clear(&domain->storages.batch);
	}
	return freed;
}

/* ---- a share of the time -------------------------------------------------- */

/*
 * A client that fills its lease pages with invalid entries makes a pass as long
 * as they are. So after a pass that took long the next comes later: the storages
 * that it would free stay UNNAMED until then, and requests that need their
 * memory wait. Searches for what may be evicted have a share of their own, since
 * storages that are let go of all the time would leave nothing of one for both.
 */
#define REAP_SHARE 10u     /* a tenth of the time at most; picked */
#define REAP_SHORT 1000000 /* ns: too short to matter */

/* What several searches of one step took adds up. A user that is alone searches
 * without waiting: what that adds up to is not held against those who come. */
static void spend(struct domain *domain, struct deadline *next, uint64_t began)
{
	uint64_t now = loop_now(), took = now - began;
	uint64_t from =
		domain->server->turns.n_users > 1 ? MAX(now, next->at) : now;

	if (took > REAP_SHORT)
		deadline_set(loop_deadlines(domain->server->loop), next,
			from + REAP_SHARE * took);
}

/* A user that is alone has nobody to wait for. */
static uint64_t when(const struct server *server, const struct deadline *next)
{
	return server->turns.n_users > 1 && next->at > loop_now() ? next->at
								  : 0;
}

void evict_spent(struct domain *domain, uint64_t began)
{
	spend(domain, &domain->storages.next_evict, began);
}

uint64_t evict_at(const struct server *server, const struct domain *only)
{
	uint64_t at = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next) {
		const struct storage_sum *kinds = domain->storages.counts.kinds;

		if ((!only || domain == only) &&
			(kinds[KIND_LET_GO].n || kinds[KIND_CACHED].n))
			at = MAX(
				at, when(server, &domain->storages.next_evict));
	}
	return at;
}

bool collect_all(struct server *server, struct domain *only)
{
	bool freed = false;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		uint64_t began = loop_now();

		if ((only && domain != only) ||
			!domain->storages.counts.kinds[KIND_LET_GO].n)
			continue;
		freed |= collect(domain);
		evict_spent(domain, began);
	}
	return freed;
}

uint64_t collect_at(const struct domain *domain)
{
	if (!domain->storages.counts.kinds[KIND_LET_GO].n)
		return 0;
	return when(domain->server, &domain->storages.next_collect);
}

bool collect_counted(struct domain *domain)
{
	uint64_t began = loop_now();
	bool freed = collect(domain);

	spend(domain, &domain->storages.next_collect, began);
	return freed;
}

bool collect_in_turn(struct domain *domain)
{
	if (!domain->storages.counts.kinds[KIND_LET_GO].n ||
		domain->storages.next_collect.at)
		return false;
	return collect_counted(domain);
}

void collect_unnamed(struct domain *domain)
{
	uint64_t n = domain->storages.counts.kinds[KIND_UNNAMED].n;

	while (n--)
		storage_release(domain, storage_first(domain, KIND_UNNAMED));
}

void collect_find_leased(struct domain *domain, const uint32_t *indices,
	uint32_t n, bool *ret_leased)
{
	uint32_t done = 0, to;

	while (done < n) {
		for (to = done; to < n; to++)
			if (!lease_batch_add(&domain->storages.batch,
				    indices[to],
				    generation_of(domain, indices[to])))
				break;
		search(domain);
		for (; done < to; done++)
			ret_leased[done] = lease_batch_found(
				&domain->storages.batch, indices[done],
				generation_of(domain, indices[done]));
		lease_batch_clear(&domain->storages.batch);
	}
}

void client_find_held(struct client *client, const uint32_t *indices,
	const uint64_t *generations, uint32_t n, bool *ret_held)
{
	struct lease_batch *batch = &client->domain->storages.batch;
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
