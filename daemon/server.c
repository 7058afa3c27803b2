/* SPDX-License-Identifier: MIT */
/*
 * A server, from its first event to its last. What it knows it is told by the
 * keeper (server_keeper.c), and what it serves lies in rules.
 */
#include "daemon/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"
#include "daemon/pressure.h"

#define KEEPER_QUEUE_MAX (64u << 20) /* the keeper reads, or is dead */

/* A load takes two descriptors here, and two more while its loader hangs; a
 * quarter of all is for them. A sixteenth is for lease pages that clients ask
 * for, and one for what publications bring, more by the last of them and by the
 * first of each user. For what the keeper brings there are spares:
 * server_spare.c. */
static uint32_t limit_sixteenth(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return SERVER_LOADS_MAX;
	return (uint32_t)MIN(SERVER_LOADS_MAX, MAX(limit.rlim_cur / 16, 1u));
}

int server_run(const struct server_start *start)
{
	struct server server = {.start = *start, .next_job = 1};
	int r;

	server.started_at = loop_now();
	server.loads_max = server.more_leases_max = limit_sixteenth();
	server.publish_fds_max = server.loads_max;
	r = loop_new(&server.loop);
	if (r == 0)
		r = wire_reader_new(&server.reader);
	if (r == 0)
		r = wire_writer_new(KEEPER_QUEUE_MAX, &server.writer);
	if (r == 0)
		r = loop_watch(server.loop, start->sock, LOOP_READ,
			server_hear_keeper, &server, &server.keeper_watch);
	if (r == 0)
		r = expiry_new(&server);
	if (r == 0) {
		loop_between(server.loop, server_between_turns, &server);
		server_look_around(&server);
		r = loop_run(server.loop);
	}
	if (r < 0) {
		log_error("server_failed",
			log_text("error", tarn_fail_message()));
		/* Not in order: the next one takes over what there is, of
		 * which nothing may be given up first. */
		_exit(1);
	}
	/* A client of one rule may use the closer of another. */
	for (struct rule *rule = server.rules; rule; rule = rule->next)
		rule_leave(rule);
	while (server.rules) {
		struct rule *rule = server.rules;

		server.rules = rule->next;
		rule_free(rule);
	}
	segment_forget(&server);
	server_spare_give(&server);
	pressure_free(server.pressure);
	kept_free(&server.kept);
	expiry_free(&server);
	loop_unwatch(server.keeper_watch);
	wire_reader_free(server.reader);
	wire_writer_free(server.writer);
	loop_free(server.loop);
	return 0;
}
