/* SPDX-License-Identifier: MIT */
/*
 * Requests and replies over one socket, for many threads.
 *
 * The idea: whoever waits and finds nobody at the socket receives, for
 * everybody; the others sleep on a condition until a reply of theirs was put
 * beside their call or the socket has become free. A reply to a call that
 * has been given up finds no taker and is dropped.
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

/* The longest message, its frames' headers, and as many bells as may pile up
 * while a daemon does not read. */
#define QUEUE_MAX (WIRE_MESSAGE_MAX + (4u << 20))

/* A number for each name, and what became of each source. */
#define PUBLISHED_MAX                                                          \
	(sizeof(struct msg_published) +                                        \
		PUBLISH_SOURCES_MAX * sizeof(struct msg_stored) +              \
		LOAD_NAMES_MAX * sizeof(uint64_t))

/* What a reply of each type may hold: a newer daemon's may be longer than the
 * struct that we know, a sentence has its limit. What is no call's last word,
 * a load's notice and the news of another server, must not be lost: who waits
 * would be told that his load has failed, or would wait for ever. */
static uint32_t reply_limit(uint16_t type)
{
	switch (type) {
	case WIRE_WELCOME:
	case WIRE_SEGMENT_FDS:
	case WIRE_LOADING:
	case WIRE_LOADED:
	case WIRE_DONE:
	case WIRE_STATUS_IS:
	case WIRE_STORAGE_FD:
	case WIRE_CHANNEL_IS:
	case WIRE_LEASE_PAGE:
	case WIRE_RESTARTED:
		return WIRE_RESERVE;
	case WIRE_PUBLISHED:
		return PUBLISHED_MAX;
	case WIRE_ERROR:
		return WIRE_REQUEST_MAX;
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
	/* A daemon that does not read must not hold a sender for ever. */
	else if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
		r = tarn_fail(errno, "connect: %s", tarn_errno_text(errno));
	else
		r = wire_reader_new(&c->reader);
	if (r >= 0)
		r = wire_writer_new(QUEUE_MAX, &c->writer);
	if (r < 0)
		connection_done(c);
	return r;
}

void connection_done(struct connection *c)
{
	wire_reader_free(c->reader);
	c->reader = NULL;
	wire_writer_free(c->writer);
	c->writer = NULL;
	c->fd = fd_close(c->fd);
	free(c->peer);
	c->peer = NULL;
	pthread_mutex_destroy(&c->send);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->arrived);
}

/* ---- death ----------------------------------------------------------- */

/* With the lock held. The first cause is the one that is told. The socket stays
 * open until the store goes: with it would go the leases, and the memory of
 * whoever reads what he has open would be given to others. */
static void die(struct connection *c, int err, const char *why)
{
	if (connection_is_dead(c))
		return;
	snprintf(c->why, sizeof(c->why), "%s", why);
	/* Release: pairs with the acquire load in connection_is_dead, for who
	 * has no lock; the sentence is there. */
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

/* An error that answers no call answers all: it says why the daemon hangs up,
 * or does not let us in. */
static void die_as_told(struct connection *c, const struct wire_message *m)
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

/* A reset, for what the daemon did not read any more, comes before what it
 * said last. */
static int receive(struct connection *c, struct wire_message *ret)
{
	int r = wire_receive(c->reader, c->fd, reply_limit, ret);

	return r == -EPIPE ? wire_receive(c->reader, c->fd, reply_limit, ret)
			   : r;
}

/* With the lock held: it hung up; did it say why? */
static void hear_last_words(struct connection *c)
{
	struct wire_message m = {0};

	while (!connection_is_dead(c) && !c->receiving && receive(c, &m) > 0) {
		if (m.type == WIRE_ERROR && m.serial == 0)
			die_as_told(c, &m);
		wire_message_clear(&m);
	}
}

int connection_error(const struct connection *c)
{
	return tarn_fail(
		connection_is_dead(c), "daemon at %s: %s", c->peer, c->why);
}

int connection_broken(struct connection *c, int r)
{
	pthread_mutex_lock(&c->lock);
	hear_last_words(c);
	die_of(c, r);
	r = connection_error(c);
	pthread_mutex_unlock(&c->lock);
	return r;
}

uint32_t connection_next_serial(struct connection *c)
{
	/* 0 is never used, so that a zeroed header answers nobody. */
	if (!++c->serial)
		c->serial = 1;
	return c->serial;
}

/* ---- receiving ------------------------------------------------------- */

/* With the lock held: to the call that waits for it, or to nobody. */
static void deliver(struct connection *c, struct wire_message *message)
{
	struct call *call = c->calls;

	while (call && call->serial != message->serial)
		call = call->next;
	if (!call) {
		if (message->type == WIRE_ERROR && message->serial == 0)
			die_as_told(c, message);
		wire_message_clear(message);
		return;
	}
	/* Of a load that began anew, the last one counts. */
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

/* With the lock held: what came is lost, for want of memory or of descriptors,
 * and so is the call that waited for it, since only a last word can be longer
 * than WIRE_RESERVE, or bring descriptors; the others are as well off as
 * before. */
static void starve(
	struct connection *c, const struct wire_message *lost, int error)
{
	/* Nobody waits for the next table, and nobody says it again. */
	c->moved_lost |= lost->type == WIRE_WELCOME;
	for (struct call *call = c->calls; call; call = call->next) {
		if (call->serial != lost->serial)
			continue;
		call->starved = error;
		call->answered = true;
	}
}

/* With the lock held. What has come lies there still, and a moment later there
 * may be memory for it. After many, those who wait do it no longer. */
static void wait_for_memory(struct connection *c)
{
	int64_t now = clock_ms();

	if (!c->starved_at)
		c->starved_at = now;
	if (now - c->starved_at < CONNECTION_STARVED_MS)
		return;
	for (struct call *call = c->calls; call; call = call->next) {
		call->starved = ENOMEM;
		call->answered = true;
	}
	c->starved_at = 0;
}

/* Without the lock. What this process is too short of to map it is no fault of
 * the connection's: it is asked for again, as one that could not be opened. */
static int follow(struct connection *c, const struct wire_message *m)
{
	int r = c->moved ? c->moved(c->moved_arg, m->fds[0]) : 0;
	struct msg_welcome welcome;

	memcpy(&welcome, m->body, sizeof(welcome));
	connection_note(c, welcome.flags);
	if (!wire_is_short(r) && r != -EAGAIN && r != -EMFILE && r != -ENFILE)
		return r;
	pthread_mutex_lock(&c->lock);
	c->moved_lost = true;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* Without the lock: one frame, within so many ms; as wire_receive.
 * *ret_starved: what it returns is for want of memory to receive. */
static int receive_within(struct connection *c, int ms,
	struct wire_message *message, bool *ret_starved)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	bool owed = connection_ask_owed(c);
	int r = connection_push_on(c);

	if (r == 0)
		p.events |= POLLOUT;
	ms = MIN(ms, r < 0 || owed ? CONNECTION_NAP_MS : CONNECTION_LISTEN_MS);
	if (ms && poll(&p, 1, ms) <= 0)
		return -EAGAIN;
	r = receive(c, message);
	*ret_starved = r == -ENOBUFS || r == -ENOMEM || r == -EMFILE;
	if (r == -ENOBUFS)
		usleep(1000);
	if (r <= 0)
		return r;
	if (message->type == WIRE_RESTARTED)
		r = connection_resume(c, message);
	else if (connection_is_moved(message))
		r = follow(c, message);
	else
		return r;
	wire_message_clear(message);
	return r < 0 ? r : 0;
}

/* With the lock held, which is given up meanwhile. True: there may be more. */
static bool receive_for_all(struct connection *c, int64_t ms)
{
	struct wire_message message = {0};
	bool starved = false;
	int r;

	c->receiving = true;
	pthread_mutex_unlock(&c->lock);
	r = receive_within(c, (int)MAX(ms, 0), &message, &starved);
	pthread_mutex_lock(&c->lock);
	c->receiving = false;
	if (starved && r == -ENOBUFS)
		wait_for_memory(c);
	else
		c->starved_at = 0;
	if (r > 0)
		deliver(c, &message);
	else if (starved && r != -ENOBUFS)
		starve(c, &message, -r);
	else if (r < 0 && r != -EAGAIN && !starved)
		die_of(c, r);
	pthread_cond_broadcast(&c->arrived);
	return (r >= 0 || r == -EMFILE) && !connection_is_dead(c);
}

void connection_catch_up(struct connection *c)
{
	while (!c->receiving && !connection_is_dead(c) && receive_for_all(c, 0))
		;
}

int connection_hear(struct connection *c)
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

void connection_turn(struct connection *c, int64_t deadline)
{
	if (c->receiving)
		sleep_until(c, deadline);
	else
		receive_for_all(c, MAX(deadline - clock_ms(), 1));
}

int connection_await(struct connection *c, int timeout_ms,
	bool (*done)(void *arg), void *arg)
{
	int64_t deadline = clock_ms() + timeout_ms;
	int r = connection_ready(c);

	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	while (r >= 0 && !done(arg)) {
		if (connection_is_dead(c))
			r = connection_error(c);
		else if (clock_ms() >= deadline)
			r = -ETIMEDOUT;
		else
			connection_turn(c, deadline);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}
