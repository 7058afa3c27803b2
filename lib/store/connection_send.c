/* SPDX-License-Identifier: MIT */
/*
 * What is said on a connection.
 *
 * The idea: a queue that remembers what is not away yet. A daemon that does not
 * read, or a system that is short for a moment, ends the call that waited, and
 * not the connection: what has begun stays in the queue, from a frame's
 * beginning, and goes out before anything else does.
 */
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/connection.h"

/* What a socket that is full, or a system that is short for a moment, makes of
 * a call. Nothing is wrong with the connection: what is queued goes out later.
 */
static bool is_passing(int r)
{
	return r == -ETIMEDOUT || wire_is_short(r);
}

/* Until all is away. -ETIMEDOUT, or the system has been short for too long. */
static int flush(struct connection *c)
{
	int64_t now = clock_ms(), deadline = now + c->timeout_ms;
	int64_t short_until = now + CONNECTION_STARVED_MS;
	int r;

	while ((r = wire_flush(c->writer, c->fd)) != 1) {
		struct pollfd p = {.fd = c->fd, .events = POLLOUT};
		bool is_short = wire_is_short(r);

		now = clock_ms();
		if (r < 0 && (!is_short || now >= short_until))
			break;
		if (now >= deadline)
			return -ETIMEDOUT;
		/* Who is short has a socket that takes something: no poll. */
		if (is_short)
			usleep(CONNECTION_NAP_MS * 1000);
		else
			poll(&p, 1, (int)(deadline - now));
	}
	return r;
}

int connection_flush(struct connection *c)
{
	int r = flush(c);

	return is_passing(r) ? 0 : r;
}

int connection_push_on(struct connection *c)
{
	int r;

	/* Who is sending sends all that there is. */
	if (pthread_mutex_trylock(&c->send) != 0)
		return 1;
	r = wire_flush(c->writer, c->fd);
	pthread_mutex_unlock(&c->send);
	/* All else is noticed where it is heard. */
	return r < 0 && !wire_is_short(r) ? 1 : r;
}

/* From here on another server is asked, too. */
static void note_sent(struct connection *c, struct call *call)
{
	pthread_mutex_lock(&c->lock);
	call->sent = true;
	pthread_mutex_unlock(&c->lock);
}

/* With the send lock held: the call ends, the connection does not. None of it
 * is said if none of it was; what has begun is said to its end, sooner or
 * later, as if nobody had waited any longer for the answer. */
static int give_up(struct connection *c, struct call *call, int r)
{
	wire_take_back(c->writer);
	pthread_mutex_lock(&c->lock);
	call->failed = true; /* not to be asked again */
	pthread_mutex_unlock(&c->lock);
	if (r == -ETIMEDOUT)
		return tarn_fail(ETIMEDOUT,
			"daemon at %s: it does not read what is sent to it: "
			"nothing within %d ms",
			c->peer, c->timeout_ms);
	return tarn_fail(-r,
		"daemon at %s: the system is too short of memory or "
		"descriptors to send to it: %s",
		c->peer, tarn_errno_text(r));
}

/* With the send lock held; call: NULL for what nobody answers, which is not
 * waited for, either. */
static int say(struct connection *c, struct call *call, uint16_t type,
	uint32_t serial, const void *body, size_t size, const int *fds,
	int n_fds, bool *ret_broken)
{
	bool again = type == WIRE_HELLO && c->greeted;
	int r = (again ? wire_push_again : wire_push)(
		c->writer, type, serial, body, size, fds, n_fds);

	if (r < 0)
		return r;
	if (call)
		note_sent(c, call);
	r = call ? flush(c) : wire_flush(c->writer, c->fd);
	if (call && is_passing(r))
		return give_up(c, call, r);
	*ret_broken = r < 0 && !is_passing(r);
	return *ret_broken ? r : 0;
}

int connection_send(struct connection *c, struct call *call, uint16_t type,
	uint32_t serial, const void *body, size_t size, const int *fds,
	int n_fds)
{
	bool broken = false;
	int r;

	if (connection_is_dead(c))
		return connection_error(c);
	pthread_mutex_lock(&c->send);
	r = say(c, call, type, serial, body, size, fds, n_fds, &broken);
	pthread_mutex_unlock(&c->send);
	return broken ? connection_broken(c, r) : r;
}

int connection_notify(
	struct connection *c, uint16_t type, const void *body, size_t size)
{
	uint32_t serial;
	int r = connection_ready(c);

	if (r < 0)
		return r;
	pthread_mutex_lock(&c->lock);
	serial = connection_next_serial(c);
	pthread_mutex_unlock(&c->lock);
	return connection_send(c, NULL, type, serial, body, size, NULL, 0);
}
