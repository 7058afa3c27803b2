/* SPDX-License-Identifier: MIT */
/*
 * One call: a request, until it is answered or given up.
 *
 * A call is listed with its connection for as long as its caller waits, so that
 * the receiving thread finds it by its serial, and can send it again to another
 * server.
 */
#include "lib/store/connection.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"

/* How often a call is sent again because the daemon asks for it. Picked. */
#define AGAIN_MAX 100
/* A wait that takes so much longer was not slow: the caller did not run. Picked,
 * above the delays of a busy machine. */
#define STALL_MS 500

int call_begin(
	struct connection *c, struct call *call, const struct wire_out *out)
{
	int r = connection_ready(c);

	if (r < 0)
		return r;
	*call = (struct call) {.out = *out};
	pthread_mutex_lock(&c->lock);
	connection_catch_up(c);
	call->out.serial = connection_next_serial(c);
	call->next = c->calls;
	c->calls = call;
	pthread_mutex_unlock(&c->lock);
	r = connection_send(c, call);
	if (r < 0)
		call_end(c, call);
	return r;
}

/* With the lock held. A forked child's connection has none of the calls that
 * were under way. */
static bool is_listed(const struct connection *c, const struct call *call)
{
	const struct call *listed = c->calls;

	while (listed && listed != call)
		listed = listed->next;
	return listed;
}

static int call_nomem(const struct connection *c, const struct call *call)
{
	if (call->nomem == EMFILE)
		return tarn_fail(EMFILE,
			"daemon at %s: this process cannot open the "
			"descriptors that its answer brings; close some, or "
			"raise the limit on open files (ulimit -n)",
			c->peer);
	return tarn_fail(
		call->nomem, "daemon at %s: no memory for its answer", c->peer);
}

/* With the lock held: connection_turn. Returns the ms for which the caller did not
 * run meanwhile: it was stopped, or the machine was, or this has no processor to
 * spare. The daemon may not have run either, so that this time does not count. */
static int64_t turn(struct connection *c, int64_t deadline)
{
	int64_t until = MIN(deadline, clock_ms() + CONNECTION_LISTEN_MS), over;

	connection_turn(c, until);
	over = clock_ms() - until;
	return over > STALL_MS ? over : 0;
}

/* With the lock held. A thread that was not run for long may find the time over
 * and its answer in the socket. */
static void look_once_more(struct connection *c)
{
	if (c->receiving)
		connection_turn(c, clock_ms() + CONNECTION_NAP_MS);
	connection_catch_up(c);
}

int call_next(struct connection *c, struct call *call, int timeout_ms,
	struct wire_message *ret)
{
	int64_t deadline = clock_ms() + timeout_ms, stall = 0;
	bool longer = false, late = false;
	int r = -1;

	pthread_mutex_lock(&c->lock);
	while (r < 0) {
		if (call->n_replies) {
			*ret = call->replies[0];
			call->replies[0] = call->replies[1];
			call->n_replies--;
			r = 1;
		} else if (connection_is_dead(c)) {
			r = connection_error(c);
			break;
		} else if (call->failed) {
			r = call_lost(c, call);
			break;
		} else if (call->nomem) {
			r = call_nomem(c, call);
			break;
		} else if (!is_listed(c, call)) {
			r = tarn_fail(ECONNRESET,
				"daemon at %s: this call belongs to the "
				"parent, which made it before fork()",
				c->peer);
			break;
		} else if (clock_ms() < deadline) {
			stall = turn(c, deadline);
			deadline += stall;
		} else if (stall && !longer) {
			/* Once: the answer may come soon, now that all run. */
			longer = true;
			deadline = clock_ms() + CONNECTION_LISTEN_MS;
		} else if (!late) {
			late = true;
			look_once_more(c);
		} else {
			r = 0;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

void call_end(struct connection *c, struct call *call)
{
	pthread_mutex_lock(&c->lock);
	for (struct call **p = &c->calls; *p; p = &(*p)->next) {
		if (*p == call) {
			*p = call->next;
			break;
		}
	}
	while (call->n_replies)
		wire_message_clear(&call->replies[--call->n_replies]);
	pthread_mutex_unlock(&c->lock);
}

bool call_was_resent(struct connection *c, const struct call *call)
{
	bool resent;

	pthread_mutex_lock(&c->lock);
	resent = call->resent;
	pthread_mutex_unlock(&c->lock);
	return resent;
}

bool call_asks_again(int r, int64_t until)
{
	if (r != -ETOOMANYREFS || clock_ms() >= until)
		return false;
	usleep(CONNECTION_NAP_MS * 1000);
	return true;
}

/* ---- whole calls ----------------------------------------------------- */

/* The daemon's sentence as a bounded, terminated string. */
static int daemon_error(
	const struct connection *c, const struct wire_message *reply)
{
	struct msg_error error;
	char text[TARN_MESSAGE_MAX];
	size_t n;

	if (reply->size < sizeof(error))
		return tarn_fail(EPROTO,
			"daemon at %s: an error of %u bytes, %zu are the least",
			c->peer, reply->size, sizeof(error));
	memcpy(&error, reply->body, sizeof(error));
	if (error.error <= 0 || error.error > 4095)
		return tarn_fail(EPROTO, "daemon at %s: error number %d",
			c->peer, error.error);
	n = MIN(reply->size - sizeof(error), sizeof(text) - 1);
	memcpy(text, reply->body + sizeof(error), n);
	text[n] = '\0';
	if (!text[0])
		return tarn_fail(error.error, "daemon at %s: %s", c->peer,
			tarn_errno_text(error.error));
	return tarn_fail_verbatim(error.error, text);
}

int call_expect(const struct connection *c, const struct wire_message *reply,
	uint16_t want, uint32_t min_size)
{
	if (reply->type == WIRE_ERROR)
		return daemon_error(c, reply);
	if (reply->type != want)
		return tarn_fail(EPROTO,
			"daemon at %s: answered with message %u, not %u",
			c->peer, reply->type, want);
	if (reply->size < min_size)
		return tarn_fail(EPROTO,
			"daemon at %s: message %u has %u bytes, %u are needed",
			c->peer, reply->type, reply->size, min_size);
	return 0;
}

static int call_once(struct connection *c, uint16_t type, const void *body,
	size_t size, uint16_t want, uint32_t min_size, struct wire_message *ret)
{
	struct wire_message reply = {0};
	struct call call;
	int r;

	r = call_begin(c, &call, WIRE_OUT(type, 0, body, size));
	if (r < 0)
		return r;
	do
		r = call_next(c, &call, c->timeout_ms, &reply);
	while (r == 0 && connection_is_held(c));
	call_end(c, &call);
	if (r == 0)
		return tarn_fail(ETIMEDOUT,
			"daemon at %s: no answer within %d ms", c->peer,
			c->timeout_ms);
	if (r < 0)
		return r;
	r = call_expect(c, &reply, want, min_size);
	if (r < 0)
		wire_message_clear(&reply);
	else
		*ret = reply;
	return r;
}

int connection_call(struct connection *c, uint16_t type, const void *body,
	size_t size, uint16_t want, uint32_t min_size, struct wire_message *ret)
{
	int64_t until = clock_ms() + CONNECTION_AGAIN_MS;
	int r = -EAGAIN;

	/* Unread answers to other threads lay before this one, too many for the
	 * daemon to send descriptors after them. They have been read by now. */
	for (int i = 0; i < AGAIN_MAX && r == -EAGAIN; i++)
		do
			r = call_once(c, type, body, size, want, min_size, ret);
		while (call_asks_again(r, until));
	return r;
}
