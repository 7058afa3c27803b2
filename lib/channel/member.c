/* SPDX-License-Identifier: MIT */
/*
 * Taking part in a channel: joining, waiting, leaving.
 *
 * A participant that leaves while it holds items stays one until it has dropped
 * the last of them, since the ring knows it as their reader; but it receives no
 * more, so that it does not hold up the others. The member lives that long,
 * while its side may have another one already.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"
#include "lib/channel/channel.h"

void side_init(struct side *side, unsigned kind)
{
	atomic_init(&side->lock.taken, false);
	side->kind = kind;
}

void side_done(struct side *side)
{
	while (side->n_cached)
		free(side->cached[--side->n_cached]);
}

/* ---- members, with the side's lock --------------------------------- */

void member_unref(tarn_channel *channel, struct member *member)
{
	if (--member->refs)
		return;
	free(member);
	channel_release(channel); /* not the last: the caller has one */
}

bool member_give(tarn_channel *channel, struct member *member)
{
	bool last = false;

	if (member_is_ours(channel, member)) {
		member->out--;
		last = member->left && member->out == 0;
		if (last)
			ring_leave(&member->ring);
	}
	member_unref(channel, member);
	return last;
}

/* ---- joining ------------------------------------------------------- */

#define OWNER_KNOWN (1ull << 32)

/* The ring owner that stands for this process's connection. */
static int owner_of(tarn_store *store, uint32_t *ret)
{
	struct wire_message reply;
	struct msg_channel is;
	/* Relaxed: it is the same for the life of the connection. */
	uint64_t known =
		atomic_load_explicit(&store->owner, memory_order_relaxed);
	int r = 0;

	if (!(known & OWNER_KNOWN)) {
		r = connection_ready(&store->connection);
		if (r >= 0)
			r = connection_call(&store->connection, WIRE_CHANNEL,
				NULL, 0, WIRE_CHANNEL_IS, sizeof(is), &reply);
		if (r < 0)
			return r;
		memcpy(&is, reply.body, sizeof(is));
		wire_message_clear(&reply);
		known = OWNER_KNOWN | is.owner;
		atomic_store_explicit(
			&store->owner, known, memory_order_relaxed);
	}
	*ret = (uint32_t)known;
	return 0;
}

static int join(tarn_channel *channel, struct side *side, uint32_t owner)
{
	struct member *member;
	int r;

	if (side->member)
		return 0;
	member = malloc(sizeof(*member));
	if (!member)
		return tarn_fail(ENOMEM, "out of memory");
	*member = (struct member) {
		.ring = channel->ring, .life = channel->life, .refs = 1};
	r = ring_join(&member->ring, side->kind, owner);
	if (r < 0) {
		free(member);
		return r;
	}
	channel_hold(channel);
	side->member = member;
	return 0;
}

int side_join(tarn_channel *channel, struct side *side)
{
	uint32_t owner;
	int r = owner_of(channel->store, &owner);

	if (r >= 0 && side->kind == RING_PRODUCER)
		r = channel_map_writable(channel);
	if (r < 0)
		return r;
	adaptive_lock_take(&side->lock);
	r = join(channel, side, owner);
	adaptive_lock_give(&side->lock);
	return r;
}

struct side *channel_side(tarn_channel *channel, unsigned role)
{
	return role == TARN_CHANNEL_PRODUCER ? &channel->producer
					     : &channel->consumer;
}

static int check_roles(unsigned roles)
{
	const unsigned all = TARN_CHANNEL_PRODUCER | TARN_CHANNEL_CONSUMER;

	if (roles == 0 || roles & ~all)
		return tarn_fail(EINVAL,
			"roles %#x; %u is a producer, %u a consumer", roles,
			TARN_CHANNEL_PRODUCER, TARN_CHANNEL_CONSUMER);
	return 0;
}

int tarn_channel_join(tarn_channel *channel, unsigned roles)
{
	int r = check_roles(roles);

	for (unsigned role = 1; role <= 2 && r >= 0; role++)
		if (roles & role)
			r = side_join(channel, channel_side(channel, role));
	return r < 0 ? channel_fail(channel, r) : 0;
}

/* ---- leaving ----------------------------------------------------- */

/* Other participants may take the slots from now on. A thread that is filling
 * one at this moment may have checked just before (check_filling() in slot.c),
 * and then writes into another's slot. No lock would protect the bytes, and one
 * for the records alone would slow down every tensor: so a caller that leaves
 * must make sure that no thread fills a slot. */
static void end_slots(tarn_slot *slots)
{
	/* Relaxed: for a thread that tests it at that moment, either answer is
	 * correct. */
	for (tarn_slot *s = slots; s; s = s->next)
		atomic_store_explicit(
			&s->storage.writable, false, memory_order_relaxed);
}

/* With the lock. False: it had not joined. */
static bool leave(tarn_channel *channel, struct side *side, bool at_once)
{
	struct member *member = side->member;
	bool stays;

	if (!member)
		return false;
	member->left = true;
	if (at_once && side->kind == RING_PRODUCER)
		end_slots(side->slots);
	stays = member->out && !(at_once && side->kind == RING_PRODUCER);
	if (stays)
		ring_quiet(&member->ring);
	/* For waiters in other threads. While it is a member: if we die here,
	 * its reaper wakes all. */
	ring_wake_everybody(&member->ring);
	if (!stays)
		ring_leave(&member->ring);
	side->member = NULL;
	member_unref(channel, member);
	return true;
}

void side_leave(tarn_channel *channel, struct side *side, bool at_once)
{
	bool left;

	adaptive_lock_take(&side->lock);
	left = leave(channel, side, at_once);
	adaptive_lock_give(&side->lock);
	if (left)
		channel_leave(channel);
}

int tarn_channel_leave(tarn_channel *channel, unsigned roles)
{
	int r = check_roles(roles);

	for (unsigned role = 1; role <= 2 && r >= 0; role++)
		if (roles & role)
			side_leave(channel, channel_side(channel, role), true);
	return r < 0 ? channel_fail(channel, r) : 0;
}

/* ---- waiting ----------------------------------------------------- */

struct waiter {
	tarn_channel *channel;
	struct side *side;
	struct member *member;
	side_look look;
	void *arg;
};

/* With the lock. Handles the result r of a look: a member that was taken for
 * dead is dropped. */
static void note_look(
	tarn_channel *channel, struct side *side, struct member *member, int r)
{
	if (r != -ESTALE || side->member != member)
		return;
	member->left = true;
	side->member = NULL;
	member_unref(channel, member);
}

/* With the lock. */
static int look_once(tarn_channel *channel, struct side *side,
	struct member *member, side_look look, void *arg)
{
	int r;

	if (member->left)
		return tarn_fail(ESTALE, "it was left meanwhile");
	r = look(member, arg);
	note_look(channel, side, member, r);
	return r;
}

static int look_locked(void *arg)
{
	struct waiter *w = arg;
	int r;

	adaptive_lock_take(&w->side->lock);
	r = look_once(w->channel, w->side, w->member, w->look, w->arg);
	adaptive_lock_give(&w->side->lock);
	return r;
}

uint64_t wait_until(int timeout_ms)
{
	struct timespec t;

	if (timeout_ms < 0)
		return UINT64_MAX;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec +
	       (uint64_t)timeout_ms * 1000000u;
}

int wait_timed_out(
	const tarn_channel *channel, int timeout_ms, const char *what)
{
	/* A poller calls this millions of times a second. */
	if (timeout_ms == 0)
		return tarn_fail_constant(ETIMEDOUT, what);
	return channel_fail(channel,
		tarn_fail(ETIMEDOUT, "%s within %d ms%s", what, timeout_ms,
			channel_is_unlinked(channel)
				? "; its name was removed, so that nobody else "
				  "can open it"
				: ""));
}

/* With a reference to the member. */
static int sleep_for(tarn_channel *channel, struct side *side,
	struct member *member, int timeout_ms, side_look look, void *arg)
{
	struct waiter w = {.channel = channel,
		.side = side,
		.member = member,
		.look = look,
		.arg = arg};
	const struct ring_wait wait = {
		.deadline_ns = wait_until(timeout_ms), .signals = true};
	int r;

	r = ring_wait_for(&member->ring,
		side->kind == RING_PRODUCER ? RING_SPACE : RING_ITEMS, &wait,
		look_locked, &w);
	adaptive_lock_take(&side->lock);
	member_unref(channel, member);
	adaptive_lock_give(&side->lock);
	return r;
}

/* With the lock, which it releases while it joins. */
static int join_and_look(
	tarn_channel *channel, struct side *side, side_look look, void *arg)
{
	int r = 0;

	while (!side->member && r >= 0) {
		adaptive_lock_give(&side->lock);
		r = side_join(channel, side);
		adaptive_lock_take(&side->lock);
	}
	return r < 0 ? r : look_once(channel, side, side->member, look, arg);
}

int side_wait_on(tarn_channel *channel, struct side *side, int r,
	int timeout_ms, side_look look, void *arg, const char *what)
{
	struct member *member;

	if (side->member)
		note_look(channel, side, side->member, r);
	else
		r = join_and_look(channel, side, look, arg);
	member = side->member;
	if (r == 0 && timeout_ms != 0)
		member->refs++;
	adaptive_lock_give(&side->lock);
	if (r == 0 && timeout_ms != 0)
		r = sleep_for(channel, side, member, timeout_ms, look, arg);
	if (r == 0 || r == -ETIMEDOUT) {
		struct notifier *notifier = atomic_load(&side->notifier);

		if (notifier)
			notifier_arm(notifier);
		return wait_timed_out(channel, timeout_ms, what);
	}
	return r < 0 ? channel_fail(channel, r) : 0;
}
