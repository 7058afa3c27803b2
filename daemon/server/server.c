/* SPDX-License-Identifier: MIT */
/*
 * A server, from its first event to its last. It gets its state from the keeper
 * (from_keeper.c), and everything that it serves lies in domains.
 */
#include "daemon/server/server.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/loop/psi.h"
#include "daemon/loop/waker.h"

#define KEEPER_QUEUE_MAX (64u << 20) /* the keeper reads, or is dead */

/* A load takes two descriptors here, and two more while its loader hangs; a
 * quarter of all is for them. A sixteenth is for lease pages that clients ask
 * for, one for what publications bring, more by the last of them and by the
 * first of each user, and one for loads and publications that wait for their
 * turn: account/admission.c. Those for what the keeper brings are reserved:
 * send/fd_reserve.c. */
static uint32_t limit_sixteenth(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return SERVER_LOADS_MAX;
	return (uint32_t)MIN(SERVER_LOADS_MAX, MAX(limit.rlim_cur / 16, 1u));
}

/* In the process that starts closers. */
static void drop_memory(void *arg)
{
	const struct server_start *start = arg;

	for (uint32_t i = 0; i < start->n_segments; i++)
		if (start->segments[i].addr)
			munmap(start->segments[i].addr,
				start->segments[i].size);
}

int server_run(const struct server_start *start)
{
	struct server server = {.start = *start, .next_job = 1};
	int r = closers_begin(DOMAINS_MAX, drop_memory, &server.start), status;

	server.started_at = loop_now();
	server.limits.loads = server.limits.more_leases = limit_sixteenth();
	server.limits.publish_fds = server.limits.waiting = server.limits.loads;
	server.limits.in_flight = in_flight_limit();
	waker_begin();
	if (r == 0)
		r = loop_new(&server.loop);
	if (r == 0)
		nudge_make(&server.nudge, loop_deadlines(server.loop));
	if (r == 0)
		r = wire_writer_new(KEEPER_QUEUE_MAX, &server.writer);
	if (r == 0)
		r = loop_watch(server.loop, start->sock, LOOP_READ,
			server_receive_keeper, &server, &server.keeper_watch);
	if (r == 0) {
		loop_between(server.loop, server_between_turns, &server);
		r = loop_run(server.loop);
	}
	if (r < 0) {
		log_error("server_failed",
			log_text("error", tarn_fail_message()));
		/* Not in order: the next one takes over what there is, of
		 * which nothing may be given up first. */
		_exit(1);
	}
	for (struct domain *domain = server.domains; domain;
		domain = domain->next)
		domain_leave(domain);
	in_flight_end(&server);
	status = server_balance(&server);
	while (server.domains) {
		struct domain *domain = server.domains;

		server.domains = domain->next;
		domain_free(domain);
	}
	waker_end();
	segment_forget(&server);
	fd_reserve_give(&server);
	psi_unwatch(server.psi);
	fd_store_free(&server.fd_store);
	loop_unwatch(server.keeper_watch);
	wire_writer_free(server.writer);
	free(server.spare);
	loop_free(server.loop);
	return status;
}
