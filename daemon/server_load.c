/* SPDX-License-Identifier: MIT */
/*
 * The life of a load.
 *
 *	NEW -> IDENTIFYING -> (WAITING ->) FILLING -> published, answered
 *	              \-> the bytes are there: published, answered
 *	              \-> SHARING: another load is reading these bytes
 *
 * The loader identifies the file first (the server may not even fstat it);
 * with the identity known the bytes are found in the cache, or with a load
 * under way, or memory is taken and filled. Names appear when all bytes are
 * there, or never.
 */
#include "daemon/server_load_impl.h"

#include "base/fail.h"

struct load *load_by_job(struct rule *rule, uint64_t job)
{
	struct load *load;

	for (load = rule->loads; load; load = load->next)
		if (load->job == job)
			return load;
	return NULL;
}

/* ---- the loader knows the file ------------------------------------------ */

void load_identified(struct load *load, const struct msg_identity *identity)
{
	struct rule *rule = load->rule;
	uint32_t index;
	int r;

	if (load->state != LOAD_IDENTIFYING)
		return;
	if (load->alloc_size) {
		/* The second loader of this load. */
		if (load_same_file(&load->identity, identity)) {
			r = load_fill(load);
			return r < 0 ? load_give_up(load, r)
				     : load_tell_loading(load);
		}
		tarn_fail(EBUSY, "the file changed while it was being loaded; "
				 "load it again");
		return load_give_up(load, EBUSY);
	}
	/* What shares it has proved the file as it was. */
	if (load_is_shared(load) &&
		!load_same_file(&load->identity, identity)) {
		tarn_fail(EBUSY, "the file changed while it was being loaded; "
				 "load it again");
		return load_give_up(load, EBUSY);
	}
	load->identity = *identity;
	if (!identity->young && load_find_cached(load, &index)) {
		load_drop_from_loader(load);
		load->index = index;
		load->generation = storage_word_generation(
			rule->table.storages[index].word);
		load_settle_sharers(load, 0);
		return load_succeed(load, index,
			storage_word_generation(
				rule->table.storages[index].word),
			LOADED_CACHED, 0);
	}
	load->with = identity->young || load_is_shared(load)
			     ? NULL
			     : load_find_running(load);
	if (load->with) {
		load_drop_from_loader(load);
		load->state = LOAD_SHARING;
		return;
	}
	r = load_take_memory(load, true);
	if (r < 0)
		load_give_up(load, r);
	else if (load->state == LOAD_FILLING)
		load_tell_loading(load);
}

/* ---- the loader's answers ---------------------------------------------- */

void load_progress(struct load *load, uint64_t bytes)
{
	if (load->state != LOAD_FILLING)
		return;
	/* Only a figure for people: nobody reads bytes because of it. */
	atomic_store_explicit(&load->rule->table.storages[load->index].landed,
		bytes, memory_order_relaxed);
	table_wake(load->rule->writer);
}

void load_filled(struct load *load, const struct msg_filled *filled)
{
	struct rule *rule = load->rule;
	struct storage_info *info = storage_info(rule, load->index);

	if (load->state != LOAD_FILLING)
		return;
	rule->server->bytes_loaded += load->size;
	info->filling = NULL;
	info->flags = filled->flags;
	atomic_store_explicit(&rule->table.storages[load->index].landed,
		load->size, memory_order_relaxed);
	storage_set(rule, load->index, STORAGE_LIVE);
	/* Kept until room is needed or time has passed; until then whoever
	 * asked has time to take his lease. */
	cache_keep(rule, load->index);
	table_wake(rule->writer);
	load_settle_sharers(load, 0);
	load_succeed(load, load->index, load->generation, 0, filled->cpu_ns);
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
	if (load->alloc_size) {
		storage_quarantine(load->rule, load->index);
		table_wake(load->rule->writer);
	}
	load->alloc_size = 0;
}

/* From the beginning, with another loader and other memory. */
static int retry(struct load *load)
{
	load->retried = true;
	load->asked_at = load->heard_at = 0;
	load_leave_loader(load);
	/* Protocol 1 expects to be told once. */
	if (load->client && load->client->version > 1)
		load->told = false;
	return load_identify(load, 0);
}

void load_lost(struct load *load)
{
	bool dropping = load->state == LOAD_DROPPING;
	int error = EIO;

	leave_memory(load);
	if (dropping)
		return load_free(load);
	if (!load->retried) {
		error = retry(load);
		if (error < 0)
			load_give_up(load, error);
		return;
	}
	tarn_fail(error,
		"two loader processes died while they were reading %s; is "
		"something wrong with the file, or with memory?",
		load->label);
	load_settle_sharers(load, error);
	load_refuse(load, error);
}

/* ---- what it waited for -------------------------------------------------- */

/* Something that loads wait for is there: a loader, or memory. Called by
 * events, never from within what a load does. */
void load_go_on(struct rule *rule)
{
	bool freed = rule->memory_freed;
	struct load *load, *next;

	rule->memory_freed = false;
	/* They wait for the same memory, and are small. */
	publish_go_on(rule, freed);
	for (load = rule->loads; load; load = next) {
		int r = 0;

		next = load->next;
		if (freed)
			load->parked = false;
		if (load->state == LOAD_NEW)
			r = load_identify(load,
				load->alloc_size ? load_segments_needed(load)
						 : 0);
		else if (load->state == LOAD_WAITING && !load->parked)
			r = load_take_memory(load, true);
		if (r == 1)
			load_tell_loading(load);
		if (r < 0) {
			/* Those who share it go too: start over. */
			load_give_up(load, r);
			next = rule->loads;
		}
	}
}
