/* SPDX-License-Identifier: MIT */
/*
 * Going on with another server over the same connection.
 *
 * The dead one may have read what was asked and answered nothing of it. So
 * when the next one makes itself known, whoever is receiving says that we
 * resume, and then asks everything once more that has no answer yet, each with
 * its old serial and a flag, by which the daemon finds what was done already.
 * Nobody who waits notices.
 *
 * Everything that is said on a connection is said under the send lock. What
 * was said before "resume" is not heard by the new server, what is said after
 * it is: a call is asked again if and only if it had been sent when that lock
 * was taken, so that none is heard twice.
 *
 * Once: what was asked of two servers that died may be what they died of. One
 * that was ended for an upgrade did not die of anything.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/connection.h"

/* With both locks held. What cannot be asked again fails by itself. */
static void ask_again(struct connection *c, struct call *call, bool died)
{
	if (!call->sent || call->answered || call->failed)
		return;
	/* "Loading" of a load that begins anew. */
	while (call->n_replies)
		wire_message_clear(&call->replies[--call->n_replies]);
	if ((died && call->suspect) ||
		wire_push_again(c->writer, call->type, call->serial, call->body,
			call->size, call->fds, call->n_fds) < 0)
		call->failed = true;
	call->resent = true;
	call->suspect |= died;
}

/* With both locks held. Without it nothing is heard on this connection any
 * more, so memory for it is waited for. */
static int say_resume(
	struct connection *c, const struct msg_restarted *restarted)
{
	uint32_t serial = connection_next_serial(c);
	int64_t deadline = clock_ms() + CONNECTION_STARVED_MS;
	int r;

	while ((r = wire_push(c->writer, WIRE_RESUME, serial, restarted,
			sizeof(*restarted), NULL, 0)) == -ENOMEM &&
		clock_ms() < deadline)
		usleep(CONNECTION_NAP_MS * 1000);
	return r;
}

int connection_resume(struct connection *c, const struct wire_message *news)
{
	struct msg_restarted restarted = {0};
	int r;

	if (news->size >= sizeof(restarted))
		memcpy(&restarted, news->body, sizeof(restarted));
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	r = say_resume(c, &restarted);
	for (struct call *call = c->calls; call && r >= 0; call = call->next)
		ask_again(c, call, !(restarted.flags & RESTARTED_UPGRADE));
	pthread_cond_broadcast(&c->arrived);
	pthread_mutex_unlock(&c->lock);
	if (r >= 0)
		r = connection_flush(c);
	pthread_mutex_unlock(&c->send);
	return r;
}

void connection_note(struct connection *c, uint32_t flags)
{
	atomic_store_explicit(
		&c->says_since, flags & WELCOME_SINCE, memory_order_relaxed);
}

bool connection_is_moved(const struct wire_message *reply)
{
	struct msg_welcome welcome;

	if (reply->type != WIRE_WELCOME || reply->size < sizeof(welcome) ||
		reply->n_fds != 1)
		return false;
	memcpy(&welcome, reply->body, sizeof(welcome));
	return welcome.flags & WELCOME_MOVED;
}

int call_lost(const struct connection *c)
{
	return tarn_fail(ECONNRESET,
		"daemon at %s: its server died twice while it worked on this; "
		"is this what it dies of? Its log says more",
		c->peer);
}
