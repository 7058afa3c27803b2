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

struct passing {
	struct passing *next;
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
	struct passing *passing;

	while ((passing = domain->loading.passing) && passing->until <= now) {
		domain->loading.passing = passing->next;
		if (!domain->loading.passing)
			domain->loading.passing_last = NULL;
		let_go(domain, passing->index, passing->generation);
		free(passing);
	}
	set_end(domain);
}

static void set_end(struct domain *domain)
{
	deadline_call(loop_deadlines(domain->server->loop),
		&domain->loading.passing_end,
		domain->loading.passing ? domain->loading.passing->until : 0,
		on_end, domain);
}

void passing_add(struct domain *domain, uint32_t index, uint64_t generation)
{
	struct passing *passing = malloc(sizeof(*passing)), **at;

	cache_keep(domain, index);
	if (!passing)
		return; /* until room is needed or time has passed */
	*passing = (struct passing) {
		.index = index,
		.generation = generation,
		.until = loop_now() + PASSING_NS,
	};
	at = domain->loading.passing_last ? &domain->loading.passing_last->next
					  : &domain->loading.passing;
	*at = domain->loading.passing_last = passing;
	set_end(domain);
}

void passing_free(struct domain *domain)
{
	struct passing *passing;

	while ((passing = domain->loading.passing)) {
		domain->loading.passing = passing->next;
		free(passing);
	}
	domain->loading.passing_last = NULL;
}
