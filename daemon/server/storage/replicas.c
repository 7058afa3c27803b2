/* SPDX-License-Identifier: MIT */
/*
 * Replicas (shm/table_replicas.c): what is kept once more, on other nodes.
 *
 * A replica is held by the storage that it is of, as long as that is live: by a
 * name, or as a kept file. When the last of these goes, its replicas are
 * released with it, and clients that lease one keep that one.
 */
#include <stdatomic.h>

#include "daemon/server/server.h"

static const struct table_storage *entry_of(
	const struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

static uint64_t word_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed);
}

/* Index + 1 of the next in the list. */
static uint32_t after(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes it. */
	return atomic_load_explicit(
		&entry_of(domain, index)->replica, memory_order_relaxed);
}

void replica_join(struct domain *domain, uint32_t index)
{
	domain->storages.infos[index].replica = true;
	table_replica_show(domain->writer, index);
	storage_recount(domain, index);
}

/* From now on it is a storage like any other. */
static void leave(struct domain *domain, uint32_t index)
{
	struct table_storage *entry = &domain->table.storages[index];

	table_replica_hide(domain->writer, index);
	table_replicas_forget(domain->writer, index);
	entry->flags &= ~STORAGE_REPLICA;
	domain->storages.infos[index].replica = false;
	storage_recount(domain, index);
	storage_release(domain, index);
}

bool replica_is_of(
	const struct domain *domain, const struct table_storage *entry)
{
	return entry->of < domain->table.header->n_storages &&
	       word_of(domain, entry->of) ==
		       storage_word(entry->of_generation, STORAGE_LIVE);
}

void replicas_drop(struct domain *domain, uint32_t of, int node)
{
	uint32_t i, next;

	/* Its own list is that in which it was itself. */
	if (entry_of(domain, of)->flags & STORAGE_REPLICA)
		return;
	for (i = after(domain, of); i; i = next) {
		next = after(domain, i - 1);
		if (node < 0 ||
			entry_of(domain, i - 1)->replica_node == (uint32_t)node)
			leave(domain, i - 1);
	}
}

void replicas_drop_asked(
	struct domain *domain, uint32_t index, uint64_t generation, int node)
{
	if (index >= domain->table.header->n_storages ||
		word_of(domain, index) !=
			storage_word(generation, STORAGE_LIVE))
		return;
	if (!(entry_of(domain, index)->flags & STORAGE_REPLICA))
		replicas_drop(domain, index, node);
	else if (replica_is_of(domain, entry_of(domain, index)))
		replicas_drop(domain, entry_of(domain, index)->of, node);
}

bool replica_find(
	const struct domain *domain, uint32_t of, int node, uint32_t *ret)
{
	for (uint32_t i = after(domain, of); i; i = after(domain, i - 1))
		if (entry_of(domain, i - 1)->replica_node == (uint32_t)node) {
			*ret = i - 1;
			return true;
		}
	return false;
}

/* ---- after another server ---------------------------------------------- */

/* Does something hold it that lasts? Names and files are counted by then. */
static bool is_kept(const struct domain *domain, uint32_t index)
{
	const struct storage_info *info = &domain->storages.infos[index];

	return info->names || info->cached;
}

static bool has_original(
	const struct domain *domain, const struct table_storage *e)
{
	return replica_is_of(domain, e) && is_kept(domain, e->of) &&
	       !(entry_of(domain, e->of)->flags & STORAGE_REPLICA);
}

void replicas_rebuild(struct domain *domain)
{
	uint32_t n = domain->table.header->n_storages, other;

	for (uint32_t i = 0; i < n; i++)
		table_replicas_forget(domain->writer, i);
	for (uint32_t i = 0; i < n; i++) {
		struct table_storage *e = &domain->table.storages[i];

		if (!(e->flags & STORAGE_REPLICA) ||
			storage_word_state(word_of(domain, i)) != STORAGE_LIVE)
			continue;
		/* Made by a dead server that had not shown it yet, beside one
		 * that was made when it was asked for again. */
		if (has_original(domain, e) &&
			!replica_find(
				domain, e->of, (int)e->replica_node, &other)) {
			replica_join(domain, i);
			continue;
		}
		/* A storage like any other, which names may lead to. */
		e->flags &= ~STORAGE_REPLICA;
		storage_recount(domain, i);
		storage_release(domain, i);
	}
}
