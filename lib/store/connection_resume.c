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
 * What this process is out of for that, its own threads may be about to give
 * back, or the server to take; so no lock is held while it is waited for: the
 * call is owed, and whoever waits for an answer tries again in a moment.
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

/* With both locks held. False: there is no room for it now. */
static bool say_again(struct connection *c, struct call *call)
{
	int r = wire_push_again(c->writer, call->type, call->serial, call->body,
		call->size, call->fds, call->n_fds);

	if (is_passing(r) && clock_ms() < c->owed_until)
		return false;
	call->owed = false;
	call->resent = true;
	if (r < 0) {
		call->failed = true;
		call->unsaid = -r;
	}
	return true;
}

/* With both locks held: all that is owed and that there is room for, and the
 * rest in a moment. */
static void say_all_again(struct connection *c)
{
	bool all = true;

	for (struct call *call = c->calls; call; call = call->next)
		if (call->owed && !call->answered)
			all &= say_again(c, call);
	if (all)
		c->owed_until = 0;
}

/* With both locks held: from here on it is owed. */
static void owe(struct call *call, bool died)
{
	if (!call->sent || call->answered || call->failed)
		return;
	/* "Loading" of a load that begins anew. */
	while (call->n_replies)
		wire_message_clear(&call->replies[--call->n_replies]);
	/* The last server has not heard it if it is owed still. */
	call->failed = died && call->suspect && !call->owed;
	call->owed = !call->failed;
	call->suspect |= died;
}

int connection_resume(struct connection *c, const struct wire_message *news)
{
	struct msg_restarted restarted = {0};
	bool died;
	int r;

	if (news->size >= sizeof(restarted))
		memcpy(&restarted, news->body, sizeof(restarted));
	died = !(restarted.flags & RESTARTED_UPGRADE);
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
	c->owed_until = clock_ms() + CONNECTION_STARVED_MS;
	r = say_resume(c, &restarted, c->owed_until);
	for (struct call *call = c->calls; call && r >= 0; call = call->next)
		owe(call, died);
	if (r >= 0)
		say_all_again(c);
	pthread_cond_broadcast(&c->arrived);
	pthread_mutex_unlock(&c->lock);
	if (r >= 0)
		r = connection_flush(c);
	pthread_mutex_unlock(&c->send);
	return r;
}

static bool is_owing(struct connection *c)
{
	bool owing;

	pthread_mutex_lock(&c->lock);
	owing = c->owed_until;
	pthread_mutex_unlock(&c->lock);
	return owing;
}

bool connection_ask_owed(struct connection *c)
{
	if (!is_owing(c))
		return false;
	/* Who is sending may wait for us to read what comes. */
	if (pthread_mutex_trylock(&c->send) != 0)
		return true;
	pthread_mutex_lock(&c->lock);
	say_all_again(c);
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&c->send);
	return true;
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
