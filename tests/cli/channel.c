/* SPDX-License-Identifier: MIT */
/*
 * tarn channel, beside a producer and a consumer who take part: what is listed,
 * what is said of slots and items, what other verbs say of a channel, and the
 * end. What is watched as it happens is in channel_watch.c.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/cli_channel.h"
#include "tests/kit/tap.h"

static tarn_store *store;

static void test_nothing(void)
{
	is_int(0, kit_cli_run("channel ls"), "no channel is no error");
	is_str("", kit_cli_out, "without channels, ls prints no line");
	is_int(0, kit_cli_run("channel ls --json"),
		"ls --json succeeds without channels");
	is_str("{\"channels\":[]}\n", kit_cli_out, "there it is none of them");
	is_int(1, kit_cli_run("channel stat none"), "one that is not there");
	has_str("none", kit_cli_out, "the output contains 'none'");
	has_str("'tarn channel ls' lists those that there are", kit_cli_out,
		"the hint names tarn channel ls");
	is_int(0, kit_cli_run("channel top -n 1"), "top of nothing");
	has_str("no channel", kit_cli_out,
		"top without channels prints 'no channel'");
}

/* One slot each is read, ready, filled and free. */
static void test_stat(tarn_channel *channel)
{
	tarn_slot *slot;
	tarn_item *item;

	kit_cli_send(channel, 1000, "a", 1);
	kit_cli_send(channel, 2000, "b", 1);
	item = kit_channel_receive(channel);
	slot = kit_channel_acquire(channel);
	is_int(0, kit_cli_run("channel ls"), "ls");
	is_str("run/decoded  queue          4 x 8.00 KiB         1 ready  "
	       "1 in, 1 out\n",
		kit_cli_out, "has a line for each");
	is_int(1, kit_cli_run("channel ls nothing"),
		"ls of a prefix that no channel has fails");
	has_str("no channel whose name begins with 'nothing'", kit_cli_out,
		"ls names the prefix that no channel has");
	is_int(0, kit_cli_run("channel stat run/decoded"), "stat");
	has_str("run/decoded: queue, 4 slots of 8.00 KiB, items of up to 2 "
		"tensors\n",
		kit_cli_out, "shows what it is");
	has_str("[=#+.]\n", kit_cli_out, "draws the slots");
	has_str("= 1 being read, # 1 ready, + 1 being filled, . 1 free\n",
		kit_cli_out, "stat prints the number of slots in each state");
	has_str("published  2 items", kit_cli_out, "counts what went in");
	has_str("producers  1, consumers: 1\n", kit_cli_out,
		"stat prints the numbers of producers and consumers");
	is_int(0, kit_cli_run("channel stat run/decoded --json"),
		"stat --json");
	has_str("{\"name\":\"run/decoded\",\"mode\":\"queue\",\"slots\":4,"
		"\"slot_bytes\":8192,\"tensors\":2,\"free\":1,\"filling\":1,"
		"\"ready\":1,\"reading\":1,\"producers\":1,\"consumers\":1,"
		"\"closed\":false,\"idle\":false,\"published\":2,",
		kit_cli_out, "has the same");
	is_int(0, kit_cli_run("channel top -n 2 -e 0.1 run/"), "top");
	has_str("run/decoded        [=#+.          ]     1        -           "
		"- "
		"  1   1 ",
		kit_cli_out, "draws a row, at first without a rate");
	has_str("     1      0.0         0 B   1   1 ", kit_cli_out,
		"then with one");
	tarn_slot_abandon(slot);
	tarn_item_unref(item);
	tarn_item_unref(kit_channel_receive(channel));
}

/* One that nobody has joined, which keeps its memory all the same. */
static void test_idle(void)
{
	tarn_channel_unref(kit_cli_make(store, "run/left", TARN_CHANNEL_QUEUE));
	is_int(0, kit_cli_run("channel ls run/left"), "a channel of nobody");
	has_str("0 in, 0 out, idle\n", kit_cli_out, "is listed as idle");
	is_int(0, kit_cli_run("channel ls run/left --json"),
		"ls --json lists the idle channel");
	has_str("\"idle\":true", kit_cli_out, "by a key");
	is_int(0, kit_cli_run("status"), "tarn status");
	has_str("; channels: 2 (1 idle)\n", kit_cli_out,
		"counts the idle ones");
	is_int(0, kit_cli_run("status --json"),
		"status --json succeeds with idle channels");
	has_str("\"channels\":2,\"channels_idle\":1", kit_cli_out, "by a key");
	is_int(0, kit_cli_run("channel rm run/left"), "it can be removed");
	is_int(0, kit_cli_run("status"),
		"status succeeds after the channel was removed");
	has_str("; channels: 1\n", kit_cli_out, "it is gone");
}

static void test_other_verbs(void)
{
	is_int(0, kit_cli_run("ls"), "tarn ls");
	is_str("run/decoded  channel  -  -\n", kit_cli_out,
		"calls it a channel");
	is_int(0, kit_cli_run("ls --json"), "tarn ls --json");
	is_str("{\"tensors\":[{\"name\":\"run/decoded\",\"dtype\":null,"
	       "\"shape\":[],\"channel\":true,\"bytes\":null}]}\n",
		kit_cli_out, "has no dtype of it");
	is_int(0, kit_cli_run("info run"), "tarn info of a folder");
	has_str("run: published, 1 channel\n", kit_cli_out,
		"tells it from tensors");
	is_int(1, kit_cli_run("print run/decoded"), "it cannot be printed");
	has_str("'run/decoded' is a channel", kit_cli_out, "since it is one");
	has_str("'tarn channel stat run/decoded'", kit_cli_out,
		"the hint for a channel names tarn channel stat");
	is_int(1, kit_cli_run("save run %s/x.npy", test_tmpdir()),
		"a channel below a name is not saved");
	has_str("nothing is published", kit_cli_out, "as a tensor");
	is_int(1, kit_cli_run("save run/decoded %s/x.npy", test_tmpdir()),
		"a channel is not saved by its name");
	has_str("'run/decoded' is a channel", kit_cli_out,
		"for the same reason");
	is_int(1, kit_cli_run("copy run/decoded %s/x.npy", test_tmpdir()),
		"a channel is not copied");
	has_str("'run/decoded' is a channel", kit_cli_out, "likewise");
	is_int(0, kit_cli_run("status"), "tarn status");
	has_str("; channels: 1\n", kit_cli_out, "counts it");
	test_idle();
	is_int(0, kit_cli_run("metrics"), "metrics succeeds with a channel");
	has_str("} 1\n",
		strstr(kit_cli_out, "tarn_pool_channels{")
			? strstr(kit_cli_out, "tarn_pool_channels{")
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
	is_int(1, kit_cli_run("channel stat run/tensor"),
		"a tensor is no channel");
	has_str("'tarn info run/tensor' shows what it is", kit_cli_out,
		"the hint for a tensor names tarn info");
	is_int(1, kit_cli_run("channel rm run/tensor run/decode"),
		"channel rm does not remove a tensor");
	has_str("did you mean 'run/decoded'?", kit_cli_out,
		"channel rm suggests the near name");
	is_int(1, kit_cli_run("channel stat ''"), "what is no name");
	ok(!strstr(kit_cli_out, "tarn info"), "is not something else");
	is_int(0, kit_cli_run("info run"), "tarn info counts both");
	has_str("run: published, 1 tensor, 4 B, 1 channel\n", kit_cli_out,
		"apart");
	is_int(0, kit_cli_run("rm run/tensor"), "it is still there");
	is_int(0, kit_cli_run("channel ls"), "ls has no tensors");
	ok(!strstr(kit_cli_out, "run/tensor"), "channel ls lists no tensors");
}

static void test_end(tarn_channel *channel)
{
	tarn_item *item;

	tarn_channel_unref(kit_cli_make(store, "run/gone", TARN_CHANNEL_QUEUE));
	kit_cli_send(channel, 10, "last", 4);
	is_int(1, kit_cli_run("channel close run/other run/nothing"),
		"close of one that there is, and one that is not");
	has_str("nothing", kit_cli_out, "names that");
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"the other is closed");
	is_int(0, kit_cli_run("channel ls run/other"), "its name stays");
	has_str(", closed\n", kit_cli_out,
		"ls shows that the channel is closed");
	is_int(0, kit_cli_run("channel stat -w 3600 run/other"),
		"nothing is to be watched any more");
	has_str("; closed\n", kit_cli_out, "stat shows why watching ended");
	is_int(0, kit_cli_run("channel tail run/other"),
		"tail of a closed channel ends without error");
	is_str("", kit_cli_out, "not what was before");
	is_int(0, kit_cli_run("channel rm run/gone"), "rm");
	is_int(0, kit_cli_run("channel ls"), "removes");
	ok(!strstr(kit_cli_out, "run/gone"), "the name");
}

/* The queue's consumer gets what was, after somebody has closed it. */
static void test_close(void)
{
	tarn_channel *channel =
		kit_cli_make(store, "run/queue", TARN_CHANNEL_QUEUE);
	tarn_slot *slot;
	tarn_item *item;

	kit_cli_send(channel, 10, "last", 4);
	is_int(0, kit_cli_run("channel close run/queue"),
		"close with an item in it");
	is_int(-EPIPE, tarn_channel_acquire(channel, 0, &slot),
		"nothing more is published");
	tarn_item_unref(kit_channel_receive(channel));
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"items published before the close were received");
	is_int(1, kit_cli_run("rm run/"), "one beside it is open, and in use");
	has_str("'run/decoded' is a channel that has ", kit_cli_out,
		"the output contains the expected words");
	has_str("'tarn channel close run/decoded' ends it", kit_cli_out,
		"the error of rm names tarn channel close");
	ok(!strstr(kit_cli_out, "'run/queue' is"), "one that is closed is not");
	is_int(0, kit_cli_run("channel stat run/queue"),
		"the closed channel with items still has its name");
	is_int(0, kit_cli_run("channel close run/decoded"),
		"that is closed, too");
	is_int(0, kit_cli_run("rm run/"),
		"rm removes the names of closed channels");
	has_str("removed 3 names below run/\n", kit_cli_out,
		"which tarn rm counts");
	tarn_channel_unref(channel);
}

/* Who takes part in it would lose those who come later. */
static void test_plain_rm(void)
{
	tarn_channel *channel =
		kit_cli_make(store, "apart/busy", TARN_CHANNEL_QUEUE);

	if (tarn_channel_join(channel, TARN_CHANNEL_CONSUMER) < 0)
		bail("join: %s", tarn_error_message());
	is_int(1, kit_cli_run("rm apart/busy"),
		"tarn rm of one that is in use");
	has_str("'apart/busy' is a channel that has 0 producers and 1 consumer",
		kit_cli_out, "the error of rm counts the participants");
	has_str("'tarn channel close apart/busy' ends it", kit_cli_out,
		"the error of rm names tarn channel close for that channel");
	is_int(0, kit_cli_run("channel stat apart/busy"), "it is still there");
	is_int(0, kit_cli_run("channel close apart/busy"), "once it is closed");
	is_int(0, kit_cli_run("rm apart/busy"), "it is removed");
	tarn_channel_unref(channel);
	tarn_channel_unref(
		kit_cli_make(store, "apart/idle", TARN_CHANNEL_QUEUE));
	is_int(0, kit_cli_run("rm apart/idle"), "as is one that nobody uses");
}

int main(void)
{
	tarn_channel *channel, *other;

	store = kit_cli_begin();
	test_nothing();
	channel = kit_cli_make(store, "run/decoded", TARN_CHANNEL_QUEUE);
	test_stat(channel);
	test_other_verbs();
	test_tensor();
	other = kit_cli_make(store, "run/other", TARN_CHANNEL_BROADCAST);
	test_end(other);
	test_close();
	test_plain_rm();
	tarn_channel_unref(other);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
	is_int(0, kit_cli_end_daemon(), "the daemon ends");
	return done(96);
}
