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

static uint64_t word_of(const struct domain *domain, uint32_t index)
{
	/* Only this thread writes the word. */
	return atomic_load_explicit(
		&domain->table.storages[index].word, memory_order_relaxed);
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
	const struct table_storage *e = &domain->table.storages[index];
	unsigned n = 0;

	for (; e->flags & STORAGE_PATCH && n < TABLE_PATCHES_MAX &&
		has_base(domain, e);
		n++)
		e = &domain->table.storages[e->of];
	return n;
}

void patch_join(struct domain *domain, const struct table_storage *patch)
{
	storage_need(domain, patch->of, patch->owner);
}

void patch_leave(struct domain *domain, const struct table_storage *patch)
{
	if (has_base(domain, patch))
		storage_need_end(domain, patch->of);
}

/* Those that were being made are dropped with the dead server's other ones,
 * without a word to what they are over. */
void patches_rebuild(struct domain *domain)
{
	for (uint32_t i = 0; i < domain->table.header->n_storages; i++) {
		const struct table_storage *e = &domain->table.storages[i];
		enum storage_state state =
			storage_word_state(word_of(domain, i));

		if (state == STORAGE_FREE || state == STORAGE_FILLING ||
			!(e->flags & STORAGE_PATCH) || !has_base(domain, e))
			continue;
		domain->storages.infos[e->of].needs++;
		domain->storages.infos[e->of].needed_by = e->owner;
	}
}
