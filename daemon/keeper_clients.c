/* SPDX-License-Identifier: MIT */
/*
 * Who is connected: let in, held for the next server, forgotten.
 *
 * The idea: whatever is done for one costs the same however many there are,
 * so one is found by its number; and no turn of the loop lets in more than a
 * few, so that a thousand who come at once wait for each other and nothing
 * else waits for them.
 */
#include "daemon/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/door.h"
#include "daemon/log.h"
#include "shm/lease.h"

#define CLIENTS_MAX 4096u /* picked; fewer where descriptors are */
#define ACCEPTS_A_TURN 16 /* picked: some milliseconds of work */
#define OVERFLOW_UID 65534u

/* Numbers are given in turn, so they spread by themselves. */
static struct keeper_client **bucket_of(struct keeper *keeper, uint64_t number)
{
	return &keeper->clients[number % ARRAY_SIZE(keeper->clients)];
}

static void client_add(struct keeper *keeper, struct keeper_client *client)
{
	struct keeper_client **bucket = bucket_of(keeper, client->who.number);

	client->next = *bucket;
	*bucket = client;
	keeper->n_clients++;
	keeper->rules[client->home].n_clients++;
}

static struct keeper_client *client_free(struct keeper_client *client)
{
	if (!client)
		return NULL;
	fd_close(client->socket);
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
	keeper->n_clients--;
	keeper->rules[client->home].n_clients--;
	client_free(client);
}

int keeper_client_move(struct keeper *keeper, const struct msg_client *to)
{
	struct keeper_client *client = keeper_client_find(keeper, to->number);

	if (to->rule >= keeper->n_rules)
		return tarn_fail(EPROTO, "there is no rule %u", to->rule);
	if (client)
		client->who.rule = to->rule;
	return 0;
}

struct keeper_client *keeper_client_next(
	struct keeper *keeper, const struct keeper_client *client)
{
	size_t i = 0;

	if (client && client->next)
		return client->next;
	if (client)
		i = client->who.number % ARRAY_SIZE(keeper->clients) + 1;
	for (; i < ARRAY_SIZE(keeper->clients); i++)
		if (keeper->clients[i])
			return keeper->clients[i];
	return NULL;
}

void keeper_clients_free(struct keeper *keeper)
{
	for (size_t i = 0; i < ARRAY_SIZE(keeper->clients); i++)
		while (keeper->clients[i])
			keeper_client_forget(
				keeper, keeper->clients[i]->who.number);
}

/* ---- the door -------------------------------------------------------- */

/* Who may come at all: not those whose uid says nothing about them. */
static int check_peer(int fd, struct ucred *ret)
{
	socklen_t size = sizeof(*ret);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &size) < 0)
		return tarn_fail(errno, "a peer without credentials");
	if (ret->uid == OVERFLOW_UID && geteuid() != OVERFLOW_UID)
		return tarn_fail(EPERM,
			"uid %u is the overflow uid: it may be "
			"anybody",
			ret->uid);
	return 0;
}

static int check_room(const struct keeper *keeper)
{
	if (keeper->n_clients < keeper->clients_max)
		return 0;
	return tarn_fail(EUSERS,
		"%u clients are connected, which is the limit%s",
		keeper->clients_max,
		keeper->clients_max < CLIENTS_MAX
			? " (with so few descriptors: ulimit -n)"
			: "");
}

/* One user shall not take all the places. */
static int check_quota(const struct keeper *keeper, uint32_t uid, uint32_t rule)
{
	struct quota quota = config_quota(&keeper->config, uid);
	uint64_t limit = quota.limit[QUOTA_CONNECTIONS];

	if (keeper->rules[rule].n_clients < limit)
		return 0;
	return tarn_fail(EDQUOT,
		"uid %u has %u connections, and may have %llu (connections "
		"under [quota] in tarnd.conf)",
		uid, keeper->rules[rule].n_clients, (unsigned long long)limit);
}

static int client_new(struct keeper *keeper, int fd, const struct ucred *peer,
	struct keeper_client **ret)
{
	struct keeper_client *client = calloc(1, sizeof(*client));
	int r;

	if (!client)
		return tarn_fail(ENOMEM, "out of memory");
	client->socket = client->lease_fd = -1;
	client->who.number = keeper->next_client++;
	client->who.uid = peer->uid;
	client->who.gid = peer->gid;
	client->who.pid = peer->pid;
	r = keeper_rule_for(keeper, peer->uid, &client->who.rule);
	if (r == 0)
		r = check_quota(keeper, peer->uid, client->who.rule);
	if (r == 0)
		r = lease_create(&client->lease_fd);
	if (r < 0) {
		client_free(client);
		return r;
	}
	client->socket = fd;
	client->home = client->who.rule;
	*ret = client;
	return 0;
}

/* Says why, as an answer to whatever it was about to ask. */
static void turn_away(int fd, int error)
{
	const char *text = tarn_fail_message();
	size_t n = strlen(text);
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + TARN_MESSAGE_MAX];
	} body = {.space = {0}};

	body.head.error = -error;
	memcpy(body.head.text, text, n);
	wire_send(fd, WIRE_ERROR, 0, &body, sizeof(body.head) + n, NULL, 0);
	fd_close(fd);
	tarn_fail_verbatim(-error, body.head.text);
}

/* Takes fd. */
static int admit(struct keeper *keeper, int fd)
{
	struct keeper_client *client = NULL;
	struct ucred peer;
	int r = check_room(keeper);

	if (r == 0)
		r = check_peer(fd, &peer);
	if (r == 0)
		r = client_new(keeper, fd, &peer, &client);
	if (r < 0) {
		turn_away(fd, r);
		return r;
	}
	r = keeper_tell(keeper, D_CLIENT, &client->who, sizeof(client->who),
		(int[]) {client->socket, client->lease_fd}, 2);
	if (r < 0) {
		client_free(client);
		return r;
	}
	if (keeper->server_sock >= 0)
		client->who.flags |= CLIENT_SEEN;
	client_add(keeper, client);
	return 0;
}

static int accept_some(struct keeper *keeper, int most)
{
	int came = 0;

	while (came < most) {
		int fd = accept4(door_fd(keeper->door), NULL, NULL,
			SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			if (errno == EAGAIN)
				return came;
			/* Whoever waits there goes on waiting, and poll would
			 * say so at once, again and again. */
			keeper->deaf = 1;
			log_error("accept_failed",
				log_text("error", tarn_errno_text(errno)));
			return came;
		}
		if (admit(keeper, fd) < 0)
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

/* Shut before the last are let in, so that nobody is ever turned away; and
 * all of them, since opening it again makes another socket. */
void keeper_drain_accepts(struct keeper *keeper)
{
	struct msg_drained message = {0};

	door_shut(keeper->door);
	keeper->shut = 1;
	accept_some(keeper, INT32_MAX);
	/* Also one of whom the server had not heard when it asked. */
	if (keeper->n_clients) {
		message.waiting = 1;
		keeper->shut = 0;
		if (door_reopen(keeper->door) < 0)
			log_error("door_failed",
				log_text("error", tarn_fail_message()));
	}
	keeper_insist(keeper, D_ACCEPTS_DRAINED, &message, sizeof(message));
}

/*
 * As many descriptors as the system gives, and no more clients than these
 * allow: each takes two here and three in the server, where a quarter of all
 * is for loads (server.c), a sixteenth for lease pages, one for publications,
 * and what is left for segments, regions and loaders.
 */
void keeper_limit_clients(struct keeper *keeper)
{
	struct rlimit limit;

	keeper->clients_max = CLIENTS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	keeper->clients_max =
		(uint32_t)MIN(CLIENTS_MAX, MAX(limit.rlim_cur / 8, 1u));
}
