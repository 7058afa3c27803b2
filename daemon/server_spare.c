/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that are held back for what the keeper says.
 *
 * A message that comes when a process has no descriptor left comes without
 * those that it carried, and nobody says it again: the memory, the loader or
 * the client that it brought would be waited for for ever. Clients can have
 * all that there are for a while, by what they publish, by messages half said.
 *
 * So as many as a message may bring are held back. They are given up for one,
 * and taken again after it; as long as they cannot be, the next one waits in
 * the socket. But whoever has them may wait for just that message. So this goes
 * on for a while only. Then the user goes who has the most of them in messages
 * that he has half said, since nothing but he ends that, and then the next one.
 * Where nobody has any, the server ends, and all that it was sent with it: the
 * next one is told what there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "daemon/server.h"

/* Picked: a worker and a closer are done by then; and who dies of this does not
 * die so often that the keeper gives up (five times in ten seconds). */
#define DEAF_NS 3000000000ull
#define LOOK_NS 10000000ull

bool server_spare_take(struct server *server)
{
	while (server->n_spares < SERVER_SPARES) {
		int fd = fd_dup(server->start.sock);

		if (fd < 0)
			break;
		server->spares[server->n_spares++] = fd;
	}
	if (server->n_spares == SERVER_SPARES)
		server->deaf_since = 0;
	else if (!server->deaf_since)
		server->deaf_since = loop_now();
	return !server->deaf_since;
}

void server_spare_give(struct server *server)
{
	while (server->n_spares)
		fd_close(server->spares[--server->n_spares]);
}

void server_spare_watch(struct server *server)
{
	unsigned want = server->deaf_since ? 0 : LOOP_READ;

	if (!wire_writer_empty(server->writer))
		want |= LOOP_WRITE;
	if (server->keeper_watch)
		loop_change(server->keeper_watch, want);
}

/* ---- half said ------------------------------------------------------- */

/* The account of who has the most; NULL: nobody has any. */
static struct rule *find_most(const struct server *server)
{
	struct rule *most = NULL;

	for (struct rule *rule = server->rules; rule; rule = rule->next)
		rule->n_half_fds = 0;
	for (struct rule *rule = server->rules; rule; rule = rule->next)
		for (struct client *c = rule->clients; c; c = c->next) {
			c->home->n_half_fds += wire_reader_held_fds(c->reader);
			if (c->home->n_half_fds &&
				(!most ||
					c->home->n_half_fds > most->n_half_fds))
				most = c->home;
		}
	return most;
}

/* From the first on after each: nobody says that only one went. */
static void drop_half_said(struct rule *rule, const struct rule *home)
{
	struct client *c = rule->clients;

	while (c) {
		if (c->home != home || !wire_reader_held_fds(c->reader)) {
			c = c->next;
			continue;
		}
		client_refuse(c, 0,
			tarn_fail(EMFILE,
				"a message half said keeps descriptors that "
				"the daemon needs (ulimit -n of the daemon)"));
		client_drop(c, tarn_fail_message());
		c = rule->clients;
	}
}

/* False: nobody has any. */
static bool drop_most(struct server *server)
{
	const struct rule *home = find_most(server);

	for (struct rule *rule = server->rules; rule && home; rule = rule->next)
		drop_half_said(rule, home);
	return home;
}

/* ---- between turns --------------------------------------------------- */

uint64_t server_spare_look(struct server *server, uint64_t now)
{
	if (!server->deaf_since)
		return 0;
	if (server_spare_take(server)) {
		server_spare_watch(server);
		return 0;
	}
	/* They are closed in another thread: after a while it is the next. */
	if (server->serving && now - server->deaf_since >= DEAF_NS &&
		drop_most(server))
		server->deaf_since = now;
	/* What there is to be told only takes more. */
	if (!server->serving || now - server->deaf_since >= DEAF_NS) {
		log_error("out_of_descriptors",
			log_u64("clients", server->n_clients),
			log_u64("loads", server->n_active),
			log_u64("publications", server->n_publishes));
		_exit(1);
	}
	return now + LOOK_NS;
}
