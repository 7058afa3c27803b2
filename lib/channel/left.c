/* SPDX-License-Identifier: MIT */
/*
 * Telling the daemon of those who have left a channel: names that end with them
 * are the daemon's to remove.
 *
 * The idea: who asks again who he is has all channels looked at. Who leaves one
 * waits for that, so that he does not find by its name what he has ended; who
 * drops the last of what he had in hand only asks, since arrays end in
 * destructors, in which an interpreter has its lock and a daemon that hangs
 * would hold up all of its threads; he waits when he looks for a name.
 */
#include "lib/channel/channel.h"

static int have_looked_at(struct tarn_store *store)
{
	struct wire_message reply;
	int r = connection_call(&store->connection, WIRE_CHANNEL, NULL, 0,
		WIRE_CHANNEL_IS, sizeof(struct msg_channel), &reply);

	if (r >= 0)
		wire_message_clear(&reply);
	return r;
}

void channel_have_looked_at(tarn_channel *channel)
{
	have_looked_at(channel->store);
}

/* The name of one that is closed goes with its last participant. Who leaves
 * does that first, and then looks whether it is closed; who closes does that
 * first, and then has the daemon look who is there: one of the two tells it of
 * both. Who dies in between is missed, and that is a look as well. */
static bool is_to_be_told(const tarn_channel *channel)
{
	const struct channel_geometry *g = &channel->map.geometry;

	/* Of a broadcast also at what items kept: those that a consumer has
	 * not received end with it, without being released. */
	return g->flags & CHANNEL_EPHEMERAL || g->ring.mode == RING_BROADCAST ||
	       ring_is_closed(&channel->ring);
}

void channel_left(tarn_channel *channel)
{
	if (is_to_be_told(channel))
		channel_have_looked_at(channel);
}

/* The answer finds no taker, and is dropped by whoever receives next. They do
 * not pile up: before each there was a call, by which the participant left with
 * something in hand, and who calls reads all that has come. */
void channel_left_in_passing(tarn_channel *channel)
{
	struct tarn_store *store = channel->store;

	if (!is_to_be_told(channel) || connection_notify(&store->connection,
					       WIRE_CHANNEL, NULL, 0) < 0)
		return;
	/* Release: pairs with the acquire in channel_see_to_passed(); who sees
	 * it asks behind what was just said. */
	atomic_fetch_add_explicit(&store->told, 1, memory_order_release);
}

/* Of two threads that come at once the later number may be overwritten by the
 * earlier: then there is one call too many. */
void channel_see_to_passed(struct tarn_store *store)
{
	/* Acquire: pairs with the release in channel_left_in_passing(). */
	uint64_t told =
		atomic_load_explicit(&store->told, memory_order_acquire);

	/* Acquire: pairs with the release below, in another thread: whom it
	 * has spared the call finds the names gone as if he had made it. */
	if (told == atomic_load_explicit(&store->seen_to, memory_order_acquire))
		return;
	if (have_looked_at(store) >= 0)
		atomic_store_explicit(
			&store->seen_to, told, memory_order_release);
}
