/* SPDX-License-Identifier: MIT */
/*
 * Storages by what holds them: a list and a sum of each kind.
 *
 * The idea: a storage is of one kind, which follows from its state, its names
 * and the cache alone. Whoever changes one of these calls storage_recount,
 * which moves it from its old kind to its new one. So what is asked of all
 * storages of a kind costs as much as there are of that kind, and what is
 * asked of their number costs nothing.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/server.h"

static const struct table_storage *entry_of(
	const struct rule *rule, uint32_t index)
{
	return &rule->table.storages[index];
}

enum storage_kind storage_kind(const struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = entry_of(rule, index);
	const struct storage_info *info = &rule->infos[index];
	/* Only this thread writes the word. */
	enum storage_state state = storage_word_state(
		atomic_load_explicit(&entry->word, memory_order_relaxed));

	if (state == STORAGE_FREE)
		return KIND_FREE;
	if (entry->flags & STORAGE_QUARANTINE)
		return KIND_QUARANTINED;
	if (state == STORAGE_FILLING)
		return KIND_FILLING;
	if (info->names)
		return KIND_NAMED;
	if (info->cached)
		return KIND_CACHED;
	return info->let_go ? KIND_LET_GO : KIND_UNNAMED;
}

uint64_t storage_memory(const struct table_storage *entry)
{
	return entry->flags & STORAGE_OWN ? (entry->size + 4095) & ~4095ull
					  : entry->alloc_size;
}

static void sum(
	struct storage_sum *s, const struct table_storage *entry, uint64_t sign)
{
	s->n += sign;
	s->bytes += sign * entry->size;
	s->memory += sign * storage_memory(entry);
}

static void count(struct rule *rule, uint32_t index, uint64_t sign)
{
	const struct table_storage *entry = entry_of(rule, index);
	struct rule_counts *counts = &rule->counts;

	sum(&counts->kinds[rule->infos[index].kind], entry, sign);
	if (entry->flags & STORAGE_CREATED)
		sum(&counts->created, entry, sign);
	if (entry->flags & STORAGE_OWN)
		sum(&counts->own, entry, sign);
}

static void leave(struct rule *rule, uint32_t index)
{
	struct storage_info *info = &rule->infos[index];
	struct storage_list *list = &rule->lists[info->kind];

	count(rule, index, -1ull);
	if (info->before)
		rule->infos[info->before - 1].after = info->after;
	else
		list->first = info->after;
	if (info->after)
		rule->infos[info->after - 1].before = info->before;
	else
		list->last = info->before;
	info->before = info->after = 0;
	info->kind = KIND_FREE;
}

/* Behind the one that is given as index + 1; 0: as the first. */
static void insert(struct rule *rule, uint32_t index, enum storage_kind kind,
	uint32_t before)
{
	struct storage_info *info = &rule->infos[index];
	struct storage_list *list = &rule->lists[kind];
	uint32_t after = before ? rule->infos[before - 1].after : list->first;

	info->kind = (uint8_t)kind;
	info->before = before;
	info->after = after;
	if (before)
		rule->infos[before - 1].after = index + 1;
	else
		list->first = index + 1;
	if (after)
		rule->infos[after - 1].before = index + 1;
	else
		list->last = index + 1;
	count(rule, index, 1);
}

static void join(struct rule *rule, uint32_t index, enum storage_kind kind)
{
	insert(rule, index, kind, rule->lists[kind].last);
	rule->infos[index].last_use = loop_now();
}

void storage_recount(struct rule *rule, uint32_t index)
{
	enum storage_kind kind = storage_kind(rule, index);

	if (kind == rule->infos[index].kind)
		return;
	if (rule->infos[index].kind != KIND_FREE)
		leave(rule, index);
	else
		quota_count_storage(rule, index, true);
	if (kind != KIND_FREE)
		join(rule, index, kind);
	else
		quota_count_storage(rule, index, false);
}

void storage_used(struct rule *rule, uint32_t index)
{
	enum storage_kind kind = rule->infos[index].kind;

	if (kind == KIND_FREE)
		return;
	leave(rule, index);
	join(rule, index, kind);
}

static int latest_first(const void *a, const void *b)
{
	const struct storage_use *x = a, *y = b;

	return (x->at < y->at) - (x->at > y->at);
}

/* From the end of the list, where they mostly belong, and once for all. */
void storages_used(struct rule *rule, struct storage_use *uses, uint32_t n)
{
	uint32_t at;

	for (uint32_t i = 0; i < n; i++)
		leave(rule, uses[i].index);
	qsort(uses, n, sizeof(*uses), latest_first);
	at = rule->lists[KIND_CACHED].last;
	for (uint32_t i = 0; i < n; i++) {
		while (at && rule->infos[at - 1].last_use > uses[i].at)
			at = rule->infos[at - 1].before;
		insert(rule, uses[i].index, KIND_CACHED, at);
		rule->infos[uses[i].index].last_use = uses[i].at;
	}
}

uint32_t storage_first(const struct rule *rule, enum storage_kind kind)
{
	return rule->lists[kind].first - 1;
}

uint32_t storage_after(const struct rule *rule, uint32_t index)
{
	return rule->infos[index].after - 1;
}

uint64_t storage_count_all(const struct rule *rule)
{
	uint64_t n = 0;

	for (int kind = KIND_FREE + 1; kind < STORAGE_KINDS; kind++)
		n += rule->counts.kinds[kind].n;
	return n;
}
