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
#include "daemon/server_load.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

/* Descriptors that a file system does not let go: no more are taken then. */
#define CLOSER_WEDGED 256u

static uint64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct load *load_by_job(struct rule *rule, uint64_t job)
{
	struct load *load;

	for (load = rule->loads; load; load = load->next)
		if (load->job == job)
			return load;
	return NULL;
}

/* ---- ends -------------------------------------------------------------- */

void load_leave_loader(struct load *load)
{
	if (load->loader)
		loader_job_done(load->loader);
	load->loader = NULL;
}

static void load_free(struct load *load)
{
	struct rule *rule = load->rule;
	struct load **p;

	for (p = &rule->loads; *p && *p != load; p = &(*p)->next)
		;
	if (*p) {
		*p = load->next;
		rule->server->n_active--;
	}
	load_leave_loader(load);
	if (load->client)
		load->client->n_loads--;
	quota_return(load->home, QUOTA_LOADS, 1);
	quota_return(load->home, QUOTA_DESCRIPTORS, load->n_fds);
	quota_return(load->home, QUOTA_REQUESTS, load->message.size);
	closer_close(load->home->closer, load->fds[0]);
	closer_close(load->home->closer, load->fds[1]);
	for (int i = 0; i < load->message.n_fds; i++)
		closer_close(
			load->home->closer, wire_take_fd(&load->message, i));
	wire_message_clear(&load->message);
	free(load->label);
	free(load);
}

/* Ends with this thread's last sentence. */
static void refuse(struct load *load, int error)
{
	load->rule->server->n_failed++;
	log_warning("load_failed", log_text("label", load->label),
		log_text("error", tarn_fail_message()));
	if (load->client)
		client_refuse(load->client, load->serial, error);
	load_free(load);
}

/* Publishes onto bytes that are there, and answers. */
static void succeed(struct load *load, uint32_t index, uint64_t generation,
	uint32_t flags, uint64_t cpu_ns)
{
	struct rule *rule = load->rule;
	const struct table_storage *entry = &rule->table.storages[index];
	struct msg_loaded loaded = {
		.index = index,
		.pool = entry->pool,
		.generation = generation,
		.base = entry->base,
		.size = entry->size,
		.flags = flags,
	};
	int r = load->client ? load_publish(load, index, generation) : 0;

	if (r < 0)
		return refuse(load, r);
	storage_used(rule, index);
	loaded.flags |= storage_info(rule, index)->flags;
	loaded.cpu_ns = cpu_ns + cpu_now() - load->cpu_start;
	rule->server->n_loads++;
	if (flags & LOADED_CACHED)
		rule->server->n_cached++;
	log_info("load_done", log_text("label", load->label),
		log_u64("bytes", entry->size),
		log_u64("cached", !!(flags & LOADED_CACHED)),
		log_u64("names", load->names.n));
	if (load->client)
		client_reply(load->client, WIRE_LOADED, load->serial, &loaded,
			sizeof(loaded), NULL, 0);
	load_free(load);
}

static void drop_from_loader(struct load *load)
{
	struct msg_job job = {.job = load->job};

	if (load->loader)
		loader_tell(load->loader, L_DROP, &job, sizeof(job), NULL, 0);
	load_leave_loader(load);
}

/* The server gives up on it; other than after L_FAILED, the loader still holds
 * the file. */
void load_give_up(struct load *load, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());

	drop_from_loader(load);
	tarn_fail_verbatim(error, why ? why : "out of memory");
	load_failed(load, error);
}

static bool is_shared(const struct load *load)
{
	for (const struct load *l = load->rule->loads; l; l = l->next)
		if (l->with == load)
			return true;
	return false;
}

/* Those who share get what the one that reads got. */
static void settle_sharers(struct load *load, int error)
{
	_cleanup_free_ char *why = error ? strdup(tarn_fail_message()) : NULL;
	struct load *l, *next;

	for (l = load->rule->loads; l; l = next) {
		next = l->next;
		if (l->state != LOAD_SHARING || l->with != load)
			continue;
		l->with = NULL;
		if (!error) {
			succeed(l, load->index, load->generation, LOADED_CACHED,
				0);
			continue;
		}
		tarn_fail_verbatim(error, why ? why : "out of memory");
		refuse(l, error);
	}
	if (error)
		tarn_fail_verbatim(error, why ? why : "out of memory");
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
	if (is_shared(load) && !load_same_file(&load->identity, identity)) {
		tarn_fail(EBUSY, "the file changed while it was being loaded; "
				 "load it again");
		return load_give_up(load, EBUSY);
	}
	load->identity = *identity;
	if (!identity->young && load_find_cached(load, &index)) {
		drop_from_loader(load);
		load->index = index;
		load->generation = storage_word_generation(
			rule->table.storages[index].word);
		settle_sharers(load, 0);
		return succeed(load, index,
			storage_word_generation(
				rule->table.storages[index].word),
			LOADED_CACHED, 0);
	}
	load->with = identity->young || is_shared(load)
			     ? NULL
			     : load_find_running(load);
	if (load->with) {
		drop_from_loader(load);
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
	settle_sharers(load, 0);
	succeed(load, load->index, load->generation, 0, filled->cpu_ns);
}

/* Nothing of it is in flight any more; what was taken goes back. */
static void give_back(struct load *load)
{
	struct table_storage *entry = &load->rule->table.storages[load->index];

	if (!load->alloc_size)
		return;
	storage_info(load->rule, load->index)->filling = NULL;
	load->alloc_size = 0;
	/* Who waits for it may hold it; it is no file's bytes, nor whole. */
	entry->file_dev = entry->file_ino = 0;
	atomic_store_explicit(&entry->landed, 0, memory_order_relaxed);
	storage_release(load->rule, load->index);
	table_wake(load->rule->writer);
}

void load_failed(struct load *load, int error)
{
	_cleanup_free_ char *why = strdup(tarn_fail_message());

	settle_sharers(load, error);
	give_back(load);
	tarn_fail_verbatim(error, why ? why : "out of memory");
	refuse(load, error);
}

void load_dropped(struct load *load)
{
	if (load->state != LOAD_DROPPING)
		return;
	give_back(load);
	load_free(load);
}

/* Its memory stays with the loader that died: its ring may still write. */
static void leave_memory(struct load *load)
{
	if (load->state != LOAD_FILLING && load->state != LOAD_DROPPING)
		return give_back(load);
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
	settle_sharers(load, error);
	refuse(load, error);
}

/* ---- the client --------------------------------------------------------- */

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

static int may_start(struct client *client)
{
	if (client->rule->server->draining)
		return tarn_fail(ESHUTDOWN, "the daemon is ending; start it "
					    "again and load again");
	if (client->n_loads >= CLIENT_LOADS_MAX)
		return tarn_fail(EBUSY,
			"%u loads of this connection are under "
			"way, which is the limit; wait for one",
			CLIENT_LOADS_MAX);
	if (client->rule->server->n_active >= client->rule->server->loads_max)
		return tarn_fail(EBUSY,
			"%u loads are under way, which is the limit with so "
			"many descriptors (ulimit -n); wait for one",
			client->rule->server->loads_max);
	if (closer_waiting(client->home->closer) > CLOSER_WEDGED)
		return tarn_fail(EBUSY,
			"the file system of %u earlier files "
			"does not let them be closed",
			CLOSER_WEDGED);
	return 0;
}

/* No bytes: nothing to read, nothing to identify. All that is empty is one
 * storage; else who loads empty files fills the table with them. */
static void load_nothing(struct load *load)
{
	struct rule *rule = load->rule;
	int r;

	if (cache_has(rule, rule->nothing, rule->nothing_generation))
		return succeed(
			load, rule->nothing, rule->nothing_generation, 0, 0);
	r = load_add_storage(load, 0, 0);
	if (r < 0)
		return refuse(load, r);
	rule->nothing = load->index;
	rule->nothing_generation = load->generation;
	storage_set(rule, load->index, STORAGE_LIVE);
	cache_keep(rule, load->index);
	succeed(load, load->index, load->generation, 0, 0);
}

static int charge(struct rule *home, const struct wire_message *message)
{
	int r = quota_charge(home, QUOTA_LOADS, 1);

	if (r == 0) {
		r = quota_charge_message(home, message);
		if (r < 0)
			quota_return(home, QUOTA_LOADS, 1);
	}
	return r;
}

void load_start(struct client *client, struct wire_message *message)
{
	struct rule *rule = client->rule;
	struct load *load = NULL;
	int r = may_start(client);

	if (r == 0) {
		load = calloc(1, sizeof(*load));
		r = load ? 0 : tarn_fail(ENOMEM, "out of memory");
	}
	if (r == 0)
		r = charge(client->home, message);
	if (r < 0) {
		free(load);
		return client_refuse(client, message->serial, r);
	}
	load->rule = rule;
	load->home = client->home;
	load->client = client;
	load->serial = message->serial;
	load->cpu_start = cpu_now();
	load->began_at = loop_now();
	load->n_fds = (uint32_t)message->n_fds;
	load->fds[0] = wire_take_fd(message, 0);
	load->fds[1] = wire_take_fd(message, 1);
	load->message = *message;
	*message = (struct wire_message) {0};
	load->next = rule->loads;
	rule->loads = load;
	rule->server->n_active++;
	client->n_loads++;
	r = load_parse(load);
	if (r < 0)
		refuse(load, r);
	else if (load->n_ranges == 0)
		load_nothing(load);
	else if ((r = load_identify(load, 0)) < 0)
		load_give_up(load, r);
}

static void stop_load(struct load *load)
{
	struct msg_job job = {.job = load->job};

	if (load->client)
		load->client->n_loads--;
	load->client = NULL;
	switch (load->state) {
	case LOAD_NEW:
	case LOAD_WAITING:
	case LOAD_SHARING:
		if (is_shared(load))
			return;
		drop_from_loader(load);
		give_back(load);
		load_free(load);
		return;
	case LOAD_IDENTIFYING:
	case LOAD_FILLING:
		/* Others want its bytes: it goes on for them. */
		if (is_shared(load))
			return;
		load->state = LOAD_DROPPING;
		loader_tell(load->loader, L_DROP, &job, sizeof(job), NULL, 0);
		return;
	case LOAD_DROPPING:
		return;
	}
}

void load_cancel(struct client *client, uint32_t serial)
{
	struct load *load;

	for (load = client->rule->loads; load; load = load->next)
		if (load->client == client && load->serial == serial)
			break;
	if (!load)
		return;
	tarn_fail(ECANCELED, "the load was cancelled");
	client_refuse(client, serial, ECANCELED);
	stop_load(load);
}

void load_orphan(struct client *client)
{
	struct load *load, *next;

	for (load = client->rule->loads; load; load = next) {
		next = load->next;
		if (load->client == client)
			stop_load(load);
	}
}
