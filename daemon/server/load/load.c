/* SPDX-License-Identifier: MIT */
/*
 * The life of a load.
 *
 *	(UNADMITTED ->) NEW -> IDENTIFYING
 *
 *	IDENTIFYING -> (WAITING ->) FILLING -> published, answered
 *	              \-> the bytes are there: published, answered
 *	              \-> SHARING: another load is reading these bytes
 *
 * The loader identifies the file first (the server may not even fstat it);
 * with the identity known the bytes are found in the cache, or with a load
 * under way, or memory is taken and filled. Names appear when all bytes are
 * there, or never.
 */
#include "daemon/server/load/internal.h"

#include "base/fail.h"

struct load *load_by_job(struct domain *domain, uint64_t job)
{
	struct load *load;

	for (load = domain->loading.loads; load; load = load->next)
		if (load->job == job)
			return load;
	return NULL;
}

/* ---- the loader knows the file ------------------------------------------ */

static bool load_is_here(const struct load *load, uint32_t *ret)
{
	return load->copy.is ? load_copy_find(load, ret)
			     : load_find_cached(load, ret);
}

/* It has its memory, and a second loader. */
static void fill_again(struct load *load)
{
	int r;

	if (load_not_kept(load) != NOT_KEPT_KEPT)
		load->domain->table.storages[load->bytes.index].flags &=
			~STORAGE_KEPT;
	r = load_fill(load);
	if (r < 0)
		load_give_up(load, r);
	else
		load_send_loading(load);
}

void load_identified(struct load *load, const struct msg_identity *identity)
{
	struct domain *domain = load->domain;
	struct load *with;
	uint32_t index;
	int r;

	if (load->state != LOAD_IDENTIFYING)
		return;
	/* A second loader reads all of it, and loads that share it have proved
	 * the file as it was. */
	if ((load->bytes.size || load_is_shared(load)) &&
		!load_same_file(&load->identity, identity)) {
		tarn_fail(EBUSY, "the file changed while it was being loaded; "
				 "load it again");
		return load_give_up(load, EBUSY);
	}
	load->identity = *identity;
	if (load->bytes.size)
		return fill_again(load);
	if (!load->copy.is)
		cache_drop_versions(domain, &identity->file);
	if (load_is_here(load, &index)) {
		load_drop_from_loader(load);
		load->bytes.index = index;
		load->bytes.generation = storage_word_generation(
			domain->table.storages[index].word);
		load_finish_sharers(load, 0);
		return load_succeed(
			load, index, load->bytes.generation, LOADED_CACHED, 0);
	}
	with = load_is_shared(load) || load->copy.is ? NULL
						     : load_find_running(load);
	if (with) {
		load_drop_from_loader(load);
		load_share(load, with);
		if (load->share.with->state == LOAD_FILLING)
			load_send_loading(load->share.with);
		else
			load_send_memory(load);
		return;
	}
	r = load_take_memory(load);
	if (r < 0)
		load_give_up(load, r);
	else if (load->state == LOAD_FILLING)
		load_send_loading(load);
}

/* ---- the loader's answers ---------------------------------------------- */

void load_progress(struct load *load, uint64_t bytes)
{
	load->reading.begun = true;
	if (load->state != LOAD_FILLING)
		return;
	/* Only a figure for people: no read depends on it. */
	atomic_store_explicit(
		&load->domain->table.storages[load->bytes.index].landed, bytes,
		memory_order_relaxed);
	table_wake(load->domain->writer);
}

void load_filled(struct load *load, const struct msg_filled *filled)
{
	struct domain *domain = load->domain;
	struct storage_info *info = storage_info(domain, load->bytes.index);
	int r = 0;

	if (load->state != LOAD_FILLING)
		return;
	domain->server->totals.bytes += load->size;
	if (filled->flags & LOADED_URING)
		domain->server->totals.by_uring = true;
	else
		domain->server->totals.by_threads = true;
	info->filling = NULL;
	info->flags = filled->flags;
	atomic_store_explicit(&domain->table.storages[load->bytes.index].landed,
		load->size, memory_order_relaxed);
	storage_set(domain, load->bytes.index, STORAGE_LIVE);
	/* The kept bytes of the same file are older, or were not trusted. */
	if (!load->copy.is)
		cache_replace(domain, load->bytes.index);
	/* Kept until memory is needed or time has passed; or as long as the
	 * clients that asked need to take a lease. */
	if (domain->table.storages[load->bytes.index].flags & STORAGE_KEPT)
		cache_keep(domain, load->bytes.index);
	else
		uncached_add(domain, load->bytes.index, load->bytes.generation);
	table_wake(domain->writer);
	if (load->copy.is)
		r = load_copy_show(load, load->bytes.index);
	if (r < 0)
		return load_refuse(load, r);
	load_finish_sharers(load, 0);
	load_succeed(load, load->bytes.index, load->bytes.generation, 0,
		filled->cpu_ns);
}

void load_dropped(struct load *load)
{
	if (load->state != LOAD_DROPPING)
		return;
	load_give_back(load);
	load_free(load);
}

/* Its memory stays with the loader that died: its ring may still write. */
static void leave_memory(struct load *load)
{
	if (load->state != LOAD_FILLING && load->state != LOAD_DROPPING)
		return load_give_back(load);
	if (load->bytes.size) {
		storage_quarantine(load->domain, load->bytes.index);
		table_wake(load->domain->writer);
	}
	load->bytes.size = 0;
}

/* From the beginning, with another loader and other memory. */
static int retry(struct load *load)
{
	load->reading.retried = true;
	load->reading.begun = false;
	load->reading.asked_at = load->reading.last_message_at = 0;
	load_leave_loader(load);
	load->told.loading = false;
	for (struct load *l = load->domain->loading.loads; l; l = l->next)
		if (l->state == LOAD_SHARING && l->share.with == load)
			l->told.loading = false;
	return load_identify(load, 0);
}

/* Memory that a loader may still write stays taken. */
void load_end_all(struct domain *domain)
{
	while (domain->loading.loads) {
		leave_memory(domain->loading.loads);
		load_free(domain->loading.loads);
	}
}

void load_lost(struct load *load)
{
	bool dropping = load->state == LOAD_DROPPING;
	int error = EIO;

	leave_memory(load);
	if (dropping)
		return load_free(load);
	if (!load->reading.retried) {
		error = retry(load);
		if (error < 0)
			load_give_up(load, error);
		return;
	}
	tarn_fail(error,
		"two loader processes died while they were reading %s; is "
		"something wrong with the file, or with memory?",
		load->label);
	load_finish_sharers(load, error);
	load_refuse(load, error);
}

/* ---- what it waited for -------------------------------------------------- */

/* Called by events, never from within what a load does. */
void load_go_on(struct domain *domain)
{
	struct load *load, *next;

	domain->loading.loader_free = false;
	for (load = domain->loading.loads; load; load = next) {
		int r = 0;

		next = load->next;
		if (load->state == LOAD_NEW)
			r = load_identify(load,
				load->bytes.size ? load_segments_needed(load)
						 : 0);
		if (r < 0) {
			/* Loads that share it go too: start over. */
			load_give_up(load, r);
			next = domain->loading.loads;
		}
	}
}
