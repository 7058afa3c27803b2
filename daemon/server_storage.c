/* SPDX-License-Identifier: MIT */
/*
 * Who holds a storage: names, the cache of loaded files, leases.
 *
 * Names are counted here, the cache is server_cache.c's. Leases are not
 * counted: they are looked for in the clients' lease pages, and only when the
 * other two are gone; that is server_reap.c.
 */
#include "daemon/server.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

static struct table_storage *entry_of(struct rule *rule, uint32_t index)
{
	return &rule->table.storages[index];
}

static enum storage_state state_of(struct rule *rule, uint32_t index)
{
	/* Only this thread writes the word. */
	return storage_word_state(atomic_load_explicit(
		&entry_of(rule, index)->word, memory_order_relaxed));
}

static uint64_t generation_of(struct rule *rule, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(rule, index)->word, memory_order_relaxed));
}

struct storage_info *storage_info(struct rule *rule, uint32_t index)
{
	return &rule->infos[index];
}

int storage_reserve(struct rule *rule, uint32_t index)
{
	uint32_t n = MAX(rule->n_infos, 64u);
	struct storage_info *infos;

	while (n <= index)
		n *= 2;
	if (n == rule->n_infos)
		return 0;
	infos = realloc(rule->infos, n * sizeof(*infos));
	if (!infos)
		return tarn_fail(ENOMEM, "out of memory");
	memset(infos + rule->n_infos, 0, (n - rule->n_infos) * sizeof(*infos));
	rule->infos = infos;
	rule->n_infos = n;
	return 0;
}

int storage_new(struct rule *rule, const struct table_storage *entry,
	enum storage_state state, uint32_t *ret_index, uint64_t *ret_generation)
{
	/* Room first: an entry that is in the table must be countable. */
	int r = storage_reserve(rule, rule->table.header->n_storages);

	if (r == 0)
		r = quota_check_storage(rule, entry);
	if (r < 0)
		return r;
	r = table_storage_add(
		rule->writer, entry, state, ret_index, ret_generation);
	if (r == 0) {
		rule->infos[*ret_index] = (struct storage_info) {0};
		storage_recount(rule, *ret_index);
	}
	return r;
}

void storage_set(struct rule *rule, uint32_t index, enum storage_state state)
{
	if (state != STORAGE_FREE)
		table_storage_set(rule->writer, index, state);
	else
		table_storage_drop(rule->writer, index);
	storage_recount(rule, index);
}

void storage_name(
	struct rule *rule, uint32_t index, uint32_t names, uint32_t publisher)
{
	struct storage_info *info = &rule->infos[index];
	bool unnamed = info->kind == KIND_UNNAMED || info->kind == KIND_LET_GO;

	info->names += names;
	quota_count_names(rule, index, publisher, names);
	info->let_go = false;
	/* Its owner was rid of it; else who gives it a name once more could
	 * have him pay for it, as often as he removes it. */
	if (unnamed)
		quota_own(
			rule, index, quota_name_payer(rule, index, publisher));
	if (state_of(rule, index) == STORAGE_UNNAMED)
		storage_set(rule, index, STORAGE_LIVE);
	else
		storage_recount(rule, index);
}

void storage_release(struct rule *rule, uint32_t index)
{
	struct storage_info *info = &rule->infos[index];

	if (info->names || info->cached || info->filling)
		return;
	info->let_go = true;
	/* Bytes that never came whole are for nobody but who holds them now;
	 * others can still be taken until reap() looks. */
	if (state_of(rule, index) == STORAGE_FILLING)
		storage_set(rule, index, STORAGE_FREEING);
	else
		storage_set(rule, index, STORAGE_UNNAMED);
}

/* ---- quarantine ------------------------------------------------------ */

void storage_quarantine(struct rule *rule, uint32_t index)
{
	struct storage_info *info = &rule->infos[index];

	info->filling = NULL;
	info->let_go = false;
	/* Before the word: one that says FREEING and lacks it would be free
	 * for a server that comes after. */
	entry_of(rule, index)->flags |= STORAGE_QUARANTINE;
	table_storage_shut(rule->writer, index);
	storage_recount(rule, index);
}

static void release_quarantined(struct rule *rule, uint32_t index)
{
	memory_give(rule, index);
	storage_set(rule, index, STORAGE_FREE);
	rule->memory_freed = true;
}

void storage_end_quarantine(struct rule *rule, uint32_t filler)
{
	uint32_t index = storage_first(rule, KIND_QUARANTINED), next;

	for (; index != UINT32_MAX; index = next) {
		next = storage_after(rule, index);
		if (entry_of(rule, index)->filler == filler)
			release_quarantined(rule, index);
	}
}

/* ---- names ----------------------------------------------------------- */

void storage_unname(struct rule *rule, uint32_t index, uint64_t generation,
	uint32_t publisher)
{
	if (index >= rule->n_infos || generation_of(rule, index) != generation)
		return;
	if (!rule->infos[index].names)
		return;
	quota_count_names(rule, index, publisher, -1);
	if (--rule->infos[index].names == 0) {
		storage_recount(rule, index);
		storage_release(rule, index);
	}
}

void storage_released_by_client(
	struct rule *rule, uint32_t index, uint64_t generation)
{
	if (index < rule->table.header->n_storages && index < rule->n_infos &&
		generation_of(rule, index) == generation &&
		state_of(rule, index) == STORAGE_UNNAMED)
		storage_release(rule, index);
}

void storage_displaced(
	void *rule, const struct tarn_descriptor *d, uint32_t publisher)
{
	storage_unname(rule, d->storage, d->generation, publisher);
}

int storage_remove_name(struct rule *rule, const char *name, size_t size)
{
	int r = name_check(name, size);

	if (r == 0)
		r = table_begin(rule->writer);
	if (r < 0)
		return r;
	r = table_remove(rule->writer, name, size);
	if (r < 0) {
		table_abort(rule->writer);
		return r;
	}
	table_commit(rule->writer, storage_displaced, rule);
	return 0;
}
