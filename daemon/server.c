/* SPDX-License-Identifier: MIT */
/*
 * The server's loop and its side of the talk with the keeper.
 *
 * Every message from the keeper is complete in itself and in order: a rule
 * comes before its clients, its segments before the answer to the growth that
 * made them.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "daemon/pressure.h"

#define DRAIN_NS 30000000000ull      /* for loads under way when asked to end */
#define LOOK_NS 500000000ull         /* how often running loads are looked at */
#define KEEPER_QUEUE_MAX (64u << 20) /* the keeper reads, or is dead */

static void on_keeper(void *arg, unsigned ready);

int server_tell_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r = wire_push(server->writer, type, 0, body, size, fds, n_fds);

	if (r < 0) {
		log_error(
			"keeper_deaf", log_text("error", tarn_fail_message()));
		return r;
	}
	/* What is queued will be sent, so it was said. That the keeper is gone
	 * is noticed where it is heard. */
	r = wire_flush(server->writer, server->start.sock);
	if (server->keeper_watch)
		loop_change(server->keeper_watch,
			r == 1 ? LOOP_READ : LOOP_READ | LOOP_WRITE);
	return 0;
}

/* ---- idle and draining ---------------------------------------------- */

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
		server->asked_to_drain = true;
		server_tell_keeper(server, D_DRAIN_ACCEPTS, NULL, 0, NULL, 0);
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
static void between_turns(void *arg)
{
	struct server *server = arg;
	uint64_t again = UINT64_MAX;
	bool freed;

	share_turn(server);
	expiry_set(server);
	do {
		freed = false;
		for (struct rule *rule = server->rules; rule; rule = rule->next)
			freed |= reap_in_turn(rule, &again);
		if (freed)
			server_look_around(server);
	} while (freed);
	if (again != UINT64_MAX)
		wake_at(server, again);
}

static void drained(struct server *server, const struct msg_drained *message)
{
	server->asked_to_drain = false;
	if (message->waiting) {
		server->idle_since = 0;
		return;
	}
	log_info("idle_end");
	server->draining = true;
}

/* ---- rules ---------------------------------------------------------- */

struct rule *rule_find(struct server *server, uint32_t number)
{
	struct rule *rule;

	for (rule = server->rules; rule; rule = rule->next)
		if (rule->number == number)
			return rule;
	tarn_fail(EPROTO, "there is no rule %u", number);
	return NULL;
}

static void rule_leave(struct rule *rule)
{
	/* Clients first: what they load is taken from the loaders. */
	while (rule->clients)
		client_free(rule->clients);
	loader_free_all(rule);
	rule->worker = worker_free(rule->worker);
}

static void rule_free(struct rule *rule)
{
	rule_leave(rule);
	rule->writer = table_writer_free(rule->writer);
	lease_batch_done(&rule->batch);
	rule->alloc = alloc_free(rule->alloc);
	rule->frozen = alloc_free(rule->frozen);
	rule->closer = closer_free(rule->closer);
	segments_free(rule);
	free(rule->infos);
	cache_free(rule);
	fd_close(rule->table_fd);
	table_unmap(&rule->table);
	free(rule);
}

static int rule_open(struct server *server, struct rule *rule, int fd)
{
	struct table_pool pool = {
		.id = rule->number,
		.page_shift = rule->spec.page_shift,
		.reach = server->start.reach,
	};
	const struct server_start *start = &server->start;
	int r = 0;

	if (fd >= 0)
		r = table_map(fd, true, &rule->table);
	else if (rule->number < start->n_tables)
		rule->table = start->tables[rule->number];
	else
		r = tarn_fail(
			EPROTO, "rule %u was not inherited", rule->number);
	if (r == 0)
		r = table_writer_take_over(
			&rule->table, rebuild_name, rule, &rule->writer);
	if (r == 0)
		r = alloc_new(&rule->alloc);
	if (r == 0)
		r = alloc_new(&rule->frozen);
	if (r == 0)
		r = lease_batch_init(&rule->batch);
	if (r == 0)
		r = closer_new(&rule->closer);
	if (r == 0)
		r = worker_new(server->loop, &rule->worker);
	if (r == 0 && rule->table.header->n_pools == 0)
		r = table_add_pool(rule->writer, &pool);
	return r;
}

static int rule_come(struct server *server, const struct msg_rule *from,
	struct wire_message *m)
{
	_cleanup_fd_ int fd = wire_take_fd(m, 0);
	struct rule *rule = calloc(1, sizeof(*rule));
	int r;

	if (!rule)
		return tarn_fail(ENOMEM, "out of memory");
	rule->server = server;
	rule->number = from->rule;
	rule->spec = from->spec;
	rule->table_fd = -1;
	rule->frozen_seen = UINT64_MAX;
	r = rule_open(server, rule, fd);
	if (r < 0) {
		rule_free(rule);
		return r;
	}
	quota_set(rule);
	rule->next = server->rules;
	server->rules = rule;
	if (fd < 0)
		return 0;
	return server_tell_keeper(
		server, D_RULE_MAPPED, from, sizeof(*from), NULL, 0);
}

static void on_client_first(struct rule *rule);

static int rule_ready(struct server *server, const struct msg_rule *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);

	if (!rule)
		return -EPROTO;
	fd_close(rule->table_fd);
	rule->table_fd = wire_take_fd(m, 0);
	on_client_first(rule);
	return 0;
}

/* Clients that came before the region was sealed are heard from now on. */
static void on_client_first(struct rule *rule)
{
	for (struct client *c = rule->clients; c; c = c->next)
		client_listen(c);
}

/* ---- memory ---------------------------------------------------------- */

static int grown(struct server *server, const struct wire_message *m)
{
	const struct msg_grown *answer = (const struct msg_grown *)m->body;
	struct rule *rule = rule_find(server, answer->rule);
	int r;

	if (!rule)
		return -EPROTO;
	rule->growing = false;
	if (answer->error)
		segment_forget(server);
	r = answer->error == ENOSPC ? room_wanted(rule) : -answer->error;
	if (answer->error && r == 0)
		return 0;
	if (r >= 0) {
		publish_have_memory(rule);
		load_have_memory(rule);
		return 0;
	}
	tarn_fail(answer->error, "%.*s", (int)(m->size - sizeof(*answer)),
		answer->text);
	publish_no_memory(rule, answer->error);
	load_no_memory(rule, answer->error);
	return 0;
}

static int loader_is(struct server *server, const struct msg_loader *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);

	if (!rule)
		return -EPROTO;
	rule->loader_wanted = false;
	return loader_come(rule, from, wire_take_fd(m, 0), wire_take_fd(m, 1));
}

static int left(struct server *server, const struct msg_loader *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);

	return rule ? loader_left(rule, from, wire_take_fd(m, 0)) : -EPROTO;
}

/* ---- the keeper speaks ---------------------------------------------- */

static int client_come(struct server *server, const struct msg_client *from,
	struct wire_message *m)
{
	struct rule *rule = rule_find(server, from->rule);

	server->idle_since = 0;
	if (!rule) {
		/* Its control region could not be mapped. Nobody will hear it:
		 * it is told by the end of its connection, and forgotten. */
		_cleanup_fd_ int sock = wire_take_fd(m, 0);

		shutdown(sock, SHUT_RDWR);
		server_tell_keeper(
			server, D_CLIENT_GONE, from, sizeof(*from), NULL, 0);
		return -EPROTO;
	}
	return client_new(rule, from, wire_take_fd(m, 0), wire_take_fd(m, 1));
}

/* All else of a pool stays as it is: keeper_reload.c. */
static void take_size(struct rule *rule, const struct config *config)
{
	for (uint32_t i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, rule->spec.name) == 0)
			rule->spec.limit = config->pools[i].limit;
}

static void take_settings(
	struct server *server, const struct msg_settings *settings)
{
	server->start.options.idle_ns = settings->idle_ns;
	*server->start.config = settings->config;
	quota_set_all(server);
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		if (rule->spec.name[0])
			take_size(rule, &settings->config);
}

/* Everything was told: the books first, then those who ask. */
static int taken_over(struct server *server)
{
	int r = server_rebuild(server);
	struct client *client, *next;

	if (r < 0)
		return r;
	server->serving = true;
	server_pressure_begin(server);
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		for (client = rule->clients; client; client = next) {
			next = client->next;
			client_resume(client);
		}
	return 0;
}

static int take_message(struct server *server, struct wire_message *m)
{
	switch (m->type) {
	case D_RULE:
		return rule_come(server, (struct msg_rule *)m->body, m);
	case D_RULE_READY:
		return rule_ready(server, (struct msg_rule *)m->body, m);
	case D_CLIENT:
		return client_come(server, (struct msg_client *)m->body, m);
	case D_SEGMENT:
		return segment_come(server, (struct msg_segment *)m->body, m);
	case D_SEGMENT_DROPPED:
		return segment_dropped(server, (struct msg_segment *)m->body);
	case D_SEGMENT_MAP:
		return segment_offered(
			server, (struct msg_segment *)m->body, m);
	case D_KEPT:
		return server_take_kept(server, m);
	case D_GROWN:
		return grown(server, m);
	case D_LOADER_IS:
		return loader_is(server, (struct msg_loader *)m->body, m);
	case D_LOADER_LEFT:
		return left(server, (struct msg_loader *)m->body, m);
	case D_TAKEN_OVER:
		return taken_over(server);
	case D_ACCEPTS_DRAINED:
		drained(server, (struct msg_drained *)m->body);
		return 0;
	case D_SETTINGS:
		take_settings(server, (struct msg_settings *)m->body);
		return 0;
	case D_TERMINATE:
		log_info("drain", log_u64("loads", server->n_active));
		server->draining = true;
		return 0;
	default:
		return tarn_fail(EPROTO, "the keeper sent message %u", m->type);
	}
}

/* One that cannot be followed is told, not fatal: the keeper is sound, some
 * resource was short. But who does not know all that there is must not serve:
 * what it did not hear of would be free to it. */
static void follow(struct server *server, struct wire_message *m)
{
	if (take_message(server, m) >= 0)
		return;
	log_error("message_failed", log_u64("type", m->type),
		log_text("error", tarn_fail_message()));
	if (!server->serving)
		_exit(1);
}

static void on_keeper(void *arg, unsigned ready)
{
	struct server *server = arg;
	int r = 0;

	if (ready & LOOP_WRITE) {
		r = wire_flush(server->writer, server->start.sock);
		if (r == 1)
			loop_change(server->keeper_watch, LOOP_READ);
		/* Out of something, for a moment; what is said is heard. */
		if (r < 0 && r != -EPIPE)
			usleep(1000);
		r = 0;
	}
	/* A message that came without its descriptors, because there were none
	 * left, is lost; the keeper is not. */
	while (r >= 0 || r == -ETOOMANYREFS) {
		struct wire_message m = {0};

		if (r < 0)
			log_error("message_failed",
				log_text("error", tarn_fail_message()));
		if (r < 0 && !server->serving)
			_exit(1);
		r = wire_receive(server->reader, server->start.sock, NULL, &m);
		if (r == 1) {
			follow(server, &m);
			wire_message_clear(&m);
		}
	}
	/* Without memory it lies there still: the loop tells of it. */
	if (r != -EAGAIN && r != -ENOBUFS && r != -ENOMEM) {
		log_error("keeper_gone");
		loop_quit(server->loop);
		return;
	}
	server_look_around(server);
}

/* A load takes two descriptors here, and two more while its loader hangs; a
 * quarter of all is for them. A sixteenth is for lease pages that clients ask
 * for. */
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
	r = loop_new(&server.loop);
	if (r == 0)
		r = wire_reader_new(&server.reader);
	if (r == 0)
		r = wire_writer_new(KEEPER_QUEUE_MAX, &server.writer);
	if (r == 0)
		r = loop_watch(server.loop, start->sock, LOOP_READ, on_keeper,
			&server, &server.keeper_watch);
	if (r == 0)
		r = expiry_new(&server);
	if (r == 0) {
		loop_between(server.loop, between_turns, &server);
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
	pressure_free(server.pressure);
	kept_free(&server.kept);
	expiry_free(&server);
	loop_unwatch(server.keeper_watch);
	wire_reader_free(server.reader);
	wire_writer_free(server.writer);
	loop_free(server.loop);
	return 0;
}
