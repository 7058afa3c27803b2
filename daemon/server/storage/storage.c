/* SPDX-License-Identifier: MIT */
/*
 * What holds a storage: names, the cache of loaded files, patches, leases.
 *
 * Names are counted here, and what needs its bytes; storage/cache.c has the cache,
 * storage/replicas.c and patches.c what a storage holds of its like. Leases are not
 * counted: storage/collect.c looks for them in the clients' lease pages, and only
 * when all others are gone.
 */
#include "daemon/server/server.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

static struct table_storage *entry_of(struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

static enum storage_state state_of(struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return storage_word_state(atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed));
}

static uint64_t generation_of(struct domain *domain, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed));
}

struct storage_info *storage_info(struct domain *domain, uint32_t index)
{
	return &domain->storages.infos[index];
}

int storage_reserve(struct domain *domain, uint32_t index)
{
	uint32_t n = MAX(domain->storages.n_infos, 64u);
	struct storage_info *infos;

	while (n <= index)
		n *= 2;
	if (n == domain->storages.n_infos)
		return 0;
	infos = realloc(domain->storages.infos, n * sizeof(*infos));
	if (!infos)
		return tarn_fail(ENOMEM, "out of memory");
	memset(infos + domain->storages.n_infos, 0,
		(n - domain->storages.n_infos) * sizeof(*infos));
	domain->storages.infos = infos;
	domain->storages.n_infos = n;
	return 0;
}

int storage_new(struct domain *domain, const struct table_storage *entry,
	enum storage_state state, uint32_t *ret_index, uint64_t *ret_generation)
{
	/* Room first: an entry that is in the table must be countable. */
	int r = storage_reserve(domain, domain->table.header->n_storages);

	if (r == 0)
		r = storage_check_quota(domain, entry, NULL);
	if (r < 0)
		return r;
	r = table_storage_add(
		domain->writer, entry, state, ret_index, ret_generation);
	if (r == 0) {
		domain->storages.infos[*ret_index] = (struct storage_info) {0};
		storage_recount(domain, *ret_index);
	}
	return r;
}

void storage_set(
	struct domain *domain, uint32_t index, enum storage_state state)
{
	if (state != STORAGE_FREE)
		table_storage_set(domain->writer, index, state);
	else
		table_storage_drop(domain->writer, index);
	storage_recount(domain, index);
}

bool storage_is_needed_only(const struct storage_info *info)
{
	return info->needs && !info->names && !info->cached && !info->replica;
}

void storage_name(struct domain *domain, uint32_t index, uint32_t names,
	uint32_t publisher)
{
	struct storage_info *info = &domain->storages.infos[index];
	bool unnamed = info->kind == KIND_UNNAMED ||
		       info->kind == KIND_LET_GO ||
		       storage_is_needed_only(info);

	info->names += names;
	quota_count_names(domain, publisher, names);
	info->let_go = false;
	/* Its owner had removed it; otherwise another user that names it again
	 * could charge the owner for it, as often as the owner removes it. */
	if (unnamed) {
		quota_own(domain, index, publisher);
		patch_paid(domain, index);
	}
	if (state_of(domain, index) == STORAGE_UNNAMED)
		storage_set(domain, index, STORAGE_LIVE);
	else
		storage_recount(domain, index);
}

void storage_release(struct domain *domain, uint32_t index)
{
	struct storage_info *info = &domain->storages.infos[index];

	if (info->names || info->cached || info->filling || info->replica)
		return;
	replicas_drop(domain, index, -1);
	/* Its owner has let go of it, so a user that needs it pays. */
	if (info->needs) {
		quota_hand_on(domain, index, patch_payer(domain, index));
		return patch_paid(domain, index);
	}
	info->let_go = true;
	/* Incomplete bytes are only for those that hold them now; complete ones
	 * can still be taken until collect() looks. */
	if (state_of(domain, index) == STORAGE_FILLING)
		storage_set(domain, index, STORAGE_FREEING);
	else
		storage_set(domain, index, STORAGE_UNNAMED);
}

void storage_need(struct domain *domain, uint32_t index, uint32_t uid)
{
	domain->storages.infos[index].needs++;
	domain->storages.infos[index].needed_by = uid;
	storage_recount(domain, index);
}

void storage_need_end(struct domain *domain, uint32_t index)
{
	domain->storages.infos[index].needs--;
	storage_recount(domain, index);
	storage_release(domain, index);
}

/* ---- quarantine ------------------------------------------------------ */

void storage_quarantine(struct domain *domain, uint32_t index)
{
	struct storage_info *info = &domain->storages.infos[index];

	info->filling = NULL;
	info->let_go = false;
	/* Before the word: one that says FREEING and lacks it would be free
	 * for a server that comes after. */
	entry_of(domain, index)->flags |= STORAGE_QUARANTINE;
	table_storage_shut(domain->writer, index);
	storage_recount(domain, index);
}

static void release_quarantined(struct domain *domain, uint32_t index)
{
	memory_give(domain, index);
	storage_set(domain, index, STORAGE_FREE);
	domain->server->memory.freed = true;
}

void storage_end_quarantine(struct domain *domain, uint32_t loader_id)
{
	uint32_t index = storage_first(domain, KIND_QUARANTINED), next;

	for (; index != UINT32_MAX; index = next) {
		next = storage_after(domain, index);
		if (entry_of(domain, index)->loader_id == loader_id)
			release_quarantined(domain, index);
	}
}

/* ---- names ----------------------------------------------------------- */

void storage_unname(struct domain *domain, uint32_t index, uint64_t generation,
	uint32_t publisher)
{
	if (index >= domain->storages.n_infos ||
		generation_of(domain, index) != generation)
		return;
	if (!domain->storages.infos[index].names)
		return;
	quota_count_names(domain, publisher, -1);
	if (--domain->storages.infos[index].names == 0) {
		storage_recount(domain, index);
		storage_release(domain, index);
	}
}

void storage_released_by_client(
	struct domain *domain, uint32_t index, uint64_t generation)
{
	if (index < domain->table.header->n_storages &&
		index < domain->storages.n_infos &&
		generation_of(domain, index) == generation &&
		state_of(domain, index) == STORAGE_UNNAMED)
		storage_release(domain, index);
}

void storage_displaced(
	void *domain, const struct tarn_descriptor *d, uint32_t publisher)
{
	storage_unname(domain, d->storage, d->generation, publisher);
}

void storage_commit(struct client *client)
{
	struct domain *domain = client->domain;

	table_commit(domain->writer, storage_displaced, domain);
	completion_committed(client);
}

int storage_remove_name(struct domain *domain, const char *name, size_t size)
{
	int r = name_check(name, size);

	if (r == 0)
		r = table_begin(domain->writer);
	if (r < 0)
		return r;
	r = table_remove(domain->writer, name, size);
	if (r < 0) {
		table_abort(domain->writer);
		return r;
	}
	table_commit(domain->writer, storage_displaced, domain);
	return 0;
}
