/* SPDX-License-Identifier: MIT */
/*
 * Storages by what holds them: a list and a sum of each kind.
 *
 * A storage is of one kind, which follows only from its state, its names and
 * the cache. Code that changes one of these calls storage_recount, which moves
 * it from its old kind to its new one. So an operation on all storages of a
 * kind takes time in proportion to their number, and the number itself is
 * known.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/server/server.h"

static const struct table_storage *entry_of(
	const struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

enum storage_kind storage_kind(const struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = entry_of(domain, index);
	const struct storage_info *info = &domain->storages.infos[index];
	/* Only this thread writes the word. */
	enum storage_state state = storage_word_state(
		atomic_load_explicit(&entry->word, memory_order_relaxed));

	if (state == STORAGE_FREE)
		return KIND_FREE;
	if (entry->flags & STORAGE_QUARANTINE)
		return KIND_QUARANTINED;
	if (state == STORAGE_FILLING)
		return KIND_FILLING;
	if (info->names || info->replica || info->needs)
		return KIND_NAMED;
	if (info->cached)
		return KIND_CACHED;
	return info->let_go ? KIND_LET_GO : KIND_UNNAMED;
}

static void sum(
	struct storage_sum *s, const struct table_storage *entry, uint64_t sign)
{
	s->n += sign;
	s->bytes += sign * storage_host_bytes(entry);
	s->memory += sign * storage_memory(entry);
}

static void count(struct domain *domain, uint32_t index, uint64_t sign)
{
	const struct table_storage *entry = entry_of(domain, index);
	struct domain_counts *counts = &domain->storages.counts;

	sum(&counts->kinds[domain->storages.infos[index].kind], entry, sign);
	if (entry->flags & STORAGE_CREATED)
		sum(&counts->created, entry, sign);
	if (entry->flags & STORAGE_OWN)
		sum(&counts->own, entry, sign);
	counts->device += sign * storage_device_memory(entry);
	counts->n_device += sign * !!(entry->flags & STORAGE_DEVICE);
}

static void leave(struct domain *domain, uint32_t index)
{
	struct storage_info *info = &domain->storages.infos[index];
	struct storage_list *list = &domain->storages.lists[info->kind];

	count(domain, index, -1ull);
	if (info->before)
		domain->storages.infos[info->before - 1].after = info->after;
	else
		list->first = info->after;
	if (info->after)
		domain->storages.infos[info->after - 1].before = info->before;
	else
		list->last = info->before;
	info->before = info->after = 0;
	info->kind = KIND_FREE;
}

/* Behind the one that is given as index + 1; 0: as the first. */
static void insert(struct domain *domain, uint32_t index,
	enum storage_kind kind, uint32_t before)
{
	struct storage_info *info = &domain->storages.infos[index];
	struct storage_list *list = &domain->storages.lists[kind];
	uint32_t after =
		before ? domain->storages.infos[before - 1].after : list->first;

	info->kind = (uint8_t)kind;
	info->before = before;
	info->after = after;
	if (before)
		domain->storages.infos[before - 1].after = index + 1;
	else
		list->first = index + 1;
	if (after)
		domain->storages.infos[after - 1].before = index + 1;
	else
		list->last = index + 1;
	count(domain, index, 1);
}

static void join(struct domain *domain, uint32_t index, enum storage_kind kind)
{
	insert(domain, index, kind, domain->storages.lists[kind].last);
	domain->storages.infos[index].last_use = loop_now();
}

void storage_recount(struct domain *domain, uint32_t index)
{
	enum storage_kind kind = storage_kind(domain, index);

	if (kind == domain->storages.infos[index].kind)
		return;
	if (domain->storages.infos[index].kind != KIND_FREE)
		leave(domain, index);
	else
		quota_count_storage(domain, index, true);
	if (kind != KIND_FREE)
		join(domain, index, kind);
	else
		quota_count_storage(domain, index, false);
}

void storage_used(struct domain *domain, uint32_t index)
{
	enum storage_kind kind = domain->storages.infos[index].kind;

	if (kind == KIND_FREE)
		return;
	leave(domain, index);
	join(domain, index, kind);
}

static int latest_first(const void *a, const void *b)
{
	const struct storage_use *x = a, *y = b;

	return (x->at < y->at) - (x->at > y->at);
}

/* From the end of the list, where they mostly belong, and once for all. */
void storages_used(struct domain *domain, struct storage_use *uses, uint32_t n)
{
	uint32_t at;

	for (uint32_t i = 0; i < n; i++)
		leave(domain, uses[i].index);
	qsort(uses, n, sizeof(*uses), latest_first);
	at = domain->storages.lists[KIND_CACHED].last;
	for (uint32_t i = 0; i < n; i++) {
		while (at &&
			domain->storages.infos[at - 1].last_use > uses[i].at)
			at = domain->storages.infos[at - 1].before;
		insert(domain, uses[i].index, KIND_CACHED, at);
		domain->storages.infos[uses[i].index].last_use = uses[i].at;
	}
}

uint32_t storage_first(const struct domain *domain, enum storage_kind kind)
{
	return domain->storages.lists[kind].first - 1;
}

uint32_t storage_after(const struct domain *domain, uint32_t index)
{
	return domain->storages.infos[index].after - 1;
}

uint64_t storage_count_all(const struct domain *domain)
{
	uint64_t n = 0;

	for (int kind = KIND_FREE + 1; kind < STORAGE_KINDS; kind++)
		n += domain->storages.counts.kinds[kind].n;
	return n;
}
