/* SPDX-License-Identifier: MIT */
/*
 * One client: its messages, its replies, its end.
 *
 * A client's fault costs it the connection or the request; no other client is
 * affected. A shortage of the daemon costs it no more than that request: with
 * its connection it would lose all that it has open.
 */
#include "daemon/server/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

/* Picked: the calls of a client wait for ten seconds. */
#define TELL_NS 1000000000ull

static void on_client(void *arg, unsigned ready);

/* A client's descriptors are never closed in this thread. */
static void close_for(void *arg, int fd)
{
	const struct client *client = arg;

	closer_close(client->user->closer, fd);
}

/* Before a long message takes memory. A request that is sent again may have
 * been done: it must be answered so, even when its user has no quota left. If
 * it was not done, it is charged like any other (quota_charge_message). */
static int admit(void *arg, uint32_t size, bool again)
{
	const struct client *client = arg;

	if (again)
		return 0;
	/* Then none of it is read. */
	if (client->turned_away)
		return -EDQUOT;
	return quota_check_message(client->user, size);
}

void client_join(struct client *client, struct domain *domain)
{
	client->domain = domain;
	client->here = &domain->clients;
	client->next = domain->clients;
	if (client->next)
		client->next->here = &client->next;
	domain->clients = client;
}

void client_leave(struct client *client)
{
	*client->here = client->next;
	if (client->next)
		client->next->here = client->here;
}

/* The keeper has the socket too: the peer waits until the keeper has closed it.
 * Not in a take-over, which begins again. */
static void turn_away(
	struct server *server, const struct msg_client *from, int sock)
{
	if (!server->serving)
		return;
	shutdown(sock, SHUT_RDWR);
	server_send_keeper(server, D_CLIENT_GONE, from, sizeof(*from), NULL, 0);
}

static void take_in(struct client *client, struct domain *domain,
	const struct msg_client *from)
{
	client->user = domain_of_user(domain->server, from->uid);
	if (!client->user)
		client->user = domain;
	client->number = from->number;
	client->uid = from->uid;
	client->gid = from->gid;
	client->pid = from->pid;
	client->version = from->version;
	client->seen = from->flags & CLIENT_SEEN;
	client->came_at = client->last_message_at = loop_now();
	client_join(client, domain);
	domain->server->n_clients++;
	quantum_join(client);
	client_judge(client);
}

/* Its leases, and both ways of its socket. */
static int connect_to(struct client *client)
{
	struct server *server = client->domain->server;
	int r = leases_open(client);

	if (r == 0)
		r = wire_writer_new(CLIENT_QUEUE_MAX, &client->writer);
	if (r < 0)
		return r;
	wire_writer_in_parts(client->writer);
	return loop_watch(server->loop, client->sock, 0, on_client, client,
		&client->watch);
}

int client_new(struct domain *domain, const struct msg_client *from, int sock,
	int lease_fd)
{
	struct client *client = calloc(1, sizeof(*client));
	int r = client ? 0 : tarn_fail(ENOMEM, "out of memory");

	if (r < 0) {
		turn_away(domain->server, from, sock);
		fd_close(sock);
		fd_close(lease_fd);
		return r;
	}
	client->sock = sock;
	client->pid_fd = -1;
	client->lease_fd = lease_fd;
	client->reader = (struct wire_reader) {.limit = request_largest,
		.admit = admit,
		.close = close_for,
		.arg = client,
		.leaves_long = true,
		.spare = &domain->server->spare};
	take_in(client, domain, from);
	r = connect_to(client);
	if (r == 0) {
		process_watch(client, from);
		client_listen(client);
	} else if (domain->server->serving || r == -EPROTO) {
		/* EPROTO: the client wrote invalid data where its leases are,
		 * which affects no other client. */
		client_drop(client, tarn_fail_message());
		return domain->server->serving ? r : 0;
	}
	return r;
}

/* Not before everything is known. */
void client_listen(struct client *client)
{
	if (client->domain->server->serving)
		loop_change(client->watch, LOOP_READ);
}

void client_free(struct client *client)
{
	struct domain *domain = client->domain;
	struct msg_client gone = {.number = client->number};
	bool unread;

	client_leave(client);
	quantum_leave(client);
	load_orphan(client);
	publish_orphan(client);
	arrival_orphan(client);
	check_orphan(client);
	completions_free(client);
	loop_unwatch(client->watch);
	/* The keeper holds a copy of the socket; the peer shall see the end
	 * now. When the daemon ends, its last act is to let the peer see it:
	 * that is the keeper's. */
	if (!domain->server->drain.leaving)
		shutdown(client->sock, SHUT_RDWR);
	unread = in_flight_outlives(client);
	if (!unread)
		fd_close(client->sock);
	process_unwatch(client);
	cache_note_last(client);
	leases_close(client);
	fd_close(client->lease_fd);
	quota_return(&client->user->account, QUOTA_REQUESTS, client->held);
	wire_writer_free(client->writer);
	domain->server->n_clients--;
	client_end_pauses(client);
	free(client);
	if (!unread && !domain->server->drain.leaving)
		server_send_keeper(domain->server, D_CLIENT_GONE, &gone,
			sizeof(gone), NULL, 0);
	domain->channels.left = true;
	collect_unnamed(domain);
}

void client_drop(struct client *client, const char *why)
{
	if (why && quota_may_log(client->user))
		log_warning("client_dropped", log_i64("pid", client->pid),
			log_u64("uid", client->uid), log_text("why", why));
	leases_send(client);
	client_free(client);
}

/* ---- reading ---------------------------------------------------------- */

static int take_message(struct client *client, struct wire_message *ret)
{
	nudge_begin(&client->domain->server->nudge);
	return wire_receive(client->sock, &client->reader, ret);
}

/* Only this request fails. If it was sent again, an earlier server may have
 * done it, which the rest of the message does not show. */
static void refuse_lost(
	struct client *client, const struct wire_message *m, int error)
{
	const char *look = m->again ? "; a server before this one may have "
				      "done it: look before you ask for it "
				      "once more"
				    : "";

	if (client->turned_away && !m->again)
		error = in_flight_refusal(client);
	else if (error == -EMFILE)
		error = tarn_fail(EMFILE,
			"the daemon can have no more descriptors open to take "
			"what was sent (ulimit -n of the daemon)%s",
			look);
	else if (error == -ENOMEM)
		error = tarn_fail(ENOMEM,
			"the daemon is out of memory to take what was sent%s",
			look);
	client_refuse(client, m->serial, error);
}

int client_receive(struct client *client, struct wire_message *m, int r)
{
	if (r == 1) {
		client->last_message_at = loop_now();
		r = request_take(client, m);
		if (r < 0)
			client_refuse(client, m->serial, r);
		/* Nonsense ends the connection, a refusal does not. */
		if (r != -EPROTO)
			r = 0;
	} else if (r == -ENOMEM || r == -EDQUOT || r == -EMFILE) {
		refuse_lost(client, m, r);
		r = 0;
	} else if (r < 0 && r != -EAGAIN && r != -EPIPE) {
		/* No message of ours, so no serial: it answers everything. */
		client_refuse(client, 0, r);
	}
	client->spared = client->turned_away;
	client->turned_away = false;
	client->held_since = 0;
	wire_message_close(&client->reader, m);
	if (leases_were_notified(client))
		collect_unnamed(client->domain);
	return r;
}

/* One message an event, so that no client keeps the server busy. */
static int receive_message(struct client *client)
{
	struct wire_message m = {0};
	int r = take_message(client, &m);

	/* Ending the connection would end its leases, and free the bytes that
	 * its process is reading: its messages wait until there is memory. */
	if (r == -ENOBUFS) {
		client_pause(client);
		return -EAGAIN;
	}
	client_readable(client);
	if (r == 1 && m.unread)
		r = arrival_begin(client, &m);
	return r == 0 ? 0 : client_receive(client, &m, r);
}

void client_received(struct client *client, uint64_t began, int r)
{
	quantum_spend(client->user, began);
	if (r == -EPIPE || r == -ECONNRESET)
		return client_drop(client, NULL);
	if (r < 0 && r != -EAGAIN)
		client_drop(client, tarn_fail_message());
}

/* Of one user; with so few that more users than one may have them. */
static unsigned unclosed_max(const struct server *server)
{
	return MIN(1024u, server->limits.loads);
}

/* Files that block when they are closed are only forgotten with the process:
 * there is an end to how many one user may leave us with. */
static int check_closes(const struct client *client, bool *ret_wait)
{
	unsigned max = unclosed_max(client->domain->server);

	if (!closer_is_stuck(client->user->closer, max, ret_wait))
		return 0;
	return tarn_fail(EPROTO,
		"%u descriptors that uid %u has sent cannot be closed, since "
		"their file system does not answer",
		max, client->uid);
}

/* Its calls wait as long as the server is at work. A client that has answers to
 * read will know it by these. */
static void tell_held(struct client *client)
{
	uint64_t now = loop_now();

	if (now - client->told_at < TELL_NS ||
		!wire_writer_empty(client->writer))
		return;
	client->told_at = now;
	client_reply(client, WIRE_OUT(WIRE_PONG, 0, NULL, 0));
}

/* Must its next message stay in its socket for now? */
static bool holds(struct client *client)
{
	client->turned_away = false;
	if (in_flight_holds(client))
		return true;
	if (!admission_holds(client)) {
		client->held_since = 0;
		return false;
	}
	if (!client->held_since)
		client->held_since = loop_now();
	client->turned_away = in_flight_turns_away(client);
	if (client->turned_away)
		return false;
	tell_held(client);
	return true;
}

static void on_client(void *arg, unsigned ready)
{
	struct client *client = arg;
	uint64_t began = loop_now();
	bool wait;
	int r;

	if (client->gone)
		return client_drop(client,
			ready & LOOP_HANGUP ? NULL
					    : "it does not read its replies");
	if (quantum_is_spent(client) || arrival_holds(client))
		return;
	r = check_closes(client, &wait);
	if (r < 0)
		return client_drop(client, tarn_fail_message());
	/* Its messages stay in the socket meanwhile, which would be reported
	 * without end; so would the end of a client that is gone, and whose
	 * last requests no process waits for. */
	wait = wait || (ready & (LOOP_READ | LOOP_HANGUP) && holds(client));
	if (wait && ready & LOOP_HANGUP)
		return client_drop(client, NULL);
	if (wait) {
		client_pause(client);
		return quantum_spend(client->user, began);
	}
	if (ready & LOOP_WRITE)
		r = client_flush(client);
	if (r >= 0 && ready & (LOOP_READ | LOOP_HANGUP))
		r = receive_message(client);
	client_received(client, began, r);
}
