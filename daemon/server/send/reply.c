/* SPDX-License-Identifier: MIT */
/*
 * Replies to a client.
 *
 * What the socket does not take at once waits in a queue of this client's, and
 * the client is not read until that is empty. So the queue holds the answers
 * to what was taken before, and no more: those of its loads and publications,
 * and one other. A client that sends without reading waits for itself, and for
 * nobody else: what it sends lies in its socket, which it fills. That is no
 * deadlock with the library, which reads while it waits to send
 * (lib/store/connection_send.c), and a client's end and its releases, which lie
 * in shared memory, are noticed all the same.
 *
 * That the system is out of memory or descriptors for a moment is no reason to
 * drop anybody: the process at the other end lives and reads what it has open,
 * which would be freed with its connection. What cannot be queued is answered
 * by a short error; what is queued and cannot be sent stays there, and is tried
 * again a little later, by a timer: the socket, which has room, would tell of
 * it without end, and nothing tells when the system has memory again. Each try
 * that fails makes the next pause twice as long. Answers and requests have a
 * timer each, as the one may work while the other does not, and only what
 * worked begins anew.
 *
 * A long answer goes through the socket in parts, and not in a memfd, which the
 * client could keep, or hand on to another process, while it asks for the next
 * (shm/wire.h). So of each connection there is, at any time, what is queued
 * here, which its user is charged for, and what its socket takes.
 *
 * An answer that can be sent at once needs neither memory nor descriptors, if
 * it is no longer than a datagram: only the queue has copies of them. So a
 * client that comes when the server has no descriptor left is welcomed, and can
 * look, or stop the daemon.
 */
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/server.h"

/* Picked: what others do is soon done. */
#define BACKOFF_NS 10000000ull
/* Picked: a client that does not read costs the server no more than one look a
 * second. */
#define BACKOFF_MAX_NS 1000000000ull

static void push_on(void *arg);

static struct deadlines *deadlines_of(const struct client *client)
{
	return loop_deadlines(client->domain->server->loop);
}

/* After twice as long as the last time. One that has begun is not put off: by
 * a reply that joins the queue, say. */
static void backoff_begin(struct client *client, struct backoff *backoff)
{
	if (backoff->timer.at)
		return;
	backoff->ns = MIN(MAX(backoff->ns * 2, BACKOFF_NS), BACKOFF_MAX_NS);
	deadline_call(deadlines_of(client), &backoff->timer,
		loop_now() + backoff->ns, push_on, client);
}

static void backoff_end(struct client *client, struct backoff *backoff)
{
	backoff->ns = 0;
	deadline_set(deadlines_of(client), &backoff->timer, 0);
}

void client_end_pauses(struct client *client)
{
	backoff_end(client, &client->answering);
	backoff_end(client, &client->reading);
}

/* A timer tries again when memory is short. The loop would report a peer that
 * has hung up, or sends no more, again and again meanwhile. */
static void watch(struct client *client, int flushed)
{
	if (client->answering.timer.at ||
		(flushed == 1 && client->reading.timer.at))
		loop_mute(client->watch);
	else
		loop_change(
			client->watch, flushed == 1 ? LOOP_READ : LOOP_WRITE);
}

int client_flush(struct client *client)
{
	int r = wire_flush(client->writer, client->sock);

	if (wire_is_short(r)) {
		backoff_begin(client, &client->answering);
		r = 0;
	} else {
		backoff_end(client, &client->answering);
	}
	if (r == 1)
		completions_answered(client);
	if (r >= 0)
		watch(client, r);
	quota_count_answers(client);
	return r;
}

/* Dropped by its own next event: the caller that replies may still use it. */
static void give_up(struct client *client)
{
	client_end_pauses(client);
	client->gone = true;
	shutdown(client->sock, SHUT_RDWR);
	loop_change(client->watch, LOOP_READ);
}

/* What it takes is its user's time, like an event's. */
static void push_on(void *arg)
{
	struct client *client = arg;
	uint64_t began = loop_now();

	if (client_flush(client) < 0)
		give_up(client);
	quantum_spend(client->user, began);
}

void client_pause(struct client *client)
{
	loop_mute(client->watch);
	backoff_begin(client, &client->reading);
}

void client_readable(struct client *client)
{
	backoff_end(client, &client->reading);
}

/* Sends a short error in place of an answer that cannot be queued, so that its
 * client neither waits for it nor loses, with its connection, all it holds. */
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
	return wire_push(client->writer,
		WIRE_OUT(WIRE_ERROR, serial, &body, sizeof(body.head) + n));
}

static bool is_out_of_resources(int r)
{
	return r == -ENOMEM || r == -EMFILE || r == -ENFILE || r == -ENOBUFS;
}

void client_reply(struct client *client, const struct wire_out *out)
{
	int r = 0;

	if (!client || client->gone)
		return;
	in_flight_sent(client, out->n_fds);
	if (wire_try(client->writer, client->sock, out) != 1)
		r = wire_push(client->writer, out);
	if (is_out_of_resources(r))
		r = push_short(client, out->serial, -r);
	if (r == 0)
		r = client_flush(client);
	if (r < 0)
		give_up(client);
}

void client_refuse(struct client *client, uint32_t serial, int error)
{
	const char *text = tarn_fail_message();
	size_t n = strlen(text);
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + TARN_MESSAGE_MAX];
	} body = {.head = {.error = error < 0 ? -error : error}};

	memcpy(body.head.text, text, n);
	client_reply(client,
		WIRE_OUT(WIRE_ERROR, serial, &body, sizeof(body.head) + n));
}
