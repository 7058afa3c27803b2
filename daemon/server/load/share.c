/* SPDX-License-Identifier: MIT */
/*
 * Loads that wait for the bytes that another load reads.
 *
 * The loads of one user succeed and fail together: it is the same file, read
 * with the same rights, quotas and loaders. With the load of another user they
 * share only success. That one may fail for reasons of its own (its quota, its
 * descriptor's flags), and its loader may be held up for as long as its user
 * likes, by files that are slow or do not answer. So when it fails, or brings
 * too little, the loads of other users read the file by themselves.
 */
#include "daemon/server/load/internal.h"

#include <stdatomic.h>
#include <string.h>

#include "base/fail.h"

/* What another user's load brings in HUNG_NS at least. Picked: 3 MB a second,
 * which every disk does that is worth waiting for. */
#define SHARED_BYTES (16ull << 20)

bool load_is_shared(const struct load *load)
{
	for (const struct load *l = load->domain->loading.loads; l; l = l->next)
		if (l->share.with == load)
			return true;
	return false;
}

static uint64_t landed(const struct load *load)
{
	const struct table_storage *entry =
		&load->domain->table.storages[load->bytes.index];

	/* Relaxed: a figure that this thread wrote. */
	return load->bytes.size ? atomic_load_explicit(
					  &entry->landed, memory_order_relaxed)
				: 0;
}

void load_share(struct load *load, struct load *with)
{
	load->share.with = with;
	load->state = LOAD_SHARING;
	load->share.since = loop_now();
	load->share.landed = landed(with);
}

/* It waits for no load of another user any more. */
static void read_alone(struct load *load)
{
	int r;

	load->share.with = NULL;
	load->share.apart = true;
	load->told.loading = false;
	load->told.memory = 0;
	r = load_identify(load, 0);
	if (r < 0)
		load_refuse(load, r);
}

static void fail(struct load *load, int error, const char *why)
{
	tarn_fail_verbatim(error, why);
	load_refuse(load, error);
}

void load_finish_sharers(struct load *load, int error)
{
	_cleanup_free_ char *copy = error ? strdup(tarn_fail_message()) : NULL;
	const char *why = copy ? copy : "out of memory";
	struct load *l, *next;

	for (l = load->domain->loading.loads; l; l = next) {
		next = l->next;
		if (l->state != LOAD_SHARING || l->share.with != load)
			continue;
		l->share.with = NULL;
		if (!error)
			load_succeed(l, load->bytes.index,
				load->bytes.generation, LOADED_CACHED, 0);
		else if (l->user != load->user && l->client)
			read_alone(l);
		else
			fail(l, error, why);
	}
	if (error)
		tarn_fail_verbatim(error, why);
}

/* Memory is waited for in one queue, in which no user is held up by another. */
static bool is_held_up(struct load *load, uint64_t now)
{
	uint64_t before = load->share.landed;

	if (load->share.with->state == LOAD_WAITING)
		load->share.since = now;
	if (now < load->share.since || now - load->share.since < HUNG_NS)
		return false;
	load->share.since = now;
	load->share.landed = landed(load->share.with);
	return load->share.landed < before ||
	       load->share.landed - before < SHARED_BYTES;
}

void load_check_sharers(struct domain *domain, uint64_t now)
{
	struct load *load, *next;

	for (load = domain->loading.loads; load; load = next) {
		next = load->next;
		if (load->state == LOAD_SHARING &&
			load->share.with->user != load->user &&
			is_held_up(load, now))
			read_alone(load);
	}
}
