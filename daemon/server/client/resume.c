/* SPDX-License-Identifier: MIT */
/*
 * Clients of a server that died, or that was ended for another version.
 *
 * The keeper knows their sockets, their leases and the version of the protocol
 * that each speaks; it does not know their requests. The new server notifies
 * each client that the server was replaced, and the client sends its pending
 * requests again
 * (shm/messages.h, "Resuming").
 *
 * A client whose hello was read but not answered is dropped: the library opens
 * the connection again.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/server/server.h"

/* The successor of a server that died, and of one that was ended. */
static uint32_t servers_before(const struct server_start *start)
{
	return start->restarts + start->ended;
}

/* Is its hello, or another message, still there to be read? */
static bool has_spoken(const struct client *client)
{
	char byte;

	return recv(client->sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void send_restarted(struct client *client)
{
	const struct server_start *start = &client->domain->server->start;
	struct msg_restarted news = {.restarts = servers_before(start),
		.flags = start->upgraded ? RESTARTED_UPGRADE : 0};

	client->welcome = client->resuming = true;
	client_listen(client);
	client_reply(client, WIRE_OUT(WIRE_RESTARTED, 0, &news, sizeof(news)));
}

void client_resume(struct client *client)
{
	if (client->version)
		return send_restarted(client);
	if (client->seen && !has_spoken(client))
		return client_drop(client, "its hello was lost");
	client_listen(client);
}

/* WIRE_RESUME */
int client_resumes(struct client *client, const struct wire_message *m)
{
	const struct server_start *start = &client->domain->server->start;
	const struct msg_restarted *of = (const struct msg_restarted *)m->body;
	struct msg_welcome body = {
		.version = client->version,
		.instance = start->instance,
		.keeper_pid = start->keeper_pid,
		.server_pid = getpid(),
	};

	/* Sent to a server that is dead, too: it will be sent again. */
	if (client->resuming && of->restarts != servers_before(start))
		return 0;
	if (!client->resuming)
		return tarn_fail(EPROTO, "it resumes what was not interrupted");
	client->resuming = false;
	client_reply(
		client, WIRE_OUT(WIRE_WELCOME, m->serial, &body, sizeof(body)));
	return 0;
}
