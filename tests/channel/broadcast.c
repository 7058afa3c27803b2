/* SPDX-License-Identifier: MIT */
/*
 * A broadcast as a program uses it: each consumer receives every item since it
 * joined, read-only, and the producer waits for each; a consumer that leaves
 * with an item in hand keeps the item's slot, and receives only newer items
 * when it comes back.
 */
#include <errno.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* A leaves with item kept in hand, and comes back later. */
static void leave_with_item(
	tarn_channel *out, tarn_channel *a, tarn_channel *b, tarn_item *kept)
{
	is_int(0, tarn_channel_leave(a, TARN_CHANNEL_CONSUMER),
		"the slower of two consumers leaves");
	is_int(5, kit_channel_get(b, 0),
		"the remaining consumer receives what both were to receive");
	is_int(0, kit_channel_put(out, 0, 7),
		"the producer waits for the remaining consumer alone");
	is_int(7, kit_channel_get(b, 0),
		"the remaining consumer receives the item");
	is_int(0, kit_channel_put(out, 0, 8),
		"the producer publishes another item");
	is_int(8, kit_channel_get(b, 0),
		"the remaining consumer receives the next item");
	is_int(2, kit_channel_value(kept),
		"the item that is still held has its value");
	is_int(1, kit_channel_info(out).free,
		"the item that is still held keeps its slot");
	is_int(1, kit_channel_info(out).consumers,
		"a consumer that left is not counted, though it holds an item");
	tarn_item_unref(kept);
	is_int(2, kit_channel_info(out).free,
		"a slot is free when the last item in it is dropped");
	is_int(-ETIMEDOUT, kit_channel_get(a, 0),
		"a consumer that comes back receives nothing older");
	is_int(0, kit_channel_put(out, 0, 9),
		"an item for both consumers is published");
	is_int(9, kit_channel_get(a, 0),
		"the item comes to the consumer that came back");
	is_int(9, kit_channel_get(b, 0),
		"the item comes to the other consumer");
}

static void test_broadcast(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .mode = TARN_CHANNEL_BROADCAST};
	tarn_channel *out = kit_channel_open(store, "cast", &options),
		     *a = kit_channel_open(store, "cast", NULL),
		     *b = kit_channel_open(store, "cast", NULL);
	tarn_item *item, *kept;
	tarn_tensor *t;

	is_int(0, kit_channel_put(out, 0, 1),
		"a broadcast item without consumers is published");
	is_int(0, tarn_channel_join(a, TARN_CHANNEL_CONSUMER),
		"a first consumer joins the broadcast");
	is_int(0, kit_channel_put(out, 0, 2),
		"a broadcast item for one consumer is published");
	is_int(0, tarn_channel_join(b, TARN_CHANNEL_CONSUMER),
		"a second consumer joins the broadcast");
	is_int(0, kit_channel_put(out, 0, 3),
		"a broadcast item for two consumers is published");
	is_int(-ETIMEDOUT, kit_channel_put(out, 0, 4),
		"a broadcast with a slow consumer has no free slot");
	kept = kit_channel_receive(a);
	is_int(2, kit_channel_value(kept),
		"the first consumer receives all items since it joined");
	item = kit_channel_receive(b);
	is_int(3, kit_channel_value(item),
		"the second consumer receives the item of both");
	t = kit_channel_tensor(item, 0);
	ok(!tarn_storage_writable(tarn_tensor_storage(t)),
		"an item of a broadcast is read-only");
	is_int(-EROFS, tarn_tensor_set_i64(t, (int64_t[]) {0}, 1),
		"a broadcast item cannot be written");
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	is_int(-ETIMEDOUT, kit_channel_put(out, 0, 4),
		"the producer waits for each consumer");
	is_int(3, kit_channel_get(a, 0),
		"the slot is free when all consumers have released it");
	is_int(0, kit_channel_put(out, 0, 5),
		"the producer publishes another item");
	is_int(-ETIMEDOUT, kit_channel_put(out, 0, 6),
		"one slot of the broadcast is still read");
	leave_with_item(out, a, b, kept);
	tarn_channel_unref(out);
	tarn_channel_unref(a);
	tarn_channel_unref(b);
	must(tarn_store_remove(store, "cast"));
}

int main(void)
{
	struct daemon server;
	tarn_store *store;

	daemon_start(&server, "broadcast.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_broadcast(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(29);
}
