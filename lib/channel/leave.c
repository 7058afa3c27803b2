/* SPDX-License-Identifier: MIT */
/*
 * Notifying the daemon of participants that have left a channel: the daemon
 * removes names that end with them.
 *
 * A client that asks for its ring owner again makes the daemon check all
 * channels. A client that leaves a channel waits for the answer, so that it
 * does not find a channel by name that it has ended itself. A client that drops
 * its last slot or item only sends the request, since arrays end in
 * destructors, in which an interpreter has its lock and a hanging daemon would
 * block all of its threads; it waits for the answer when it looks up a name.
 */
#include "lib/channel/channel.h"

static int sync_channels(struct tarn_store *store)
{
	struct wire_message reply;
	int r = connection_call(&store->connection, WIRE_CHANNEL, NULL, 0,
		WIRE_CHANNEL_IS, sizeof(struct msg_channel), &reply);

	if (r >= 0)
		wire_message_clear(&reply);
	return r;
}

void channel_sync(tarn_channel *channel)
{
	sync_channels(channel->store);
}

/* The name of a closed channel goes with its last participant. A participant
 * that leaves does so first, and then checks whether the channel is closed; one
 * that closes does that first, and then makes the daemon check the
 * participants: one of the two notifies it of both. If a participant dies in
 * between, the daemon notices the death, and checks too. */
static bool needs_notification(const tarn_channel *channel)
{
	const struct channel_geometry *g = &channel->map.geometry;

	/* For a broadcast, also because of the storages that items kept: items
	 * that a consumer has not received end with it, without being
	 * released. */
	return g->flags & CHANNEL_EPHEMERAL || g->ring.mode == RING_BROADCAST ||
	       ring_is_closed(&channel->ring);
}

void channel_leave(tarn_channel *channel)
{
	if (needs_notification(channel))
		channel_sync(channel);
}

/* The answer has no taker, and the next receiver drops it. Answers do not pile
 * up: each was preceded by a call, by which the participant left while it still
 * held something, and each call reads all that has arrived. */
void channel_leave_async(tarn_channel *channel)
{
	struct tarn_store *store = channel->store;

	if (!needs_notification(channel) ||
		connection_notify(&store->connection, WIRE_CHANNEL, NULL, 0) <
			0)
		return;
	/* Release: pairs with the acquire in channel_await_leaves(); a thread
	 * that sees it sends its request after the one just sent. */
	atomic_fetch_add_explicit(&store->leaves_sent, 1, memory_order_release);
}

/* If two threads come here at once, the earlier number may overwrite the later
 * one: then there is one call too many. */
void channel_await_leaves(struct tarn_store *store)
{
	/* Acquire: pairs with the release in channel_leave_async(). */
	uint64_t leaves_sent =
		atomic_load_explicit(&store->leaves_sent, memory_order_acquire);

	/* Acquire: pairs with the release below, in another thread: a thread
	 * that skips the call finds the names gone as if it had made the
	 * call. */
	if (leaves_sent ==
		atomic_load_explicit(&store->leaves_done, memory_order_acquire))
		return;
	if (sync_channels(store) >= 0)
		atomic_store_explicit(
			&store->leaves_done, leaves_sent, memory_order_release);
}
