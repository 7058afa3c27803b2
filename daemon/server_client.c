/* SPDX-License-Identifier: MIT */
/*
 * One client: its messages, its replies, its end.
 *
 * What it does wrong costs it the connection or gets it a sentence; nobody
 * else notices. What the daemon is short of costs it no more than that request:
 * with its connection it would lose all that it has open.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"

static void on_client(void *arg, unsigned ready);

static void close_for(void *arg, int fd)
{
	closer_close(arg, fd);
}

void client_join(struct client *client, struct rule *rule)
{
	client->rule = rule;
	client->here = &rule->clients;
	client->next = rule->clients;
	if (client->next)
		client->next->here = &client->next;
	rule->clients = client;
}

void client_leave(struct client *client)
{
	*client->here = client->next;
	if (client->next)
		client->next->here = client->here;
}

/* The keeper has the socket too: the peer waits until that is told. Not in a
 * take-over, which begins again. */
static void turn_away(
	struct server *server, const struct msg_client *from, int sock)
{
	if (!server->serving)
		return;
	shutdown(sock, SHUT_RDWR);
	server_tell_keeper(server, D_CLIENT_GONE, from, sizeof(*from), NULL, 0);
}

static void take_in(
	struct client *client, struct rule *rule, const struct msg_client *from)
{
	client->home = rule_of_user(rule->server, from->uid);
	if (!client->home)
		client->home = rule;
	client->number = from->number;
	client->uid = from->uid;
	client->gid = from->gid;
	client->pid = from->pid;
	client->version = from->version;
	client->seen = from->flags & CLIENT_SEEN;
	client->came_at = client->heard_at = loop_now();
	client_join(client, rule);
	rule->server->n_clients++;
	share_join(client);
	client_judge(client);
}

/* Its leases, and both ways of its socket. */
static int connect_to(struct client *client)
{
	struct server *server = client->rule->server;
	int r = leases_open(client);

	if (r == 0)
		r = wire_reader_new_beside(server->reader, &client->reader);
	if (r == 0)
		r = wire_writer_new(CLIENT_QUEUE_MAX, &client->writer);
	if (r < 0)
		return r;
	wire_writer_limit_answers(client->writer, CLIENT_ANSWERS_MAX);
	/* One batch of segments, which is as much as it asks for before it
	 * reads. */
	wire_writer_limit_fds(client->writer, WIRE_FDS_MAX);
	/* A client's descriptors are never closed in this thread. */
	wire_reader_set_close(client->reader, close_for, client->home->closer);
	return loop_watch(server->loop, client->sock, 0, on_client, client,
		&client->watch);
}

int client_new(struct rule *rule, const struct msg_client *from, int sock,
	int lease_fd)
{
	struct client *client = calloc(1, sizeof(*client));
	int r = client ? 0 : tarn_fail(ENOMEM, "out of memory");

	if (r < 0) {
		turn_away(rule->server, from, sock);
		fd_close(sock);
		fd_close(lease_fd);
		return r;
	}
	client->sock = sock;
	client->pid_fd = -1;
	client->lease_fd = lease_fd;
	take_in(client, rule, from);
	r = connect_to(client);
	if (r == 0) {
		process_watch(client, from);
		client_listen(client);
	} else if (rule->server->serving || r == -EPROTO) {
		/* EPROTO: it wrote rubbish where its leases are, which
		 * concerns nobody else. */
		client_drop(client, tarn_fail_message());
		return rule->server->serving ? r : 0;
	}
	return r;
}

/* Not before its rule's region can be handed out, and everything is known. */
void client_listen(struct client *client)
{
	if (client->rule->table_fd >= 0 && client->rule->server->serving)
		loop_change(client->watch, LOOP_READ);
}

void client_free(struct client *client)
{
	struct rule *rule = client->rule;
	struct msg_client gone = {.number = client->number};

	client_leave(client);
	share_leave(client);
	load_orphan(client);
	publish_orphan(client);
	loop_unwatch(client->watch);
	/* The keeper holds a copy of the socket; the peer shall see the end
	 * now. */
	shutdown(client->sock, SHUT_RDWR);
	fd_close(client->sock);
	process_unwatch(client);
	cache_hear_last(client);
	leases_close(client);
	fd_close(client->lease_fd);
	quota_return(client->home, QUOTA_REQUESTS, client->held);
	wire_reader_free(client->reader);
	wire_writer_free(client->writer);
	rule->server->n_clients--;
	rule->server->n_short -= client->is_short;
	rule->server->n_left_behind -= client->left_behind;
	free(client);
	server_tell_keeper(
		rule->server, D_CLIENT_GONE, &gone, sizeof(gone), NULL, 0);
	rule->channels_left = true;
	reap_unnamed(rule);
}

void client_drop(struct client *client, const char *why)
{
	struct server *server = client->rule->server;

	if (why)
		log_warning("client_dropped", log_i64("pid", client->pid),
			log_u64("uid", client->uid), log_text("why", why));
	leases_tell(client);
	client_free(client);
	server_look_around(server);
}

/* ---- hearing ---------------------------------------------------------- */

static void give_fds_to_closer(struct client *client, struct wire_message *m)
{
	for (int i = 0; i < m->n_fds; i++)
		closer_close(client->home->closer, wire_take_fd(m, i));
}

/* One message an event, so that nobody keeps the server to himself. */
static int hear(struct client *client)
{
	struct wire_message m = {0};
	int r = wire_receive(client->reader, client->sock, request_largest, &m);

	/* To end the connection would end its leases, and free what its
	 * process is reading: what it says waits until there is memory. */
	if (r == -ENOBUFS)
		return -EAGAIN;
	if (r == 1) {
		client->heard_at = loop_now();
		r = request_take(client, &m);
		if (r < 0)
			client_refuse(client, m.serial, r);
		/* Nonsense ends the connection, a refusal does not. */
		if (r != -EPROTO)
			r = 0;
	} else if (r == -ENOMEM) {
		/* This request fails, and no other. */
		client_refuse(client, m.serial, r);
		r = 0;
	} else if (r == -EMFILE) {
		client_refuse(client, m.serial,
			tarn_fail(EMFILE,
				"the daemon can have no more descriptors open "
				"to take what was sent (ulimit -n of the "
				"daemon)"));
		r = 0;
	} else if (r < 0 && r != -EAGAIN && r != -EPIPE) {
		/* No frame of ours, so no serial: it answers everything. */
		client_refuse(client, 0, r);
	}
	give_fds_to_closer(client, &m);
	wire_message_clear(&m);
	return r;
}

/* Too much that is half said or unread, with what his user's other
 * connections have of it: this one goes. */
static int hoards(struct client *client)
{
	int r = quota_messages(client);

	if (r < 0)
		client_refuse(client, 0, r);
	return r;
}

/* Of one user; with so few that more users than one may have them. */
static unsigned unclosed_max(const struct server *server)
{
	return MIN(1024u, server->loads_max);
}

/* Files that block when they are closed are only forgotten with the process:
 * there is an end to how many one user may leave us with. */
static int check_closes(const struct client *client, bool *ret_wait)
{
	unsigned max = unclosed_max(client->rule->server);

	if (!closer_is_stuck(client->home->closer, max, ret_wait))
		return 0;
	return tarn_fail(EPROTO,
		"%u descriptors that uid %u has sent cannot be closed, since "
		"their file system does not answer",
		max, client->uid);
}

static void on_client(void *arg, unsigned ready)
{
	struct client *client = arg;
	struct server *server = client->rule->server;
	uint64_t began;
	bool wait;
	int r;

	if (client->gone)
		return client_drop(client,
			ready & LOOP_HANGUP ? NULL
					    : "it does not read its replies");
	if (share_is_spent(client))
		return;
	r = check_closes(client, &wait);
	if (r < 0)
		return client_drop(client, tarn_fail_message());
	if (wait)
		return;
	began = loop_now();
	if (ready & LOOP_WRITE)
		r = client_flush(client);
	if (r >= 0 && ready & (LOOP_READ | LOOP_HANGUP))
		r = hear(client);
	if (r >= 0 || r == -EAGAIN)
		r = hoards(client);
	share_spend(client, began);
	if (r == -EPIPE || r == -ECONNRESET)
		return client_drop(client, NULL);
	if (r < 0 && r != -EAGAIN)
		return client_drop(client, tarn_fail_message());
	server_look_around(server);
}
