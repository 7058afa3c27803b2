/* SPDX-License-Identifier: MIT */
/*
 * Names that were published for a time go when it is over.
 *
 * The idea: the table knows what ends and when (shm/table_expiry.c), so there
 * is nothing to remember here, and nothing to lose. One timer is set to the
 * first end of all; when it goes off, all that has ended of a rule goes in one
 * transaction: what was published together is never seen in part. The clock is
 * the one that goes on while the machine sleeps.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

#define RETRY_NS 1000000000ull /* after want of memory */

struct expiry {
	struct server *server;
	int fd;
	struct loop_watch *watch;
	uint64_t set_to; /* 0: the timer is off */
	uint64_t not_before;
};

/* How many went; -ENOMEM: none, for now. */
static int64_t expire(struct rule *rule, uint64_t now)
{
	int64_t n = table_begin(rule->writer);

	if (n < 0)
		return n;
	n = table_expire(rule->writer, now);
	if (n > 0) {
		table_commit(rule->writer, storage_displaced, rule);
		log_info("names_ended", log_u64("rule", rule->number),
			log_i64("names", n));
	} else {
		table_abort(rule->writer);
	}
	return n;
}

static void on_end(void *arg, unsigned ready)
{
	struct expiry *expiry = arg;
	uint64_t now = clock_ns(CLOCK_BOOTTIME), count;

	(void)ready;
	if (read(expiry->fd, &count, sizeof(count)) < 0)
		return;
	expiry->set_to = 0;
	expiry->not_before = 0;
	for (struct rule *rule = expiry->server->rules; rule;
		rule = rule->next) {
		uint64_t next = table_next_expiry(rule->writer);

		if (!next || next > now || expire(rule, now) >= 0)
			continue;
		log_error("names_not_ended", log_u64("rule", rule->number),
			log_text("error", tarn_fail_message()));
		expiry->not_before = now + RETRY_NS;
	}
	server_look_around(expiry->server);
}

void expiry_set(struct server *server)
{
	struct expiry *expiry = server->expiry;
	struct itimerspec t = {0};
	uint64_t first = 0;

	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		uint64_t next = table_next_expiry(rule->writer);

		if (next && (!first || next < first))
			first = next;
	}
	if (first)
		first = MAX(first, expiry->not_before);
	if (first == expiry->set_to)
		return;
	t.it_value.tv_sec = (time_t)(first / 1000000000u);
	t.it_value.tv_nsec = (long)(first % 1000000000u);
	if (timerfd_settime(expiry->fd, TFD_TIMER_ABSTIME, &t, NULL) == 0)
		expiry->set_to = first;
}

int expiry_new(struct server *server)
{
	struct expiry *expiry = calloc(1, sizeof(*expiry));
	int r;

	if (!expiry)
		return tarn_fail(ENOMEM, "out of memory");
	expiry->server = server;
	expiry->fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (expiry->fd < 0)
		r = tarn_fail(errno, "a timer for names that end: %s",
			tarn_errno_text(errno));
	else
		r = loop_watch(server->loop, expiry->fd, LOOP_READ, on_end,
			expiry, &expiry->watch);
	server->expiry = expiry;
	return r;
}

void expiry_free(struct server *server)
{
	struct expiry *expiry = server->expiry;

	if (!expiry)
		return;
	loop_unwatch(expiry->watch);
	fd_close(expiry->fd);
	free(expiry);
	server->expiry = NULL;
}
