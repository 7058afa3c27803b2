/* SPDX-License-Identifier: MIT */
/*
 * Removes names whose time to live is over.
 *
 * The table contains the time at which each name ends (shm/table_expiry.c), so
 * there is no state here that could be lost. One deadline is set to the
 * earliest end; when it comes, all names of a domain that have ended are
 * removed in one transaction: names that were published together are never
 * seen in part. The clock is the one that goes on while the machine sleeps.
 */
#include "daemon/server/server.h"

#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "daemon/loop/log.h"

#define RETRY_NS 1000000000ull /* after want of memory */

/* The loop's clock stands still while the machine sleeps. So the other one is
 * looked at so often; picked. */
#define SLEPT_NS 5000000000ull

/* How many went; -ENOMEM: none, for now. */
static int64_t expire(struct domain *domain, uint64_t now)
{
	int64_t n = table_begin(domain->writer);

	if (n < 0)
		return n;
	n = table_expire(domain->writer, now);
	if (n > 0) {
		table_commit(domain->writer, storage_displaced, domain);
		if (quota_may_log(domain))
			log_info("names_ended",
				log_u64("domain", domain->number),
				log_i64("names", n));
	} else {
		table_abort(domain->writer);
	}
	return n;
}

static void on_end(void *arg)
{
	struct server *server = arg;
	uint64_t now = clock_ns(CLOCK_BOOTTIME);

	server->names.not_before = 0;
	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		uint64_t next = table_next_expiry(domain->writer);

		if (!next || next > now || expire(domain, now) >= 0)
			continue;
		log_error("names_not_ended", log_u64("domain", domain->number),
			log_text("error", tarn_fail_message()));
		server->names.not_before = now + RETRY_NS;
	}
}

void expiry_set(struct server *server)
{
	uint64_t first = 0, now, wait;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		uint64_t next = table_next_expiry(domain->writer);

		if (next && (!first || next < first))
			first = next;
	}
	if (first == server->names.first && (!first || server->names.end.at))
		return;
	server->names.first = first;
	now = clock_ns(CLOCK_BOOTTIME);
	first = MAX(first, server->names.not_before);
	wait = first > now ? MIN(first - now, SLEPT_NS) : 0;
	deadline_call(loop_deadlines(server->loop), &server->names.end,
		server->names.first ? loop_now() + wait : 0, on_end, server);
}
