/* SPDX-License-Identifier: MIT */
/*
 * Between turns of the loop: the work that all callbacks of a turn leave is
 * done once. Is the daemon idle, or drained?
 *
 * Later work has a deadline in the loop's heap, which lies beside the state
 * that it concerns. Some deadlines call a function; others only end the wait of
 * the loop, and their state is looked at here when they are not set any more.
 */
#include "daemon/server/server.h"

#include "base/checked.h"
#include "daemon/loop/log.h"
#include "daemon/server/storage/pressure_relief.h"

#define DRAIN_NS 30000000000ull /* for loads under way when asked to end */
#define LOOK_NS 500000000ull    /* how often running loads are looked at */

static uint64_t count_names(const struct server *server)
{
	uint64_t n = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		n += domain->table.header->n_names;
	return n;
}

static uint64_t count_cached(const struct server *server)
{
	uint64_t n = 0;

	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		n += domain->storages.counts.kinds[KIND_CACHED].n;
	return n;
}

static void on_loads_timer(void *arg)
{
	struct server *server = arg;
	uint64_t now = loop_now();

	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		loader_check(domain, now);
		load_check_sharers(domain, now);
	}
}

/* Does a client wait that is not known here? */
static bool ask_keeper(struct server *server)
{
	const struct msg_drain question = {.n_gone = server->in_flight.n_after};

	return server_send_keeper(server, D_DRAIN_ACCEPTS, &question,
		       sizeof(question), NULL, 0) == 0;
}

static void on_idle_timer(void *arg)
{
	struct server *server = arg;
	uint64_t now = loop_now(), idle = server->start.options.idle_ns;

	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		cache_evict_idle(domain, now > idle ? now - idle : 0);
	if (server->idle.since && now - server->idle.since >= idle &&
		!server->drain.asked)
		server->drain.asked = ask_keeper(server);
}

/* Loads for which a client waits; others may be in a file that hangs. */
static bool awaited_loads(const struct server *server)
{
	for (const struct domain *domain = server->domains; domain;
		domain = domain->next)
		for (const struct load *l = domain->loading.loads; l;
			l = l->next)
			if (l->client)
				return true;
	return false;
}

/* True: it is done. */
static bool drain(struct server *server)
{
	uint64_t now = loop_now();

	if (!server->drain.draining || server->drain.leaving)
		return server->drain.leaving;
	if (!server->drain.until)
		server->drain.until = now + DRAIN_NS;
	if ((server->n_publishes || awaited_loads(server)) &&
		now < server->drain.until) {
		deadline_set(loop_deadlines(server->loop), &server->drain.end,
			server->drain.until);
		return false;
	}
	server->drain.leaving = true;
	server_send_keeper(server, D_BYE, NULL, 0, NULL, 0);
	loop_quit(server->loop);
	return true;
}

static void notice_idle(struct server *server)
{
	bool busy = server->n_clients ||
		    server->admissions.all.n[ADMISSION_LOADS] ||
		    server->n_publishes || count_names(server);
	uint64_t idle = server->start.options.idle_ns;

	if (busy || !server->start.options.automatic)
		server->idle.since = 0;
	else if (!server->idle.since)
		server->idle.since = loop_now();
	if (!server->idle.look.at &&
		(server->idle.since || count_cached(server)))
		deadline_call(loop_deadlines(server->loop), &server->idle.look,
			loop_now() + MAX(idle / 4, 20000000ull), on_idle_timer,
			server);
}

/* One pass looks for the storages that all callbacks of a turn released. Loads
 * and publications that waited for them may fail, and release more. */
static void go_on(struct server *server)
{
	bool again;

	do {
		again = false;
		for (struct domain *domain = server->domains; domain;
			domain = domain->next) {
			if (domain->loading.loader_free)
				load_go_on(domain);
			again |= collect_in_turn(domain);
		}
		again |= memory_serve(server);
	} while (again);
}

void server_between_turns(void *arg)
{
	struct server *server = arg;
	uint64_t now;

	quantum_turn(server);
	fd_reserve_poll(server);
	/* Until the keeper has sent everything, the books count taken memory
	 * as free, and segments in use would be given back. */
	if (!server->serving)
		return;
	expiry_set(server);
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		channels_in_turn(domain);
	go_on(server);
	admission_serve(server);
	if (drain(server))
		return;
	notice_idle(server);
	/* Once for all: to ask for the time costs more than to look at a domain
	 * that has nothing to do. */
	now = loop_now();
	for (struct domain *domain = server->domains; domain;
		domain = domain->next) {
		segments_poll(domain, now);
		domain_poll(domain);
		server_close_rest(domain);
		if (!domain->closer_timer.at)
			deadline_set(loop_deadlines(server->loop),
				&domain->closer_timer,
				closer_poll(domain->closer, now));
	}
	pressure_relief_poll(server);
	/* A loader may hang when it is to forget a segment, too. */
	if (!server->loads_timer.at &&
		(server->admissions.all.n[ADMISSION_LOADS] ||
			server->n_leaving))
		deadline_call(loop_deadlines(server->loop),
			&server->loads_timer, loop_now() + LOOK_NS,
			on_loads_timer, server);
}

void server_drained(struct server *server, const struct msg_drained *message)
{
	server->drain.asked = false;
	if (message->waiting) {
		server->idle.since = 0;
		return;
	}
	log_info("idle_end");
	server->drain.draining = true;
}
