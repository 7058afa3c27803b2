/* SPDX-License-Identifier: MIT */
/*
 * Clients of a server that died.
 *
 * Their sockets, leases and the version of the protocol that each speaks are
 * what the keeper knows; what they had asked is not. One that speaks protocol
 * 2 is told, and asks again whatever it waits for (shm/wire.h, "Resuming").
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

#include "base/fail.h"
#include "daemon/server.h"

/* Deaf and mute, but its leases count until its process ends. */
static void retire(struct client *client)
{
	/* Not to be watched: better that it waits than that what it reads is
	 * freed. */
	if (!client->pid_watch)
		return client_listen(client);
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
	struct msg_restarted news = {
		.restarts = client->rule->server->start.restarts};

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
		.instance = start->instance,
		.keeper_pid = start->keeper_pid,
		.server_pid = getpid(),
	};

	/* Said to a server that is dead, too: it will be said again. */
	if (client->resuming && of->restarts != start->restarts)
		return 0;
	if (!client->resuming)
		return tarn_fail(EPROTO, "it resumes what was not interrupted");
	client->resuming = false;
	client_reply(
		client, WIRE_WELCOME, m->serial, &body, sizeof(body), NULL, 0);
	return 0;
}
