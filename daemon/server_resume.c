/* SPDX-License-Identifier: MIT */
/*
 * Clients of a server that died, or that was ended for another version.
 *
 * Their sockets, leases and the version of the protocol that each speaks are
 * what the keeper knows; what they had asked is not. One that speaks protocol
 * 2 is told, and asks again whatever it waits for (shm/wire.h, "Resuming").
 * After an upgrade the answer to its resuming brings the control region that
 * has taken the place of the one it has mapped.
 *
 * One that speaks protocol 1 would wait for ever for an answer to what the
 * dead server had read, and there is no telling whether it waits. So its
 * connection ends, by which all its calls, those to come too, fail with a
 * sentence; but its leases stand until its process ends, since what it has
 * mapped may be in use. It opens another store when it likes.
 *
 * One that was not welcome yet is let go if its hello was read: to open is to
 * try again.
 */
#include <sys/socket.h>
#include <unistd.h>

#include <errno.h>

#include "base/fail.h"
#include "daemon/server.h"

/* What takes the place of a server that died, and of one that was ended. */
static uint32_t servers_before(const struct server_start *start)
{
	return start->restarts + start->ended;
}

int client_left_behind(const struct client *client)
{
	return tarn_fail(ESTALE,
		"the daemon was %s, and this program's tarn, which speaks "
		"protocol %u, cannot follow it: what it has open stays valid; "
		"open the store anew",
		client->rule->server->start.upgrades ? "upgraded" : "restarted",
		client->version);
}

/* Deaf and mute, but its leases count until its process ends. */
static void retire(struct client *client)
{
	/* It rings no more. */
	client->left_behind = true;
	client->rule->server->n_left_behind++;
	/* Not to be watched: better that it waits than that what it reads is
	 * freed. */
	if (!client->pid_watch)
		return client_listen(client);
	client_refuse(client, 0, client_left_behind(client));
	client->watch = loop_unwatch(client->watch);
	client->gone = true;
	shutdown(client->sock, SHUT_RDWR);
}

/* Is its hello, or whatever it has said, still there to be read? */
static bool has_spoken(const struct client *client)
{
	char byte;

	return recv(client->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void tell(struct client *client)
{
	const struct server_start *start = &client->rule->server->start;
	struct msg_restarted news = {.restarts = servers_before(start),
		.flags = start->upgraded ? RESTARTED_UPGRADE : 0};

	client->welcome = client->resuming = true;
	client_listen(client);
	client_reply(client, WIRE_RESTARTED, 0, &news, sizeof(news), NULL, 0);
}

void client_resume(struct client *client)
{
	if (client->version > 1)
		return tell(client);
	if (client->version == 1) {
		client->welcome = true;
		return retire(client);
	}
	if (client->seen && !has_spoken(client))
		return client_drop(client, "its hello was lost");
	client_listen(client);
}

/* WIRE_RESUME */
int client_resumes(struct client *client, const struct wire_message *m)
{
	const struct server_start *start = &client->rule->server->start;
	const struct msg_restarted *of = (const struct msg_restarted *)m->body;
	struct msg_welcome body = {
		.version = client->version,
		/* Who resumes speaks protocol 2, or a later one. */
		.flags = WELCOME_SINCE | WELCOME_LOAD_SINCE |
			 (start->upgrades ? WELCOME_MOVED : 0),
		.instance = start->instance,
		.keeper_pid = start->keeper_pid,
		.server_pid = getpid(),
	};

	/* Said to a server that is dead, too: it will be said again. */
	if (client->resuming && of->restarts != servers_before(start))
		return 0;
	if (!client->resuming)
		return tarn_fail(EPROTO, "it resumes what was not interrupted");
	client->resuming = false;
	/* It knows whether it has that one mapped already. */
	client_reply(client, WIRE_WELCOME, m->serial, &body, sizeof(body),
		&client->rule->table_fd, start->upgrades ? 1 : 0);
	return 0;
}
