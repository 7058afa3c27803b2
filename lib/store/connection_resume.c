/* SPDX-License-Identifier: MIT */
/*
 * Continuing with another server over the same connection.
 *
 * The dead server may have read requests and answered none of them. So when the
 * next one makes itself known, the receiving thread sends WIRE_RESUME, and then
 * every unanswered request once more, each with its old serial and a flag, by
 * which the daemon finds the ones that were done already. Waiting callers
 * notice nothing.
 *
 * Every message is sent, or queued, under the send lock, and none overtakes the
 * queue. The new server discards messages sent before WIRE_RESUME, and reads
 * those sent after it: a call is sent again if and only if it was sent when
 * that lock was taken, so that the server reads none twice. A call that still
 * waits for the socket is sent later, after the queue, as if it were new.
 *
 * If this process lacks resources for that, its own threads may be about to
 * free them, or the server to read; so no lock is held while it waits: the
 * call is marked as pending, and each thread that waits for an answer tries
 * again in a moment.
 *
 * WIRE_RESENT follows the last of them. The server then forgets its records of
 * requests that were not sent again, since this process has their answers. So
 * it is sent when no call is pending, and no earlier.
 *
 * A call is sent again only once: a request that two servers processed when
 * they died may be the cause. A server that was ended for an upgrade did not
 * die of a request.
 */
#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/connection.h"

/* A lack that may be over a moment later. */
static bool is_passing(int r)
{
	return wire_is_short(r);
}

/* With both locks held. False: there is no room for it now. */
static bool resend(struct connection *c, struct call *call)
{
	struct wire_out out = call->out;
	int r;

	out.again = true;
	r = wire_push(c->writer, &out);
	if (is_passing(r) && clock_ms() < c->resend_until)
		return false;
	call->pending_resend = false;
	call->resent = true;
	if (r < 0) {
		call->failed = true;
		call->unsent_error = -r;
	}
	return true;
}

/* With both locks held. Without memory for it it is sent in a moment. */
static bool send_resent(struct connection *c)
{
	return wire_push(c->writer,
		       WIRE_OUT(WIRE_RESENT, connection_next_serial(c), NULL,
			       0)) == 0;
}

/* With both locks held: sends all pending calls for which there is room, and
 * the rest in a moment. Another thread may have done it meanwhile. */
static void resend_all(struct connection *c)
{
	bool all = c->resend_until;

	for (struct call *call = c->calls; call; call = call->next)
		if (call->pending_resend && !call->answered)
			all &= resend(c, call);
	if (all && send_resent(c))
		c->resend_until = 0;
}

/* With both locks held: marks the call as pending. */
static void owe(struct call *call, bool died)
{
	if (!call->sent || call->answered || call->failed)
		return;
	/* WIRE_LOADING of a load that begins anew. */
	while (call->n_replies)
		wire_message_clear(&call->replies[--call->n_replies]);
	/* If it is still pending, the last server has not received it. */
	call->failed = died && call->suspect && !call->pending_resend;
	call->pending_resend = !call->failed;
	call->suspect |= died;
}

/* With both locks held. The new server discards messages sent before
 * WIRE_RESUME, so all those calls are pending from then on. Without memory for
 * it: in a moment, until resend_until. */
static int send_resume(struct connection *c)
{
	int r = wire_push(
		c->writer, WIRE_OUT(WIRE_RESUME, connection_next_serial(c),
				   &c->resume, sizeof(c->resume)));

	if (r == -ENOMEM && clock_ms() < c->resend_until)
		return 0;
	if (r < 0)
		return r;
	c->resume_pending = false;
	c->resend_until = clock_ms() + CONNECTION_NOMEM_MS;
	for (struct call *call = c->calls; call; call = call->next)
		owe(call, c->resume_died);
	return 0;
}

/* With both locks held. */
static int send_pending(struct connection *c)
{
	int r = c->resume_pending ? send_resume(c) : 0;

	if (r == 0 && !c->resume_pending)
		resend_all(c);
	return r;
}

int connection_resume(struct connection *c, const struct wire_message *news)
{
	bool died;
	int r;

	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	c->resume = (struct msg_restarted) {0};
	if (news->size >= sizeof(c->resume))
		memcpy(&c->resume, news->body, sizeof(c->resume));
	died = !(c->resume.flags & RESTARTED_UPGRADE);
	c->resume_died = died || (c->resume_pending && c->resume_died);
	c->resume_pending = true;
	c->resend_until = clock_ms() + CONNECTION_NOMEM_MS;
	r = send_pending(c);
	pthread_cond_broadcast(&c->arrived);
	pthread_mutex_unlock(&c->lock);
	/* The receiving thread sends the rest when the socket takes it. */
	if (r >= 0) {
		r = connection_push_on_locked(c);
		r = wire_is_short(r) ? 0 : MIN(r, 0);
	}
	pthread_mutex_unlock(&c->send);
	return r;
}

static bool is_owing(struct connection *c)
{
	bool resending;

	pthread_mutex_lock(&c->lock);
	resending = c->resend_until;
	pthread_mutex_unlock(&c->lock);
	return resending;
}

int connection_resend_pending(struct connection *c)
{
	int r;

	if (!is_owing(c))
		return 0;
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	r = send_pending(c);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&c->send);
	return r < 0 ? r : 1;
}

int call_lost(const struct connection *c, const struct call *call)
{
	if (call->unsent_error == EMFILE)
		return tarn_fail(EMFILE,
			"daemon at %s: its server was replaced, and this "
			"process cannot open the descriptors to ask the next "
			"one the same; close some, or raise the limit on open "
			"files (ulimit -n), and look whether it was done "
			"before you do it again",
			c->peer);
	if (call->unsent_error)
		return tarn_fail(call->unsent_error,
			"daemon at %s: its server was replaced, and the next "
			"one could not be asked the same: %s; look whether it "
			"was done before you do it again",
			c->peer, tarn_errno_text(call->unsent_error));
	return tarn_fail(ECONNRESET,
		"daemon at %s: its server died twice while it processed this "
		"request, which may be the cause; see its log",
		c->peer);
}
