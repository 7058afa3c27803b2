/* SPDX-License-Identifier: MIT */
/*
 * Loaded storages that are not kept for later loads: freed with the last
 * holder.
 *
 * The server answers the clients before they can take a lease, so it keeps the
 * storage for a second, where no load finds it, and then drops its own
 * reference: clients that hold it keep it, and the last release frees it. A
 * client that was stopped for longer finds it gone, and loads again.
 */
#include <stdlib.h>

#include "daemon/server/server.h"

/* A client takes its lease some microseconds after the answer, a thousand
 * times later on a busy machine. */
#define PASSING_NS 1000000000ull

struct uncached {
	struct uncached *next;
	uint32_t index;
	uint64_t generation;
	uint64_t until;
};

static void let_go(struct domain *domain, uint32_t index, uint64_t generation)
{
	if (cache_has(domain, index, generation))
		cache_drop(domain, index);
}

static void set_end(struct domain *domain);

/* Lets go of what has had its time. */
static void on_end(void *arg)
{
	struct domain *domain = arg;
	uint64_t now = loop_now();
	struct uncached *uncached;

	while ((uncached = domain->loading.uncached) &&
		uncached->until <= now) {
		domain->loading.uncached = uncached->next;
		if (!domain->loading.uncached)
			domain->loading.uncached_last = NULL;
		let_go(domain, uncached->index, uncached->generation);
		free(uncached);
	}
	set_end(domain);
}

static void set_end(struct domain *domain)
{
	deadline_call(loop_deadlines(domain->server->loop),
		&domain->loading.uncached_end,
		domain->loading.uncached ? domain->loading.uncached->until : 0,
		on_end, domain);
}

void uncached_add(struct domain *domain, uint32_t index, uint64_t generation)
{
	struct uncached *uncached = malloc(sizeof(*uncached)), **at;

	cache_keep(domain, index);
	if (!uncached)
		return; /* until room is needed or time has passed */
	*uncached = (struct uncached) {
		.index = index,
		.generation = generation,
		.until = loop_now() + PASSING_NS,
	};
	at = domain->loading.uncached_last
		     ? &domain->loading.uncached_last->next
		     : &domain->loading.uncached;
	*at = domain->loading.uncached_last = uncached;
	set_end(domain);
}

void uncached_free(struct domain *domain)
{
	struct uncached *uncached;

	while ((uncached = domain->loading.uncached)) {
		domain->loading.uncached = uncached->next;
		free(uncached);
	}
	domain->loading.uncached_last = NULL;
}
