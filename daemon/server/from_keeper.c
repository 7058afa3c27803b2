/* SPDX-License-Identifier: MIT */
/*
 * Messages from the keeper: each is given to the file that handles it.
 *
 * Every message from the keeper is complete in itself and in order: a domain
 * comes before its clients, its segments before the answer to the growth that
 * made them. D_TERMINATE alone may come before others that were sent earlier:
 * it changes nothing that they are about.
 */
#include "daemon/server/server.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "daemon/server/storage/pressure_relief.h"

/* ---- memory ---------------------------------------------------------- */

static int segment(struct server *server, const struct msg_segment *from,
	struct wire_message *m)
{
	int r = segment_come(server, from, m);
	struct domain *domain = domain_find(server, from->domain);

	if (r >= 0 && domain && domain->growth.growing)
		load_memory_comes(domain, from->size);
	return r;
}

static int grown(struct server *server, const struct wire_message *m)
{
	const struct msg_grown *answer = (const struct msg_grown *)m->body;
	struct domain *domain = domain_find(server, answer->domain);
	int r = 0;

	if (!domain)
		return -EPROTO;
	if (answer->error) {
		segment_forget(server);
		r = tarn_fail(answer->error, "%.*s",
			(int)(m->size - sizeof(*answer)), answer->text);
	}
	memory_grown(domain, r, answer);
	return 0;
}

static int loader_is(struct server *server, const struct msg_loader *from,
	struct wire_message *m)
{
	struct domain *domain = domain_find(server, from->domain);

	if (!domain)
		return -EPROTO;
	domain->loading.loader_wanted = false;
	return loader_come(
		domain, from, wire_take_fd(m, 0), wire_take_fd(m, 1));
}

static int left(struct server *server, const struct msg_loader *from,
	struct wire_message *m)
{
	struct domain *domain = domain_find(server, from->domain);

	return domain ? loader_left(domain, from, wire_take_fd(m, 0)) : -EPROTO;
}

/* ---- the keeper speaks ---------------------------------------------- */

static int client_come(struct server *server, const struct msg_client *from,
	struct wire_message *m)
{
	struct domain *domain = domain_find(server, from->domain);

	server->idle.since = 0;
	if (!domain) {
		/* Its control region could not be mapped. The server does not
		 * read from it: it ends the connection and forgets it. */
		_cleanup_fd_ int sock = wire_take_fd(m, 0);

		shutdown(sock, SHUT_RDWR);
		server_send_keeper(
			server, D_CLIENT_GONE, from, sizeof(*from), NULL, 0);
		return -EPROTO;
	}
	return client_new(domain, from, wire_take_fd(m, 0), wire_take_fd(m, 1));
}

/* All else of a pool stays as it is: keeper/reload.c. */
static void take_size(struct domain *domain, const struct config *config)
{
	for (uint32_t i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, domain->spec.name) == 0)
			domain->spec.limit = config->pools[i].limit;
}

static void take_settings(
	struct server *server, const struct msg_settings *settings)
{
	server->start.options.idle_ns = settings->idle_ns;
	*server->start.config = settings->config;
	quota_set_all(server);
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		if (domain->spec.name[0])
			take_size(domain, &settings->config);
}

/* Everything was received: the books first, then the clients. */
static int taken_over(struct server *server)
{
	int r = server_rebuild(server);
	struct client *client, *next;

	if (r < 0)
		return r;
	server->serving = true;
	pressure_relief_begin(server);
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		for (client = domain->clients; client; client = next) {
			next = client->next;
			client_resume(client);
		}
	return 0;
}

static int take_message(struct server *server, struct wire_message *m)
{
	switch (m->type) {
	case D_DOMAIN:
		return domain_come(server, (struct msg_domain *)m->body, m);
	case D_CLIENT:
		return client_come(server, (struct msg_client *)m->body, m);
	case D_SEGMENT:
		return segment(server, (struct msg_segment *)m->body, m);
	case D_SEGMENT_DROPPED:
		return segment_dropped(server, (struct msg_segment *)m->body);
	case D_SEGMENT_MAP:
		return segment_offered(
			server, (struct msg_segment *)m->body, m);
	case D_STORED_FD:
		return server_restore_fd(server, m);
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
		log_info("drain",
			log_u64("loads",
				server->admissions.all.n[ADMISSION_LOADS]));
		server->drain.draining = true;
		return 0;
	default:
		return tarn_fail(EPROTO, "the keeper sent message %u", m->type);
	}
}

/* A message that cannot be handled is logged, not fatal: the keeper is sound,
 * some resource was short. But a server that does not know the whole state must
 * not serve: it would take memory that it does not know of for free. */
static void follow(struct server *server, struct wire_message *m)
{
	if (take_message(server, m) >= 0)
		return;
	log_error("message_failed", log_u64("type", m->type),
		log_text("error", tarn_fail_message()));
	if (!server->serving)
		_exit(1);
}

/* One message. 1: there was one. */
static int receive_one(struct server *server, bool ends)
{
	struct wire_message m = {0};
	int r;

	/* At its end there is nothing left that could be missed. */
	if (!fd_reserve_take(server) && !ends)
		return -EAGAIN;
	fd_reserve_give(server);
	r = wire_receive(server->start.sock, NULL, &m);
	if (r == 1) {
		follow(server, &m);
		wire_message_clear(&m);
	}
	/* It came without its descriptors, of which the system has none left,
	 * or there was no memory for it. It is lost, and is not sent again;
	 * but the next server gets the whole state. */
	if (r == -EMFILE || r == -ENOMEM) {
		log_error("message_failed",
			log_text("error", tarn_fail_message()));
		_exit(1);
	}
	return r;
}

void server_receive_keeper(void *arg, unsigned ready)
{
	struct server *server = arg;
	int r = 0;

	if (ready & LOOP_WRITE) {
		r = wire_flush(server->writer, server->start.sock);
		/* Short of something for a moment; the message is kept. */
		if (r < 0 && r != -EPIPE)
			usleep(1000);
		r = 0;
	}
	while (r >= 0)
		r = receive_one(server, ready & LOOP_HANGUP);
	fd_reserve_take(server);
	fd_reserve_watch(server);
	/* Without memory it stays queued: the loop reports it again. */
	if (r != -EAGAIN && r != -ENOBUFS) {
		log_error("keeper_gone");
		loop_quit(server->loop);
	}
}
