/* SPDX-License-Identifier: MIT */
/*
 * The clients that are connected: accepted, held for the next server, dropped.
 *
 * An operation on one client costs the same with any number of clients, since
 * a client is found by its number. One turn of the loop accepts only a few, so
 * that a thousand clients that connect at once wait for each other, and nothing
 * else waits for them.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/overflow_uid.h"
#include "daemon/keeper/listener.h"
#include "daemon/loop/log.h"
#include "shm/lease.h"

#define ACCEPT_PAUSE_NS 100000000ull /* after it failed; picked */
#define CLIENTS_MAX 4096u            /* picked; fewer where descriptors are */
#define ACCEPTS_A_TURN 16            /* picked: some milliseconds of work */

/* Numbers are given in turn, so they spread by themselves. */
static struct keeper_client **bucket_of(struct keeper *keeper, uint64_t number)
{
	return &keeper->clients
			.buckets[number % ARRAY_SIZE(keeper->clients.buckets)];
}

static void client_add(struct keeper *keeper, struct keeper_client *client)
{
	struct keeper_client **bucket = bucket_of(keeper, client->who.number);

	client->next = *bucket;
	*bucket = client;
	keeper->clients.n++;
	keeper->domains[client->user].n_clients++;
	keeper->domains[client->user].empty = false;
}

/* The peer sees the end at once, whenever the socket is closed. */
static void drop(struct keeper *keeper, int sock)
{
	if (sock >= 0)
		shutdown(sock, SHUT_RDWR);
	keeper_drop(keeper, sock);
}

static struct keeper_client *client_free(
	struct keeper *keeper, struct keeper_client *client)
{
	if (!client)
		return NULL;
	drop(keeper, client->socket);
	fd_close(client->lease_fd);
	free(client);
	return NULL;
}

struct keeper_client *keeper_client_find(struct keeper *keeper, uint64_t number)
{
	struct keeper_client *client = *bucket_of(keeper, number);

	while (client && client->who.number != number)
		client = client->next;
	return client;
}

int keeper_client_adopt(
	struct keeper *keeper, const struct keeper_client *client)
{
	struct keeper_client *copy = malloc(sizeof(*copy));

	if (!copy)
		return tarn_fail(ENOMEM, "out of memory");
	*copy = *client;
	client_add(keeper, copy);
	return 0;
}

void keeper_client_forget(struct keeper *keeper, uint64_t number)
{
	struct keeper_client **p, *client;

	for (p = bucket_of(keeper, number); *p; p = &(*p)->next)
		if ((*p)->who.number == number)
			break;
	client = *p;
	if (!client)
		return;
	*p = client->next;
	keeper->clients.n--;
	keeper->domains[client->user].n_clients--;
	client_free(keeper, client);
}

int keeper_client_move(struct keeper *keeper, const struct msg_client *to)
{
	struct keeper_client *client = keeper_client_find(keeper, to->number);

	if (to->domain >= keeper->n_domains)
		return tarn_fail(EPROTO, "there is no domain %u", to->domain);
	if (client)
		client->who.domain = to->domain;
	return 0;
}

struct keeper_client *keeper_client_next(
	struct keeper *keeper, const struct keeper_client *client)
{
	size_t i = 0;

	if (client && client->next)
		return client->next;
	if (client)
		i = client->who.number % ARRAY_SIZE(keeper->clients.buckets) +
		    1;
	for (; i < ARRAY_SIZE(keeper->clients.buckets); i++)
		if (keeper->clients.buckets[i])
			return keeper->clients.buckets[i];
	return NULL;
}

void keeper_clients_end(struct keeper *keeper)
{
	for (size_t i = 0; i < ARRAY_SIZE(keeper->clients.buckets); i++)
		while (keeper->clients.buckets[i])
			keeper_client_forget(
				keeper, keeper->clients.buckets[i]->who.number);
}

/* ---- the listener -------------------------------------------------------- */

/* May this client connect at all? Not with the overflow uid, which stands for
 * several users. */
static int check_peer(int fd, struct ucred *ret)
{
	socklen_t size = sizeof(*ret);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0)
		return tarn_fail(errno, "a peer without credentials");
	if (!uid_is_one_user(ret->uid) ||
		(ret->uid == overflow_uid() && ret->uid != geteuid()))
		return tarn_fail(EPERM,
			"uid %u is the overflow uid, which stands for all "
			"users of other user namespaces: the daemon cannot "
			"tell who this is",
			ret->uid);
	return 0;
}

static int check_room(const struct keeper *keeper)
{
	if (keeper->clients.n < keeper->clients.max)
		return 0;
	return tarn_fail(EUSERS,
		"%u clients are connected, which is the limit%s",
		keeper->clients.max,
		keeper->clients.max < CLIENTS_MAX
			? " (with so few descriptors: ulimit -n)"
			: "");
}

/* One user shall not take all the places. */
static int check_quota(
	const struct keeper *keeper, uint32_t uid, uint32_t domain)
{
	struct quota quota = config_quota(&keeper->config, uid);
	uint64_t limit = quota.limit[QUOTA_CONNECTIONS];

	if (keeper->domains[domain].n_clients < limit)
		return 0;
	return tarn_fail(EDQUOT,
		"uid %u has %u connections, and may have %llu (connections "
		"under [quota] in tarnd.conf)",
		uid, keeper->domains[domain].n_clients,
		(unsigned long long)limit);
}

static int client_new(struct keeper *keeper, int fd, const struct ucred *peer,
	struct keeper_client **ret)
{
	struct keeper_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return tarn_fail(ENOMEM, "out of memory");
	client->socket = client->lease_fd = -1;
	client->who.number = keeper->clients.next++;
	client->who.uid = peer->uid;
	client->who.gid = peer->gid;
	client->who.pid = peer->pid;
	r = keeper_domain_for(keeper, peer->uid, &client->who.domain);
	if (r == 0)
		r = check_quota(keeper, peer->uid, client->who.domain);
	if (r == 0)
		r = lease_create(&client->lease_fd);
	if (r < 0) {
		client_free(keeper, client);
		return r;
	}
	client->socket = fd;
	client->user = client->who.domain;
	*ret = client;
	return 0;
}

/* Sends the reason, as an answer to the client's first request. */
static void turn_away(struct keeper *keeper, int fd, int error)
{
	const char *text = tarn_fail_message();
	size_t n = strlen(text);
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + TARN_MESSAGE_MAX];
	} body = {.space = {0}};

	body.head.error = -error;
	memcpy(body.head.text, text, n);
	wire_send(fd, WIRE_OUT(WIRE_ERROR, 0, &body, sizeof(body.head) + n));
	drop(keeper, fd);
	tarn_fail_verbatim(-error, body.head.text);
}

/* Takes fd. *ret_user: the domain of its uid, DOMAINS_MAX where there is
 * none. */
static int admit(struct keeper *keeper, int fd, uint32_t *ret_user)
{
	struct keeper_client *client = NULL;
	struct ucred peer;
	int r = check_peer(fd, &peer);

	*ret_user = r < 0 ? DOMAINS_MAX : keeper_domain_of(keeper, peer.uid);
	if (r == 0)
		r = check_room(keeper);
	if (r == 0)
		r = client_new(keeper, fd, &peer, &client);
	if (r < 0) {
		turn_away(keeper, fd, r);
		return r;
	}
	r = keeper_send(keeper, D_CLIENT, &client->who, sizeof(client->who),
		(int[]) {client->socket, client->lease_fd}, 2);
	if (r < 0) {
		client_free(keeper, client);
		return r;
	}
	if (keeper->server.sock >= 0)
		client->who.flags |= CLIENT_SEEN;
	client_add(keeper, client);
	return 0;
}

static int accept_some(struct keeper *keeper, int most)
{
	uint32_t user;
	int came = 0;

	while (came < most) {
		int fd = accept4(listener_fd(keeper->listener), NULL, NULL,
			SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			if (errno == EAGAIN)
				return came;
			/* The client goes on waiting in the queue, and poll
			 * would return at once, again and again. */
			deadline_set(&keeper->deadlines,
				&keeper->clients.accept_at,
				keeper_now() + ACCEPT_PAUSE_NS);
			log_error("accept_failed",
				log_text("error", tarn_errno_text(errno)));
			return came;
		}
		if (admit(keeper, fd, &user) < 0 &&
			keeper_may_log(keeper, user))
			log_warning("client_refused",
				log_text("error", tarn_fail_message()));
		came++;
	}
	return came;
}

void keeper_accept(struct keeper *keeper)
{
	accept_some(keeper, ACCEPTS_A_TURN);
}

void keeper_accept_all(struct keeper *keeper)
{
	accept_some(keeper, INT32_MAX);
}

/* Closes the listener before it accepts the last clients, so that none is ever
 * refused; and accepts all of them, since opening the listener again makes
 * another socket. */
void keeper_drain_accepts(
	struct keeper *keeper, const struct msg_drain *question)
{
	struct msg_drained message = {0};

	listener_unbind(keeper->listener);
	keeper->unbound = 1;
	accept_some(keeper, INT32_MAX);
	/* Also one that the server did not know of when it asked. Those that
	 * are gone for the server do not count, or a process that reads nothing
	 * would keep an idle daemon for ever: they are among the clients here,
	 * all of them, since the server says later what became of them. */
	if (keeper->clients.n > question->n_gone) {
		message.waiting = 1;
		keeper->unbound = 0;
		if (listener_rebind(keeper->listener) < 0)
			log_error("listener_failed",
				log_text("error", tarn_fail_message()));
	}
	keeper_insist(keeper, D_ACCEPTS_DRAINED, &message, sizeof(message));
}

/*
 * The least number of descriptors with which the server, which has most, can
 * serve a client: its own, the user's memory, and two clients, one of which
 * loads a file, while the other watches the load or stops the daemon.
 */

/* Its streams, sockets, event loop, timers, and what is held back. */
#define OWN_MIN 13u
/* A region, a segment that is being made, a storage's own memory. */
#define MEMORY_MIN 5u
/* Two of a file, twice while they are handed on; the loader's two. */
#define LOAD_MIN 6u
#define CLIENTS_MIN 2u
/* Socket, leases, a pidfd; one for an answer. */
#define A_CLIENT 4u
#define DESCRIPTORS_MIN                                                        \
	(OWN_MIN + MEMORY_MIN + LOAD_MIN + CLIENTS_MIN * A_CLIENT)

int keeper_check_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
		limit.rlim_cur >= DESCRIPTORS_MIN)
		return 0;
	return tarn_fail(EMFILE,
		"it may have %llu descriptors open (RLIMIT_NOFILE, ulimit "
		"-Hn), and needs %u at least: raise that limit where the "
		"daemon is started",
		(unsigned long long)limit.rlim_cur, DESCRIPTORS_MIN);
}

/*
 * No more clients than the descriptors allow, whose limit was raised already:
 * each takes two here and three in the server, where a quarter of all is for
 * loads (server.c), a sixteenth for lease pages, one for publications, and what
 * is left for segments, regions and loaders.
 */
void keeper_limit_clients(struct keeper *keeper)
{
	struct rlimit limit;

	keeper->clients.max = CLIENTS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		keeper->clients.max =
			(uint32_t)MIN(CLIENTS_MAX, MAX(limit.rlim_cur / 8, 1u));
}
