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
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/connection.h"

/* What there is room for a moment later. */
static bool is_passing(int r)
{
	return wire_is_short(r) || r == -EMFILE || r == -ENFILE;
}

/* With both locks held. Without it nothing is heard on this connection any
 * more, so memory for it is waited for. */
static int say_resume(struct connection *c,
	const struct msg_restarted *restarted, int64_t deadline)
{
	uint32_t serial = connection_next_serial(c);
	int r;

	while ((r = wire_push(c->writer, WIRE_RESUME, serial, restarted,
			sizeof(*restarted), NULL, 0)) == -ENOMEM &&
		clock_ms() < deadline)
		usleep(CONNECTION_NAP_MS * 1000);
	return r;
}

/* With both locks held. The socket takes some of what is queued meanwhile,
 * which makes room; if it does not, that is seen when all of it is sent. */
static int say_again(
	struct connection *c, const struct call *call, int64_t deadline)
{
	int r;

	while (is_passing(r = wire_push_again(c->writer, call->type,
				  call->serial, call->body, call->size,
				  call->fds, call->n_fds)) &&
		clock_ms() < deadline) {
		wire_flush(c->writer, c->fd);
		usleep(CONNECTION_NAP_MS * 1000);
	}
	return r;
}

/* With both locks held. What cannot be asked again fails by itself. */
static void ask_again(
	struct connection *c, struct call *call, bool died, int64_t deadline)
{
	int r = 0;

	if (!call->sent || call->answered || call->failed)
		return;
	/* "Loading" of a load that begins anew. */
	while (call->n_replies)
		wire_message_clear(&call->replies[--call->n_replies]);
	if (died && call->suspect)
		call->failed = true;
	else
		r = say_again(c, call, deadline);
	if (r < 0) {
		call->failed = true;
		call->unsaid = -r;
	}
	call->resent = true;
	call->suspect |= died;
}

int connection_resume(struct connection *c, const struct wire_message *news)
{
	struct msg_restarted restarted = {0};
	int64_t deadline; /* for all calls: others wait for the locks */
	bool died;
	int r;

	if (news->size >= sizeof(restarted))
		memcpy(&restarted, news->body, sizeof(restarted));
	died = !(restarted.flags & RESTARTED_UPGRADE);
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	deadline = clock_ms() + CONNECTION_STARVED_MS;
	r = say_resume(c, &restarted, deadline);
	for (struct call *call = c->calls; call && r >= 0; call = call->next)
		ask_again(c, call, died, deadline);
	pthread_cond_broadcast(&c->arrived);
	pthread_mutex_unlock(&c->lock);
	if (r >= 0)
		r = connection_flush(c);
	pthread_mutex_unlock(&c->send);
	return r;
}

void connection_note(struct connection *c, uint32_t flags)
{
	atomic_store_explicit(&c->understands, flags, memory_order_relaxed);
}

bool connection_knows(const struct connection *c, uint32_t flag)
{
	return atomic_load_explicit(&c->understands, memory_order_relaxed) &
	       flag;
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

int call_lost(const struct connection *c, const struct call *call)
{
	if (call->unsaid == EMFILE)
		return tarn_fail(EMFILE,
			"daemon at %s: its server was replaced, and this "
			"process cannot open the descriptors to ask the next "
			"one the same; close some, or raise the limit on open "
			"files (ulimit -n), and look whether it was done "
			"before you do it again",
			c->peer);
	if (call->unsaid)
		return tarn_fail(call->unsaid,
			"daemon at %s: its server was replaced, and the next "
			"one could not be asked the same: %s; look whether it "
			"was done before you do it again",
			c->peer, tarn_errno_text(call->unsaid));
	return tarn_fail(ECONNRESET,
		"daemon at %s: its server died twice while it worked on this; "
		"is this what it dies of? Its log says more",
		c->peer);
}
