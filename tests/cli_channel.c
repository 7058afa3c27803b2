/* SPDX-License-Identifier: MIT */
/*
 * tarn channel, beside a producer and a consumer who take part: what is listed,
 * what is said of slots and items, what other verbs say of a channel, and the
 * end. What is watched as it happens is in cli_channel_watch.c.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/channel_kit.h"
#include "tests/cli_channel_kit.h"
#include "tests/tap.h"

static tarn_store *store;

static void test_nothing(void)
{
	is_int(0, kit_run("channel ls"), "no channel is no error");
	is_str("", kit_out, "and no line");
	is_int(0, kit_run("channel ls --json"), "nor in JSON");
	is_str("{\"channels\":[]}\n", kit_out, "there it is none of them");
	is_int(1, kit_run("channel stat none"), "one that is not there");
	has_str("none", kit_out, "is named");
	has_str("'tarn channel ls' lists those that there are", kit_out,
		"and where to look");
	is_int(0, kit_run("channel top -n 1"), "top of nothing");
	has_str("no channel", kit_out, "says so");
}

/* One slot each is read, ready, filled and free. */
static void test_stat(tarn_channel *channel)
{
	tarn_slot *slot;
	tarn_item *item;

	kit_send(channel, 1000, "a", 1);
	kit_send(channel, 2000, "b", 1);
	item = kit_receive(channel);
	slot = kit_acquire(channel);
	is_int(0, kit_run("channel ls"), "ls");
	is_str("run/decoded  queue          4 x 8.00 KiB         1 ready  "
	       "1 in, 1 out\n",
		kit_out, "has a line for each");
	is_int(0, kit_run("channel ls nothing"), "ls of a prefix");
	is_str("", kit_out, "that none has");
	is_int(0, kit_run("channel stat run/decoded"), "stat");
	has_str("run/decoded: queue, 4 slots of 8.00 KiB, items of up to 2 "
		"tensors\n",
		kit_out, "tells what it is");
	has_str("[=#+.]\n", kit_out, "draws the slots");
	has_str("= 1 being read, # 1 ready, + 1 being filled, . 1 free\n",
		kit_out, "and counts them");
	has_str("published  2 items", kit_out, "counts what went in");
	has_str("producers  1, consumers: 1\n", kit_out, "and who takes part");
	is_int(0, kit_run("channel stat run/decoded --json"), "stat --json");
	has_str("{\"name\":\"run/decoded\",\"mode\":\"queue\",\"slots\":4,"
		"\"slot_bytes\":8192,\"tensors\":2,\"free\":1,\"filling\":1,"
		"\"ready\":1,\"reading\":1,\"producers\":1,\"consumers\":1,"
		"\"closed\":false,\"published\":2,",
		kit_out, "has the same");
	is_int(0, kit_run("channel top -n 2 -e 0.1 run/"), "top");
	has_str("run/decoded        [=#+.          ]     1        -           "
		"- "
		"  1   1 ",
		kit_out, "draws a row, at first without a rate");
	has_str("     1      0.0         0 B   1   1 ", kit_out,
		"then with one");
	tarn_slot_abandon(slot);
	tarn_item_unref(item);
	tarn_item_unref(kit_receive(channel));
}

static void test_other_verbs(void)
{
	is_int(0, kit_run("ls"), "tarn ls");
	is_str("run/decoded  channel  -  -\n", kit_out, "calls it a channel");
	is_int(0, kit_run("ls --json"), "tarn ls --json");
	is_str("{\"tensors\":[{\"name\":\"run/decoded\",\"dtype\":null,"
	       "\"shape\":[],\"channel\":true,\"bytes\":null}]}\n",
		kit_out, "has no dtype of it");
	is_int(0, kit_run("info run"), "tarn info of a folder");
	has_str("run: published, 1 channel\n", kit_out,
		"tells it from tensors");
	is_int(1, kit_run("print run/decoded"), "it cannot be printed");
	has_str("'run/decoded' is a channel", kit_out, "since it is one");
	has_str("'tarn channel stat run/decoded'", kit_out,
		"and what can be done");
	is_int(1, kit_run("save run %s/x.npy", test_tmpdir()), "nor saved");
	has_str("nothing is published", kit_out, "as a tensor");
	is_int(1, kit_run("save run/decoded %s/x.npy", test_tmpdir()),
		"nor by its name");
	has_str("'run/decoded' is a channel", kit_out, "for the same reason");
	is_int(1, kit_run("copy run/decoded %s/x.npy", test_tmpdir()),
		"nor copied");
	has_str("'run/decoded' is a channel", kit_out, "likewise");
	is_int(0, kit_run("status"), "tarn status");
	has_str("; channels: 1\n", kit_out, "counts it");
	is_int(0, kit_run("metrics"), "so does tarn metrics");
	has_str("} 1\n",
		strstr(kit_out, "tarn_pool_channels{")
			? strstr(kit_out, "tarn_pool_channels{")
			: "",
		"in its pool");
}

/* A tensor is not taken for one. */
static void test_tensor(void)
{
	struct tarn_publish_item item = {.name = "run/tensor"};
	int64_t n = 4;

	if (tarn_store_create(store, TARN_U8, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("tensor: %s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
	is_int(1, kit_run("channel stat run/tensor"), "a tensor is no channel");
	has_str("'tarn info run/tensor' tells what it is", kit_out,
		"and what it is");
	is_int(1, kit_run("channel rm run/tensor run/decode"),
		"nor is it removed as one");
	has_str("did you mean 'run/decoded'?", kit_out, "and what was meant");
	is_int(1, kit_run("channel stat ''"), "what is no name");
	ok(!strstr(kit_out, "tarn info"), "is not something else");
	is_int(0, kit_run("info run"), "tarn info counts both");
	has_str("run: published, 1 tensor, 4 B, 1 channel\n", kit_out, "apart");
	is_int(0, kit_run("rm run/tensor"), "it is still there");
	is_int(0, kit_run("channel ls"), "ls has no tensors");
	ok(!strstr(kit_out, "run/tensor"), "but channels");
}

static void test_end(tarn_channel *channel)
{
	tarn_item *item;

	tarn_channel_unref(kit_make(store, "run/gone", TARN_CHANNEL_QUEUE));
	kit_send(channel, 10, "last", 4);
	is_int(1, kit_run("channel close run/other run/nothing"),
		"close of one that there is, and one that is not");
	has_str("nothing", kit_out, "names that");
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"the other is closed");
	is_int(0, kit_run("channel ls run/other"), "its name stays");
	has_str(", closed\n", kit_out, "and says so");
	is_int(0, kit_run("channel stat -w 3600 run/other"),
		"nothing is to be watched any more");
	has_str("; closed\n", kit_out, "and why");
	is_int(0, kit_run("channel tail run/other"), "nor to be seen");
	is_str("", kit_out, "not what was before");
	is_int(0, kit_run("channel rm run/gone"), "rm");
	is_int(0, kit_run("channel ls"), "removes");
	ok(!strstr(kit_out, "run/gone"), "the name");
}

/* The queue's consumer gets what was, after somebody has closed it. */
static void test_close(void)
{
	tarn_channel *channel =
		kit_make(store, "run/queue", TARN_CHANNEL_QUEUE);
	tarn_slot *slot;
	tarn_item *item;

	kit_send(channel, 10, "last", 4);
	is_int(0, kit_run("channel close run/queue"),
		"close with an item in it");
	is_int(-EPIPE, tarn_channel_acquire(channel, 0, &slot),
		"nothing more is published");
	tarn_item_unref(kit_receive(channel));
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"but what was is received");
	is_int(1, kit_run("rm run/"), "one beside it is open, and in use");
	has_str("'run/decoded' is a channel that has ", kit_out, "which");
	has_str("'tarn channel close run/decoded' ends it", kit_out,
		"and what to do");
	ok(!strstr(kit_out, "'run/queue' is"), "one that is closed is not");
	is_int(0, kit_run("channel stat run/queue"), "but is there still");
	is_int(0, kit_run("channel close run/decoded"), "that is closed, too");
	is_int(0, kit_run("rm run/"), "and the names removed");
	has_str("removed 3 names below run/\n", kit_out,
		"which tarn rm counts");
	tarn_channel_unref(channel);
}

/* Who takes part in it would lose those who come later. */
static void test_plain_rm(void)
{
	tarn_channel *channel =
		kit_make(store, "apart/busy", TARN_CHANNEL_QUEUE);

	if (tarn_channel_join(channel, TARN_CHANNEL_CONSUMER) < 0)
		bail("join: %s", tarn_error_message());
	is_int(1, kit_run("rm apart/busy"), "tarn rm of one that is in use");
	has_str("'apart/busy' is a channel that has 0 producers and 1 consumer",
		kit_out, "says so");
	has_str("'tarn channel close apart/busy' ends it", kit_out,
		"and what to do");
	is_int(0, kit_run("channel stat apart/busy"), "it is still there");
	is_int(0, kit_run("channel close apart/busy"), "once it is closed");
	is_int(0, kit_run("rm apart/busy"), "it is removed");
	tarn_channel_unref(channel);
	tarn_channel_unref(kit_make(store, "apart/idle", TARN_CHANNEL_QUEUE));
	is_int(0, kit_run("rm apart/idle"), "as is one that nobody uses");
}

int main(void)
{
	tarn_channel *channel, *other;

	store = kit_begin();
	test_nothing();
	channel = kit_make(store, "run/decoded", TARN_CHANNEL_QUEUE);
	test_stat(channel);
	test_other_verbs();
	test_tensor();
	other = kit_make(store, "run/other", TARN_CHANNEL_BROADCAST);
	test_end(other);
	test_close();
	test_plain_rm();
	tarn_channel_unref(other);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
	is_int(0, kit_end_daemon(), "the daemon ends");
	return done();
}
