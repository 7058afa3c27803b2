/* SPDX-License-Identifier: MIT */
/*
 * What a client is told.
 *
 * Replies go through a bounded queue, so that a client which does not read
 * fills its own queue and is dropped.
 *
 * That the system is out of memory or descriptors for a moment is no reason to
 * drop anybody: the process at the other end lives and reads what it has open,
 * which would be freed with its connection. What cannot be queued is answered
 * by a short error; what is queued and cannot be sent stays there, and is tried
 * again a little later, by the timer: the socket, which has room, would tell of
 * it without end.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server.h"

#define SHORT_NS 10000000ull /* picked: what others do is soon done */

static void note_short(struct client *client, bool is_short)
{
	struct server *server = client->rule->server;

	if (is_short && !server->n_short)
		server->short_until = loop_now() + SHORT_NS;
	server->n_short += is_short;
	server->n_short -= client->is_short;
	client->is_short = is_short;
}

int client_flush(struct client *client)
{
	int r = wire_flush(client->writer, client->sock);

	note_short(client, wire_is_short(r));
	if (client->is_short)
		r = 0;
	if (r >= 0)
		loop_change(client->watch, r == 1 || client->is_short
						   ? LOOP_READ
						   : LOOP_READ | LOOP_WRITE);
	return r;
}

/* Dropped by its own next event: whoever replies may still use it. */
static void give_up(struct client *client)
{
	note_short(client, false);
	client->gone = true;
	shutdown(client->sock, SHUT_RDWR);
}

static void push_on(struct rule *rule)
{
	for (struct client *c = rule->clients; c; c = c->next) {
		if (c->gone)
			note_short(c, false);
		if (c->is_short && client_flush(c) < 0)
			give_up(c);
	}
}

uint64_t clients_push_on(struct server *server)
{
	uint64_t now;

	if (!server->n_short)
		return UINT64_MAX;
	now = loop_now();
	if (now >= server->short_until) {
		for (struct rule *rule = server->rules; rule; rule = rule->next)
			push_on(rule);
		server->short_until = now + SHORT_NS;
	}
	return server->n_short ? server->short_until : UINT64_MAX;
}

/* An answer that there is nothing to make of: a short one in its place, so that
 * nobody waits for it, nor loses all that he holds with his connection. */
static int push_short(struct client *client, uint32_t serial, int error)
{
	const char *why =
		error == ENOMEM   ? "the daemon is out of memory for its answer"
		: error == EMFILE ? "the daemon can have no more descriptors "
				    "open to answer with (ulimit -n of the "
				    "daemon)"
				  : "answers to this process wait to be sent, "
				    "and there is no room for another";
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + 128];
	} body = {.head = {.error = error}};
	size_t n = MIN(strlen(why), sizeof(body) - sizeof(body.head));

	memcpy(body.head.text, why, n);
	return wire_push(client->writer, WIRE_ERROR, serial, &body,
		sizeof(body.head) + n, NULL, 0);
}

static int push(struct client *client, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds)
{
	/* It is as long as what was asked, not as what is read. */
	return type == WIRE_PUBLISHED ? wire_push_answer(client->writer, type,
						serial, body, size)
				      : wire_push(client->writer, type, serial,
						body, size, fds, n_fds);
}

void client_reply(struct client *client, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds)
{
	int r;

	if (!client || client->gone)
		return;
	r = push(client, type, serial, body, size, fds, n_fds);
	if (r == -ENOMEM || r == -EMFILE || r == -ENOBUFS)
		r = push_short(client, serial, -r);
	if (r == 0)
		r = client_flush(client);
	if (r < 0)
		give_up(client);
}

static void say_error(
	struct client *client, uint32_t serial, int error, uint32_t flags)
{
	const char *text = tarn_fail_message();
	size_t n = strlen(text);
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + TARN_MESSAGE_MAX];
	} body = {
		.head = {.error = error < 0 ? -error : error, .flags = flags}};

	memcpy(body.head.text, text, n);
	client_reply(client, WIRE_ERROR, serial, &body, sizeof(body.head) + n,
		NULL, 0);
}

void client_refuse(struct client *client, uint32_t serial, int error)
{
	say_error(client, serial, error, 0);
}

void client_refuse_for_now(struct client *client, uint32_t serial, int error)
{
	say_error(client, serial, error, ERROR_FOR_NOW);
}
