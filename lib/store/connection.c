/* SPDX-License-Identifier: MIT */
/*
 * Requests and replies over one socket, for many threads.
 *
 * A thread that waits and finds no other at the socket receives for all of
 * them; the others sleep on a condition until a reply of theirs was put beside
 * their call or the socket has become free. A reply to a call that was given up
 * finds no taker and is dropped.
 */
#include "lib/store/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"

/* The longest message, which may be sent again, and as many notices as may pile
 * up while a daemon does not read. */
#define QUEUE_MAX (WIRE_MESSAGE_MAX + (4u << 20))

/* A number for each name, and the storage of each source. */
#define PUBLISHED_MAX                                                          \
	(sizeof(struct msg_published) +                                        \
		PUBLISH_SOURCES_MAX * sizeof(struct msg_stored) +              \
		LOAD_NAMES_MAX * sizeof(uint64_t))

/* The largest reply of each type: a newer daemon's may be longer than the
 * struct of this version, and a sentence has its limit. Messages that do not
 * end a call, a load's notice and the news of another server, are too short for
 * a memfd, so that they are never lost for lack of memory: otherwise the caller
 * would be told that its load has failed, or would wait for ever. */
static uint32_t reply_limit(uint16_t type)
{
	switch (type) {
	case WIRE_WELCOME:
	case WIRE_SEGMENT_FDS:
	case WIRE_LOADING:
	case WIRE_LOADED:
	case WIRE_DONE:
	case WIRE_PONG:
	case WIRE_STORAGE_FD:
	case WIRE_CHANNEL_IS:
	case WIRE_LEASE_PAGE:
	case WIRE_RESTARTED:
		return WIRE_REPLY_MAX;
	case WIRE_PUBLISHED:
		return PUBLISHED_MAX;
	case WIRE_ERROR:
		return WIRE_ERROR_MAX;
	case WIRE_REPORT_IS:
		return WIRE_REPORT_MAX;
	case WIRE_CHECKED:
		return WIRE_CHECKED_MAX;
	default:
		return 0;
	}
}

/* ---- life ------------------------------------------------------------ */

int connection_init(
	struct connection *c, int fd, const char *peer, int timeout_ms)
{
	pthread_condattr_t attr;
	int r;

	*c = (struct connection) {.fd = fd, .timeout_ms = timeout_ms};
	pthread_mutex_init(&c->send, NULL);
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->arrived, &attr);
	pthread_condattr_destroy(&attr);
	c->peer = strdup(peer);
	if (!c->peer)
		r = tarn_fail(ENOMEM, "connect: out of memory");
	/* A daemon that does not read must not block a sender for ever. */
	else if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		r = tarn_fail(errno, "connect: %s", tarn_errno_text(errno));
	else
		r = wire_writer_new(QUEUE_MAX, &c->writer);
	if (r < 0)
		connection_done(c);
	return r;
}

void connection_done(struct connection *c)
{
	wire_writer_free(c->writer);
	c->writer = NULL;
	wire_partial_clear(&c->partial);
	free(c->spare);
	c->spare = NULL;
	c->fd = fd_close(c->fd);
	free(c->peer);
	c->peer = NULL;
	pthread_mutex_destroy(&c->send);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->arrived);
}

/* ---- death ----------------------------------------------------------- */

/* With the lock held. The first cause is the one that is reported. The socket
 * stays open until the store is freed: closing it would end the leases, and the
 * memory of open tensors would be reused. */
static void die(struct connection *c, int err, const char *why)
{
	if (connection_is_dead(c))
		return;
	snprintf(c->why, sizeof(c->why), "%s", why);
	/* Release: pairs with the acquire load in connection_is_dead, for
	 * threads without the lock; the sentence is there. */
	atomic_store_explicit(&c->dead, err, memory_order_release);
	pthread_cond_broadcast(&c->arrived);
}

static void die_of(struct connection *c, int r)
{
	switch (r) {
	case -EPIPE:
	case -ECONNRESET:
		die(c, ECONNRESET, "it closed the connection");
		break;
	case -EPROTO:
	case -EMSGSIZE:
	case -ETOOMANYREFS:
		die(c, EPROTO, tarn_fail_message());
		break;
	default:
		die(c, -r, tarn_errno_text(r));
	}
}

/* An error that answers no call applies to all: it is the reason why the daemon
 * ends the connection, or does not accept it. */
static void die_of_error(struct connection *c, const struct wire_message *m)
{
	struct msg_error error;
	char text[sizeof(c->why)] = "";
	size_t n;

	if (m->size < sizeof(error))
		return;
	memcpy(&error, m->body, sizeof(error));
	n = MIN(m->size - sizeof(error), sizeof(text) - 1);
	memcpy(text, m->body + sizeof(error), n);
	if (error.error > 0 && error.error <= 4095)
		die(c, error.error, text);
}

static int receive(struct connection *c, struct wire_message *ret)
{
	const struct wire_reader reader = {.limit = reply_limit,
		.partial = &c->partial,
		.spare = &c->spare};

	return wire_receive(c->fd, &reader, ret);
}

int connection_error(const struct connection *c)
{
	return tarn_fail(
		connection_is_dead(c), "daemon at %s: %s", c->peer, c->why);
}

uint32_t connection_next_serial(struct connection *c)
{
	/* 0 is never used, so that a zeroed header answers no call; nor is the
	 * serial of notifications. */
	if (++c->serial == CONNECTION_NOTIFY_SERIAL)
		c->serial = 1;
	return c->serial;
}

/* ---- receiving ------------------------------------------------------- */

bool connection_is_held(struct connection *c)
{
	bool held;

	pthread_mutex_lock(&c->lock);
	held = c->held_at && clock_ms() - c->held_at < c->timeout_ms;
	pthread_mutex_unlock(&c->lock);
	return held;
}

/* With the lock held: gives a reply to the call that waits for it, if any. */
static void deliver(struct connection *c, struct wire_message *message)
{
	struct call *call = c->calls;

	while (call && call->out.serial != message->serial)
		call = call->next;
	if (!call) {
		if (message->type == WIRE_ERROR && message->serial == 0)
			die_of_error(c, message);
		else if (message->type == WIRE_PONG && message->serial == 0)
			c->held_at = clock_ms();
		wire_message_clear(message);
		return;
	}
	/* If a load began anew, the last one counts. */
	if (message->type != WIRE_LOADING)
		call->answered = true;
	else if (call->n_replies && !call->answered)
		wire_message_clear(&call->replies[--call->n_replies]);
	if (call->n_replies == CALL_REPLIES_MAX) {
		wire_message_clear(message);
		die(c, EPROTO, "it answered one request too often");
		return;
	}
	call->replies[call->n_replies++] = *message;
}

/* With the lock held: a message was lost, for lack of memory or of descriptors.
 * So the call that waited for it fails, since only a final reply can have a
 * long body or carry descriptors; the others are not affected. */
static void starve(
	struct connection *c, const struct wire_message *lost, int error)
{
	for (struct call *call = c->calls; call; call = call->next) {
		if (call->out.serial != lost->serial)
			continue;
		call->nomem = error;
		call->answered = true;
	}
}

/* With the lock held. The message is still in the socket, and a moment later
 * there may be memory for it. After many tries the waiting threads stop
 * trying. */
static void wait_for_memory(struct connection *c)
{
	int64_t now = clock_ms();

	if (!c->nomem_since)
		c->nomem_since = now;
	if (now - c->nomem_since < CONNECTION_NOMEM_MS)
		return;
	for (struct call *call = c->calls; call; call = call->next) {
		call->nomem = ENOMEM;
		call->answered = true;
	}
	c->nomem_since = 0;
}

/* Without the lock: receives one message, within ms; as wire_receive.
 * *ret_nomem: the error is a lack of memory to receive. */
static int receive_within(struct connection *c, int ms,
	struct wire_message *message, bool *ret_nomem)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	int pending_resend = connection_resend_pending(c), r;

	if (pending_resend < 0)
		return pending_resend;
	r = connection_push_on(c);
	if (r == 0)
		p.events |= POLLOUT;
	ms = MIN(ms, r < 0 || pending_resend ? CONNECTION_NAP_MS
					     : CONNECTION_LISTEN_MS);
	if (ms && poll(&p, 1, ms) <= 0)
		return -EAGAIN;
	r = receive(c, message);
	*ret_nomem = r == -ENOBUFS || r == -ENOMEM || r == -EMFILE;
	if (r == -ENOBUFS)
		usleep(1000);
	if (r <= 0)
		return r;
	if (message->type != WIRE_RESTARTED)
		return r;
	r = connection_resume(c, message);
	wire_message_clear(message);
	return r < 0 ? r : 0;
}

/* With the lock held, which it releases meanwhile. True: there may be more. */
static bool receive_for_all(struct connection *c, int64_t ms)
{
	struct wire_message message = {0};
	bool nomem = false;
	int r;

	c->receiving = true;
	pthread_mutex_unlock(&c->lock);
	r = receive_within(c, (int)MAX(ms, 0), &message, &nomem);
	pthread_mutex_lock(&c->lock);
	c->receiving = false;
	if (nomem && r == -ENOBUFS)
		wait_for_memory(c);
	else
		c->nomem_since = 0;
	if (r > 0)
		deliver(c, &message);
	else if (nomem && r != -ENOBUFS)
		starve(c, &message, -r);
	else if (r < 0 && r != -EAGAIN && !nomem)
		die_of(c, r);
	pthread_cond_broadcast(&c->arrived);
	return (r >= 0 || r == -EMFILE) && !connection_is_dead(c);
}

void connection_catch_up(struct connection *c)
{
	for (int i = 0; i < CONNECTION_UNASKED_MAX; i++)
		if (c->receiving || connection_is_dead(c) ||
			!receive_for_all(c, 0))
			break;
}

int connection_receive_unasked(struct connection *c)
{
	int r = connection_ready(c);

	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	connection_catch_up(c);
	r = connection_is_dead(c) ? connection_error(c) : 0;
	pthread_mutex_unlock(&c->lock);
	return r;
}

static void sleep_until(struct connection *c, int64_t deadline)
{
	struct timespec t = {.tv_sec = deadline / 1000,
		.tv_nsec = deadline % 1000 * 1000000};

	pthread_cond_timedwait(&c->arrived, &c->lock, &t);
}

/* With the lock held, after a send has failed. What the daemon sent before it
 * closed the connection counts: answers, and the reason. If another thread is
 * receiving, it finds the end. */
static void receive_rest(struct connection *c, int r)
{
	int64_t until = clock_ms() + CONNECTION_LISTEN_MS;

	for (int i = 0; i < CONNECTION_UNASKED_MAX; i++) {
		struct wire_message m = {0};

		if (connection_is_dead(c))
			break;
		if (c->receiving && r == -EPIPE && clock_ms() < until) {
			sleep_until(c, clock_ms() + CONNECTION_NAP_MS);
			continue;
		}
		if (c->receiving || receive(c, &m) <= 0)
			break;
		deliver(c, &m);
	}
}

int connection_broken(struct connection *c, int r)
{
	pthread_mutex_lock(&c->lock);
	receive_rest(c, r);
	die_of(c, r);
	r = connection_error(c);
	pthread_mutex_unlock(&c->lock);
	return r;
}

void connection_turn(struct connection *c, int64_t deadline)
{
	if (c->receiving)
		sleep_until(c, deadline);
	else
		receive_for_all(c, MAX(deadline - clock_ms(), 1));
}
