/* SPDX-License-Identifier: MIT */
/*
 * Channels by name: made, found, listed, refused and removed; and the errors
 * of calls that are not possible.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct daemon server;

static void test_open(tarn_store *store)
{
	const struct tarn_channel_options
		none = {0},
		odd = {.slots = 3, .slot_bytes = 5000, .tensors = 2},
		cast = {.mode = TARN_CHANNEL_BROADCAST};
	struct tarn_channel_info info;
	tarn_channel *c, *again;

	is_int(-ENOENT, tarn_channel_open(store, "none", NULL, &c),
		"a channel without options must exist");
	is_str("channel 'none': there is none of that name",
		tarn_error_message(), "the error is the expected sentence");
	c = kit_channel_open(store, "defaults", &none);
	info = kit_channel_info(c);
	is_int(TARN_CHANNEL_QUEUE, info.mode,
		"a channel is a queue by default");
	is_int(8, info.slots, "a channel has 8 slots by default");
	is_int(4 << 20, (int64_t)info.slot_bytes,
		"a slot has 4 MiB by default");
	is_int(16, info.tensors, "an item has up to 16 tensors by default");
	is_int(8, info.free, "all slots of a new channel are free");
	is_str("defaults", tarn_channel_name(c), "a channel knows its name");
	again = kit_channel_open(store, "defaults", &odd);
	info = kit_channel_info(again);
	is_int(8, info.slots, "an existing channel keeps its geometry");
	tarn_channel_unref(again);
	is_int(-EEXIST, tarn_channel_open(store, "defaults", &cast, &again),
		"opening a channel with another mode is refused");
	is_str("channel 'defaults': it is there, and is a queue, not a "
	       "broadcast",
		tarn_error_message(),
		"the error names the channel and both modes");
	tarn_channel_unref(c);
	c = kit_channel_open(store, "odd", &odd);
	is_int(8192, (int64_t)kit_channel_info(c).slot_bytes,
		"a slot's size is rounded up to whole pages");
	tarn_channel_unref(c);
	is_int(0, tarn_store_remove(store, "odd"),
		"a channel's name is removed like any other");
	is_int(0, tarn_store_remove(store, "defaults"),
		"a channel can be removed by any client");
	is_int(-ENOENT, tarn_channel_open(store, "odd", NULL, &c),
		"a channel that was removed is not found");
}

static void test_refused(tarn_store *store)
{
	const struct tarn_channel_options many = {.slots = 70000},
					  tensors = {.tensors = 1025},
					  mode = {.mode = 7},
					  large = {.slot_bytes = UINT64_MAX},
					  huge = {.slot_bytes = 1ull << 50,
						  .slots = 2},
					  flags = {.flags = 8}, none = {0};
	int64_t n = 3;
	struct tarn_publish_item item = {.name = "tensor"};
	tarn_channel *c;
	tarn_tensor *t;

	is_int(-EINVAL, tarn_channel_open(store, "x", &many, &c),
		"too many slots are refused");
	has_str("65536", tarn_error_message(),
		"the error has the limit of slots");
	is_int(-EINVAL, tarn_channel_open(store, "x", &tensors, &c),
		"too many tensors are refused");
	is_int(-EINVAL, tarn_channel_open(store, "x", &mode, &c),
		"an unknown mode is refused");
	is_int(-EINVAL, tarn_channel_open(store, "x", &flags, &c),
		"unknown flags are refused");
	is_int(-EOVERFLOW, tarn_channel_open(store, "x", &large, &c),
		"a size that overflows is refused");
	ok(tarn_channel_open(store, "x", &huge, &c) < 0,
		"a channel larger than the budget is refused: %s",
		tarn_error_message());
	is_int(-EINVAL, tarn_channel_open(store, "", &none, &c),
		"an empty name is refused");
	if (tarn_store_create(store, TARN_I64, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(-EINVAL, tarn_channel_open(store, "tensor", &none, &c),
		"a tensor cannot be opened as a channel");
	has_str("channel 'tensor': ", tarn_error_message(),
		"the error names the channel");
	tarn_tensor_unref(item.tensor);
	must(tarn_store_remove(store, "tensor"));
	c = kit_channel_open(store, "channel", &none);
	is_int(-EINVAL, tarn_store_lookup(store, "channel", &t),
		"a channel cannot be opened as a tensor");
	has_str("tarn_channel_open", tarn_error_message(),
		"the error says how to open a channel");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "channel"));
}

static int count_names(void *arg, const char *name)
{
	int *n = arg;

	*n += strcmp(name, "a/1") == 0 ? 1 : strcmp(name, "b") == 0 ? 10 : 100;
	return 0;
}

static int count_tensors(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	int *n = arg;

	(void)descriptor;
	(void)version;
	*n += strcmp(name, "a/t") == 0 ? 1 : 100;
	return 0;
}

static int stop_at_once(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 7;
}

static void test_list(tarn_store *store)
{
	const struct tarn_channel_options small = {
		.slots = 1, .slot_bytes = 4096};
	int64_t n = 1;
	struct tarn_publish_item item = {.name = "a/t"};
	tarn_channel *a = kit_channel_open(store, "a/1", &small),
		     *b = kit_channel_open(store, "b", &small);
	int seen = 0;

	if (tarn_store_create(store, TARN_I64, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_channel_list(store, NULL, count_names, &seen),
		"the channels are listed");
	is_int(11, seen, "the list has all channels and nothing else");
	seen = 0;
	is_int(0, tarn_channel_list(store, "a/", count_names, &seen),
		"channels are listed by prefix");
	is_int(1, seen, "the prefix matches one channel");
	seen = 0;
	is_int(0, tarn_store_list(store, NULL, count_tensors, &seen),
		"the tensors are listed");
	is_int(1, seen, "no channel is among the listed tensors");
	is_int(7, tarn_channel_list(store, NULL, stop_at_once, NULL),
		"a listing stops when its callback asks for it");
	tarn_tensor_unref(item.tensor);
	tarn_channel_unref(a);
	tarn_channel_unref(b);
	must(tarn_store_remove(store, "a/1"));
	must(tarn_store_remove(store, "a/t"));
	must(tarn_store_remove(store, "b"));
}

/* After the server's next look. */
static bool is_gone(void *arg)
{
	tarn_channel *c;
	int r = tarn_channel_open(arg, "ephemeral", NULL, &c);

	if (r >= 0)
		tarn_channel_unref(c);
	return r == -ENOENT;
}

/* Made for a while: its name goes with the last. */
static void test_ephemeral(tarn_store *store)
{
	const struct tarn_channel_options options = {.slots = 2,
		.slot_bytes = 4096,
		.flags = TARN_CHANNEL_EPHEMERAL};
	tarn_channel *c = kit_channel_open(store, "ephemeral", &options),
		     *again = kit_channel_open(store, "ephemeral", NULL);

	tarn_channel_unref(again);
	again = kit_channel_open(store, "ephemeral", NULL);
	ok(true, "a handle that has not joined cannot leave");
	kit_channel_put(c, 0, 1);
	is_int(1, kit_channel_get(again, 0),
		"another handle receives after one was closed");
	tarn_channel_unref(c);
	c = kit_channel_open(store, "ephemeral", NULL);
	tarn_channel_unref(c);
	tarn_channel_unref(again);
	ok(kit_channel_comes_true(is_gone, store),
		"an ephemeral channel's name goes with its last participant");
}

/* A process that has it open continues, and its error says why no other
 * comes. */
static void test_unlinked(tarn_store *store)
{
	const struct tarn_channel_options small = {
		.slots = 1, .slot_bytes = 4096};
	tarn_channel *c = kit_channel_open(store, "removed", &small);

	is_int(-ETIMEDOUT, kit_channel_get(c, 1),
		"a wait without a sender times out");
	is_str("channel 'removed': nothing came within 1 ms",
		tarn_error_message(), "the error has the time that was waited");
	is_int(0, (int64_t)kit_channel_info(c).unlinked,
		"a channel that is waited for keeps its name");
	is_int(0, tarn_store_remove(store, "removed"),
		"the name of a channel that is waited for is removed");
	is_int(1, (int64_t)kit_channel_info(c).unlinked,
		"the channel knows that its name was removed");
	is_int(0, kit_channel_put(c, 0, 8),
		"a participant continues to publish without the name");
	is_int(8, kit_channel_get(c, 0),
		"a participant continues to receive without the name");
	is_int(-ETIMEDOUT, kit_channel_get(c, 1),
		"the wait in the removed channel times out");
	has_str("its name was removed, so that nobody else can open it",
		tarn_error_message(),
		"the time-out's error mentions the removed name");
	tarn_channel_unref(c);
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "channel.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_open(store);
	test_refused(store);
	test_list(store);
	test_ephemeral(store);
	test_unlinked(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(47);
}
