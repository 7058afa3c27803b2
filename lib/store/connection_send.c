/* SPDX-License-Identifier: MIT */
/*
 * Sending on a connection.
 *
 * A message is sent whole or not at all, so a call that the socket does not
 * take yet waits and tries again, and leaves nothing behind when it gives up: a
 * daemon that does not read, or a system that is short of a resource for a
 * moment, ends that call and not the connection. Only messages that have no
 * waiting caller are queued, and calls that are sent again to another server;
 * the queue goes out before anything else.
 *
 * No thread that waits for the daemon holds the lock of the queue. So callers
 * that must not wait can always send: releases, which come from destructors
 * that run under an interpreter's lock, and forks.
 *
 * A server does not read from a client that has answers to read. So a thread
 * that waits to send also receives for all: the answers in the way may be those
 * of calls that were given up, which no other thread would read.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/connection.h"

/* The error of a call when the socket is full, or the system short of a
 * resource for a moment. The connection is sound: queued messages go out
 * later. */
static bool is_passing(int r)
{
	return r == -ETIMEDOUT || wire_is_short(r);
}

/* A notification for no particular storage: the daemon checks the word that
 * lease_notify() set. */
static bool notify_release(const struct connection *c)
{
	static const struct msg_released none;

	return wire_try(c->writer, c->fd,
		       WIRE_OUT(WIRE_RELEASED, CONNECTION_NOTIFY_SERIAL, &none,
			       sizeof(none))) == 1;
}

int connection_push_on_locked(struct connection *c)
{
	int r = wire_flush(c->writer, c->fd);

	/* If the socket does not take it now, the next sender tries again. */
	if (r == 1 && c->notify_pending)
		c->notify_pending = !notify_release(c);
	return r;
}

int connection_push_on(struct connection *c)
{
	int r;

	pthread_mutex_lock(&c->send);
	r = connection_push_on_locked(c);
	pthread_mutex_unlock(&c->send);
	/* The receiving thread notices all other errors. */
	return r < 0 && !wire_is_short(r) ? 1 : r;
}

/* From here on the call would be sent to another server, too. */
static void note_sent(struct connection *c, struct call *call)
{
	pthread_mutex_lock(&c->lock);
	call->sent = true;
	pthread_mutex_unlock(&c->lock);
}

/* 1: it was sent; 0: the socket is full; or an error. */
static int try_call(
	struct connection *c, struct call *call, struct wire_out *out)
{
	int r;

	pthread_mutex_lock(&c->send);
	r = connection_push_on_locked(c);
	if (r == 1)
		r = wire_try(c->writer, c->fd, out);
	if (r == 1)
		note_sent(c, call);
	pthread_mutex_unlock(&c->send);
	return r;
}

/* Until the socket takes a message, or delivered an answer for some thread. */
static void wait_for_room(struct connection *c, int64_t ms)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLOUT};

	poll(&p, 1, (int)ms);
	if (!(p.revents & POLLIN) || p.revents & POLLOUT)
		return;
	pthread_mutex_lock(&c->lock);
	connection_turn(c, clock_ms() + CONNECTION_NAP_MS);
	pthread_mutex_unlock(&c->lock);
}

/* Sends it and waits meanwhile. -ETIMEDOUT, or the system has been short for
 * too long. */
static int send_call(
	struct connection *c, struct call *call, struct wire_out *out)
{
	int64_t now = clock_ms(), deadline = now + c->timeout_ms;
	int64_t retry_until = now + CONNECTION_NOMEM_MS;
	int r;

	while ((r = try_call(c, call, out)) != 1) {
		bool is_short = wire_is_short(r);

		now = clock_ms();
		if (r < 0 && (!is_short || now >= retry_until))
			break;
		if (now >= deadline && connection_is_held(c))
			deadline = now + c->timeout_ms;
		if (now >= deadline || connection_is_dead(c))
			return -ETIMEDOUT;
		/* In a shortage the socket is writable: poll would not wait. */
		if (is_short)
			usleep(CONNECTION_NAP_MS * 1000);
		else
			wait_for_room(c, deadline - now);
	}
	return MIN(r, 0);
}

/* The call ends, the connection does not. None of the call was sent. */
static int give_up(const struct connection *c, int r)
{
	if (r == -ETIMEDOUT)
		return tarn_fail(ETIMEDOUT,
			"daemon at %s: it does not read its messages: none "
			"within %d ms",
			c->peer, c->timeout_ms);
	return tarn_fail(-r,
		"daemon at %s: the system is too short of memory or "
		"descriptors to send to it: %s",
		c->peer, tarn_errno_text(r));
}

int connection_send(struct connection *c, struct call *call)
{
	struct wire_out out = call->out;
	int r;

	if (connection_is_dead(c))
		return connection_error(c);
	r = wire_out_prepare(&out);
	if (r < 0)
		return r;
	r = send_call(c, call, &out);
	wire_out_done(&out);
	if (r < 0 && connection_is_dead(c))
		return connection_error(c);
	if (is_passing(r))
		return give_up(c, r);
	return r < 0 ? connection_broken(c, r) : 0;
}

/* ---- requests without an answer --------------------------------------- */

/* With the send lock held: a message that the socket does not take stays
 * queued. */
static int push_message(
	struct connection *c, const struct wire_out *out, bool *ret_broken)
{
	int r = wire_push(c->writer, out);

	if (r < 0)
		return r;
	r = connection_push_on_locked(c);
	*ret_broken = r < 0 && !is_passing(r);
	return *ret_broken ? r : 0;
}

int connection_notify(
	struct connection *c, uint16_t type, const void *body, size_t size)
{
	bool broken = false;
	uint32_t serial;
	int r = connection_ready(c);

	if (r >= 0 && connection_is_dead(c))
		r = connection_error(c);
	if (r < 0)
		return r;
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	serial = connection_next_serial(c);
	pthread_mutex_unlock(&c->lock);
	r = push_message(c, WIRE_OUT(type, serial, body, size), &broken);
	pthread_mutex_unlock(&c->send);
	return broken ? connection_broken(c, r) : r;
}

/* No daemon is to be notified of a release: a child has no leases, or the
 * daemon is gone. */
static bool is_mute(const struct connection *c)
{
	/* Relaxed: it is awake as long as it has a lease. */
	return atomic_load_explicit(&c->lazy, memory_order_relaxed) ||
	       connection_is_dead(c);
}

bool connection_notify_release(
	struct connection *c, const struct msg_released *released)
{
	bool sent;

	if (is_mute(c))
		return true;
	pthread_mutex_lock(&c->send);
	sent = wire_try(c->writer, c->fd,
		       WIRE_OUT(WIRE_RELEASED, CONNECTION_NOTIFY_SERIAL,
			       released, sizeof(*released))) == 1;
	pthread_mutex_unlock(&c->send);
	return sent;
}

void connection_notify_later(struct connection *c)
{
	pthread_mutex_lock(&c->send);
	c->notify_pending = true;
	connection_push_on_locked(c);
	pthread_mutex_unlock(&c->send);
}
