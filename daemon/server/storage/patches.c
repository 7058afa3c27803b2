/* SPDX-License-Identifier: MIT */
/*
 * Patches (shm/patch.h): storages that are the bytes of another one, but for
 * some pages.
 *
 * A patch needs the storage that it is over from before it has an entry until
 * after that is free, so a reader that leases the patch can map the other. When
 * it goes, the other one may have nothing left that holds it, and goes too: in
 * the next pass of collect(), since it is let go after those of this one.
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

static bool has_base(
	const struct domain *domain, const struct table_storage *patch)
{
	return patch->of < domain->table.header->n_storages &&
	       storage_word_generation(word_of(domain, patch->of)) ==
		       patch->of_generation &&
	       storage_word_state(word_of(domain, patch->of)) != STORAGE_FREE;
}

unsigned patches_below(const struct domain *domain, uint32_t index)
{
	const struct table_storage *e = entry_of(domain, index);
	unsigned n = 0;

	for (; e->flags & STORAGE_PATCH && n < TABLE_PATCHES_MAX &&
		has_base(domain, e);
		n++)
		e = entry_of(domain, e->of);
	return n;
}

/* ---- which are over it ------------------------------------------------------ */

static void join(struct domain *domain, uint32_t index)
{
	struct storage_info *infos = domain->storages.infos;
	struct storage_info *of = &infos[entry_of(domain, index)->of];

	infos[index].newer = 0;
	infos[index].older = of->over;
	if (of->over)
		infos[of->over - 1].newer = index + 1;
	of->over = index + 1;
}

static void leave(struct domain *domain, uint32_t index)
{
	struct storage_info *infos = domain->storages.infos;
	struct storage_info *of = &infos[entry_of(domain, index)->of];
	uint32_t newer = infos[index].newer, older = infos[index].older;

	if (newer)
		infos[newer - 1].older = older;
	else
		of->over = older;
	if (older)
		infos[older - 1].newer = newer;
	infos[index].newer = infos[index].older = 0;
}

void patch_join(struct domain *domain, uint32_t index)
{
	join(domain, index);
	storage_need(domain, entry_of(domain, index)->of,
		entry_of(domain, index)->owner);
}

void patch_leave(struct domain *domain, uint32_t index)
{
	if (!has_base(domain, entry_of(domain, index)))
		return;
	leave(domain, index);
	storage_need_end(domain, entry_of(domain, index)->of);
}

/* ---- who pays --------------------------------------------------------------- */

uint32_t patch_payer(const struct domain *domain, uint32_t index)
{
	const struct storage_info *info = &domain->storages.infos[index];

	return info->over ? quota_payer(domain, info->over - 1)
			  : info->needed_by;
}

void patch_paid(struct domain *domain, uint32_t index)
{
	const struct table_storage *e = entry_of(domain, index);

	while (e->flags & STORAGE_PATCH && has_base(domain, e) &&
		storage_is_needed_only(&domain->storages.infos[e->of])) {
		quota_hand_on(domain, e->of, patch_payer(domain, e->of));
		e = entry_of(domain, e->of);
	}
}

/* ---- after another server ---------------------------------------------------- */

static bool is_there(const struct domain *domain, uint32_t index)
{
	enum storage_state state = storage_word_state(word_of(domain, index));

	return state != STORAGE_FREE && state != STORAGE_FILLING &&
	       entry_of(domain, index)->flags & STORAGE_PATCH &&
	       has_base(domain, entry_of(domain, index));
}

/* Those that were being made are dropped with the dead server's other ones,
 * without a word to what they are over. */
void patches_rebuild(struct domain *domain)
{
	for (uint32_t i = 0; i < domain->table.header->n_storages; i++)
		if (is_there(domain, i)) {
			join(domain, i);
			domain->storages.infos[entry_of(domain, i)->of].needs++;
		}
}

/* From the top down. */
void patches_rebuild_payers(struct domain *domain)
{
	for (uint32_t i = 0; i < domain->table.header->n_storages; i++)
		if (is_there(domain, i) &&
			!storage_is_needed_only(&domain->storages.infos[i]))
			patch_paid(domain, i);
}
