/* SPDX-License-Identifier: MIT */
/*
 * Between events: is the daemon idle, drained, in need of a timer?
 *
 * The idea: nobody keeps a list of what is to be done later. After each event
 * all who have to do with time are asked what is due and when to ask again;
 * there is one timer, set to the earliest answer.
 */
#include "daemon/server.h"

#include "base/checked.h"
#include "daemon/log.h"

#define DRAIN_NS 30000000000ull /* for loads under way when asked to end */
#define LOOK_NS 500000000ull    /* how often running loads are looked at */

static uint64_t count_names(const struct server *server)
{
	uint64_t n = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		n += rule->table.header->n_names;
	return n;
}

static uint64_t count_cached(const struct server *server)
{
	uint64_t n = 0;

	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		n += rule->counts.kinds[KIND_CACHED].n;
	return n;
}

static void on_timer(void *arg)
{
	struct server *server = arg;
	uint64_t now = loop_now(), idle = server->start.options.idle_ns;

	server->timer_at = 0;
	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		cache_evict_idle(rule, now > idle ? now - idle : 0);
		loader_check(rule, now);
	}
	if (server->idle_since && now - server->idle_since >= idle &&
		!server->asked_to_drain) {
		server->asked_to_drain =
			server_tell_keeper(
				server, D_DRAIN_ACCEPTS, NULL, 0, NULL, 0) == 0;
	}
	server_look_around(server);
}

/* Loads that somebody waits for; others may be in a file that hangs. */
static bool awaited_loads(const struct server *server)
{
	for (const struct rule *rule = server->rules; rule; rule = rule->next)
		for (const struct load *l = rule->loads; l; l = l->next)
			if (l->client)
				return true;
	return false;
}

/* At that time, or before it if it is set already: events that come more
 * often than the timer must not put it off for ever. */
static void wake_at(struct server *server, uint64_t at)
{
	if (server->timer_at && server->timer_at <= at)
		return;
	server->timer_at = at;
	loop_timer(server->loop, at, on_timer, server);
}

void server_look_around(struct server *server)
{
	uint64_t idle = server->start.options.idle_ns, at;
	bool busy = server->n_clients || server->n_active ||
		    server->n_publishes || count_names(server);

	/* Until all was told, the books say of what is taken that it is free,
	 * and segments would be given back that are in use. */
	if (!server->serving)
		return;
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		if (rule->memory_freed)
			load_go_on(rule);
	if (server->draining && !server->drain_until)
		server->drain_until = loop_now() + DRAIN_NS;
	if (server->draining &&
		((!server->n_publishes && !awaited_loads(server)) ||
			loop_now() >= server->drain_until)) {
		server_tell_keeper(server, D_BYE, NULL, 0, NULL, 0);
		loop_quit(server->loop);
		return;
	}
	if (busy || !server->start.options.automatic)
		server->idle_since = 0;
	else if (!server->idle_since)
		server->idle_since = loop_now();
	for (struct rule *rule = server->rules; rule; rule = rule->next) {
		at = segments_look(rule, loop_now());
		if (at)
			wake_at(server, at);
	}
	at = room_look(server, loop_now());
	if (at)
		wake_at(server, at);
	at = frozen_look(server, loop_now());
	if (at)
		wake_at(server, at);
	at = server_pressure_look(server, loop_now());
	if (at)
		wake_at(server, at);
	if (server->n_active)
		wake_at(server, loop_now() + LOOK_NS);
	if (server->draining)
		wake_at(server, server->drain_until);
	else if (server->idle_since || count_cached(server))
		wake_at(server, loop_now() + MAX(idle / 4, 20000000ull));
}

/* What all callbacks of a turn let go of is looked for in one pass. Loads that
 * wait for it may fail, and let go of more. */
void server_between_turns(void *arg)
{
	struct server *server = arg;
	uint64_t again = UINT64_MAX, at;
	bool freed;

	share_turn(server);
	expiry_set(server);
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		channels_in_turn(rule, &again);
	do {
		freed = false;
		for (struct rule *rule = server->rules; rule; rule = rule->next)
			freed |= reap_in_turn(rule, &again);
		if (freed)
			server_look_around(server);
	} while (freed);
	at = server_spare_look(server, loop_now());
	if (at)
		again = MIN(again, at);
	again = MIN(again, clients_push_on(server));
	if (again != UINT64_MAX)
		wake_at(server, again);
}

void server_drained(struct server *server, const struct msg_drained *message)
{
	server->asked_to_drain = false;
	if (message->waiting) {
		server->idle_since = 0;
		return;
	}
	log_info("idle_end");
	server->draining = true;
}
