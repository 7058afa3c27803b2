/* SPDX-License-Identifier: MIT */
/*
 * Descriptors in flight to clients.
 *
 * The kernel counts what lies unread in sockets for the user that has sent it,
 * keeper and server together, and refuses to send more than RLIMIT_NOFILE,
 * unless the sender has CAP_SYS_RESOURCE or CAP_SYS_ADMIN. One user whose
 * clients ask and do not read could use up all of that, and then no client
 * would be let in, and none would get memory.
 *
 * So at most a quarter is in flight to clients; the keeper and the loaders have
 * the rest. Of that quarter a user may have as much as the others leave
 * untaken: alone it gets half of it, and any number of users that do not read
 * leave room for one more. A user that has nothing in flight is always sent one
 * answer. A request beyond that is not taken from its socket, nor is a second
 * hello while descriptors of that client are unread. That is no deadlock, as a
 * client that waits for an answer reads.
 *
 * Nothing tells what a client has read, but a socket whose contents are all
 * read; then all of its descriptors are. A client that is dropped leaves its
 * descriptors in the socket for as long as its peer keeps that open. It stays
 * among the connections of its user until then, or a user could have any number
 * in flight by having its connections ended.
 *
 * A server that dies takes its counts with it. What its clients had unread is
 * not guessed from the bytes in their sockets, where the news of each server
 * lies, too, and a forked child may never read it: its user would be kept out.
 * So servers that die one after the other can let more be in flight than the
 * kernel allows, four of them at least. Then whatever needs a descriptor to be
 * sent waits until others have read theirs, or is refused (to_keeper.c), and all
 * else goes on.
 *
 * Clients that run as the daemon's own user fill the same account by what they
 * send. Requests that wait in their sockets for their turn could wait for ever,
 * if the server needs memory for those before them, which the keeper can no
 * longer send. So while the kernel refuses a descriptor, requests of that user
 * are taken from their sockets and refused, with an error that has the library
 * ask again in a moment: what is in flight then is what the user's processes
 * send anew, for which the kernel has had a while to let others pass.
 */
#include "daemon/server/send/in_flight.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/server/server.h"

#define ANSWER_FDS 2u /* of a hello; most others have one */
/* Picked: a look at four thousand clients takes a millisecond. */
#define LOOK_NS 20000000ull
#define LOOK_AFTER_NS 100000000ull
/* Picked: trying costs a few microseconds. */
#define TRY_NS 1000000ull
/* Picked: it is some hundred times as long as a request takes. */
#define SPARE_NS 1000000000ull

/* What a client left behind. */
struct unread {
	struct unread *next;
	struct domain *user;
	uint64_t number; /* of the client */
	uint32_t n;
	int sock;
};

uint32_t in_flight_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1024;
	return (uint32_t)MIN(UINT32_MAX, limit.rlim_cur / 4);
}

static void give_back(struct domain *user, uint32_t n)
{
	user->account.n_in_flight -= n;
	user->server->in_flight.n -= n;
}

static uint32_t unread_bytes(int sock)
{
	int n = 0;

	return ioctl(sock, SIOCOUTQ, &n) < 0 ? 0 : (uint32_t)MAX(n, 0);
}

static void look_at(struct client *client)
{
	if (!client->in_flight || !wire_writer_empty(client->writer) ||
		unread_bytes(client->sock))
		return;
	give_back(client->user, client->in_flight);
	client->in_flight = 0;
}

/* ---- clients that are gone ----------------------------------------------- */

static void close_first(struct server *server, struct unread **at)
{
	struct unread *unread = *at;
	struct msg_client gone = {.number = unread->number};

	*at = unread->next;
	server->in_flight.n_after--;
	give_back(unread->user, unread->n);
	fd_close(unread->sock);
	free(unread);
	if (!server->drain.leaving)
		server_send_keeper(
			server, D_CLIENT_GONE, &gone, sizeof(gone), NULL, 0);
}

static void look_after(void *arg)
{
	struct server *server = arg;
	struct unread **at = &server->in_flight.after;

	while (*at)
		if (unread_bytes((*at)->sock))
			at = &(*at)->next;
		else
			close_first(server, at);
	if (server->in_flight.after)
		deadline_call(loop_deadlines(server->loop),
			&server->in_flight.look, loop_now() + LOOK_AFTER_NS,
			look_after, server);
}

bool in_flight_outlives(struct client *client)
{
	struct server *server = client->domain->server;
	bool unread = client->in_flight && unread_bytes(client->sock);
	struct unread *after = unread && !server->drain.leaving
				       ? malloc(sizeof(*after))
				       : NULL;

	if (!after) {
		give_back(client->user, client->in_flight);
		client->in_flight = 0;
		return false;
	}
	*after = (struct unread) {
		.next = server->in_flight.after,
		.user = client->user,
		.number = client->number,
		.n = client->in_flight,
		.sock = client->sock,
	};
	server->in_flight.after = after;
	server->in_flight.n_after++;
	if (!server->in_flight.look.at)
		deadline_call(loop_deadlines(server->loop),
			&server->in_flight.look, loop_now() + LOOK_AFTER_NS,
			look_after, server);
	return true;
}

uint64_t in_flight_left(const struct server *server, const struct domain *user)
{
	uint64_t n = 0;

	for (const struct unread *u = server->in_flight.after; u; u = u->next)
		if (!user || u->user == user)
			n += u->n;
	return n;
}

void in_flight_end(struct server *server)
{
	while (server->in_flight.after)
		close_first(server, &server->in_flight.after);
	deadline_set(loop_deadlines(server->loop), &server->in_flight.look, 0);
}

/* ---- clients ------------------------------------------------------------- */

/* Not again at once, however many wait. */
static void look_at_all(struct server *server)
{
	uint64_t now = loop_now();

	if (now - server->in_flight.looked_at < LOOK_NS)
		return;
	server->in_flight.looked_at = now;
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		for (struct client *c = domain->clients; c; c = c->next)
			look_at(c);
}

uint32_t in_flight_room(const struct client *client)
{
	const struct server *server = client->domain->server;
	uint64_t of_user = client->user->account.n_in_flight;
	uint64_t taken = server->in_flight.n + of_user;
	uint64_t limit = server->limits.in_flight;
	/* Half, as what it is sent counts for the user, too. */
	uint64_t room = taken < limit ? (limit - taken) / 2 : 0;

	return (uint32_t)MAX(room, of_user ? 0u : ANSWER_FDS);
}

static bool brings_fds(uint16_t type)
{
	return type == WIRE_HELLO || type == WIRE_SEGMENTS ||
	       type == WIRE_STORAGE || type == WIRE_LEASES;
}

bool in_flight_holds(struct client *client)
{
	uint16_t type;

	look_at(client);
	if (!client->in_flight && in_flight_room(client) >= ANSWER_FDS)
		return false;
	type = wire_next_header(client->sock).type;
	if (!brings_fds(type))
		return false;
	if (type == WIRE_HELLO && client->in_flight)
		return true;
	if (in_flight_room(client) < ANSWER_FDS)
		look_at_all(client->domain->server);
	return in_flight_room(client) < ANSWER_FDS;
}

/* One is sent, to ourselves. Without two descriptors to try that with, a request
 * that is taken from its socket would be refused, too. */
static bool is_refused(const struct domain *domain)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return true;
	r = wire_send(pair[0],
		WIRE_OUT_FDS(WIRE_PING, 0, NULL, 0, &domain->table_fd, 1));
	fd_close(pair[0]);
	fd_close(pair[1]);
	return r == -ETOOMANYREFS;
}

/* A client whose last request was refused has waited already: others go first,
 * for a while, and this one keeps its place. */
static bool is_spared(const struct client *client, uint64_t now)
{
	return client->spared && now - client->held_since < SPARE_NS;
}

bool in_flight_turns_away(struct client *client)
{
	struct in_flight *all = &client->domain->server->in_flight;
	uint64_t now = loop_now();

	/* What was sent again may have been done. */
	if (client->uid != geteuid() || is_spared(client, now) ||
		wire_next_header(client->sock).flags & WIRE_AGAIN)
		return false;
	if (now - all->sent_at < TRY_NS)
		return false;
	/* No more of them than must be: the next one tries anew. */
	if (is_refused(client->domain))
		return true;
	all->sent_at = now;
	return false;
}

int in_flight_refusal(const struct client *client)
{
	return tarn_fail(ETOOMANYREFS,
		"the processes of uid %u have sent more descriptors than the "
		"kernel lets this daemon have unread (RLIMIT_NOFILE, ulimit "
		"-Hn of the daemon); ask again",
		client->uid);
}

/* A long one would have to be read to its end; one that was sent again may have
 * been done. */
static bool may_be_refused(const struct client *client)
{
	struct wire_header next = wire_next_header(client->sock);

	return client->uid == geteuid() && client->welcome &&
	       client->may_write && !client->gone && !client->resuming &&
	       wire_writer_empty(client->writer) &&
	       (next.type == WIRE_LOAD || next.type == WIRE_PUBLISH) &&
	       !(next.flags & (WIRE_LONG | WIRE_AGAIN));
}

/* It is no time to drop a client: that is done when it is read from again. */
static void refuse_next(struct client *client)
{
	struct wire_message m = {0};
	int r;

	nudge_begin(&client->domain->server->nudge);
	r = wire_receive(client->sock, &client->reader, &m);
	if (r == 1 || r == -EMFILE || r == -ENOMEM || r == -EDQUOT) {
		client->spared = true;
		client_refuse(client, m.serial, in_flight_refusal(client));
	} else if (r < 0 && r != -EAGAIN && r != -ENOBUFS) {
		client_refuse(client, 0, r);
		shutdown(client->sock, SHUT_RDWR);
	}
	wire_message_close(&client->reader, &m);
}

void in_flight_refuse_one(struct server *server)
{
	for (struct domain *domain = server->domains; domain;
		domain = domain->next)
		for (struct client *c = domain->clients; c; c = c->next)
			if (may_be_refused(c))
				return refuse_next(c);
}

void in_flight_sent(struct client *client, int n_fds)
{
	client->in_flight += (uint32_t)n_fds;
	client->user->account.n_in_flight += (uint64_t)n_fds;
	client->domain->server->in_flight.n += (uint64_t)n_fds;
}
