/* SPDX-License-Identifier: MIT */
/*
 * The server's side of the talk with the keeper.
 *
 * Every message from the keeper is complete in itself and in order: a rule
 * comes before its clients, its segments before the answer to the growth that
 * made them.
 */
#include "daemon/server.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

/* Is who says it told that it could not be said? All else is said once, and
 * the keeper waits for it, or counts by it. */
static bool may_fail(uint16_t type)
{
	switch (type) {
	case D_GROW:
	case D_LOADER:
	case D_DRAIN_ACCEPTS:
	case D_BYE:
	case D_KEEP:
	case D_CLIENT_RULE:
	case D_CLIENT_SPEAKS:
		return true;
	default:
		return false;
	}
}

/* That the keeper is gone is noticed where it is heard. */
int server_tell_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r;

	if (wire_try(server->writer, server->start.sock, type, 0, body, size,
		    fds, n_fds))
		return 0;
	r = wire_push(server->writer, type, 0, body, size, fds, n_fds);
	if (r < 0) {
		log_error("keeper_deaf", log_u64("type", type),
			log_text("error", tarn_fail_message()));
		/* The next one is told what the keeper has. */
		if (!may_fail(type))
			_exit(1);
		return r;
	}
	/* What is queued will be sent, so it was said. */
	wire_flush(server->writer, server->start.sock);
	server_spare_watch(server);
	return 0;
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
		server_drained(server, (struct msg_drained *)m->body);
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

/* One message. 1: there was one; 0: part of one, or nothing for now. */
static int hear_one(struct server *server, bool ends)
{
	struct wire_message m = {0};
	int r;

	/* At its end there is nothing left that could be missed. */
	if (!server_spare_take(server) && !ends)
		return -EAGAIN;
	server_spare_give(server);
	r = wire_receive(server->reader, server->start.sock, NULL, &m);
	if (r == 1) {
		follow(server, &m);
		wire_message_clear(&m);
	}
	/* It came without its descriptors, of which the system has none left,
	 * or there was no memory for it. It is lost, and nobody says it
	 * again; but the next one is told what there is. */
	if (r == -EMFILE || r == -ENOMEM) {
		log_error("message_failed",
			log_text("error", tarn_fail_message()));
		_exit(1);
	}
	return r;
}

void server_hear_keeper(void *arg, unsigned ready)
{
	struct server *server = arg;
	int r = 0;

	if (ready & LOOP_WRITE) {
		r = wire_flush(server->writer, server->start.sock);
		/* Out of something, for a moment; what is said is heard. */
		if (r < 0 && r != -EPIPE)
			usleep(1000);
		r = 0;
	}
	while (r >= 0)
		r = hear_one(server, ready & LOOP_HANGUP);
	server_spare_take(server);
	server_spare_watch(server);
	/* Without memory it lies there still: the loop tells of it. */
	if (r != -EAGAIN && r != -ENOBUFS) {
		log_error("keeper_gone");
		loop_quit(server->loop);
		return;
	}
	server_look_around(server);
}
