/* SPDX-License-Identifier: MIT */
/*
 * tarn channel, beside a producer and a consumer: how channels, slots and
 * items are listed and printed, how other verbs name a channel, and closing.
 * The verbs that watch a channel are in channel_watch.c.
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
	is_int(0, kit_cli_run("channel ls"),
		"channel ls without channels succeeds");
	is_str("", kit_cli_out, "without channels, ls prints no line");
	is_int(0, kit_cli_run("channel ls --json"),
		"ls --json succeeds without channels");
	is_str("{\"channels\":[]}\n", kit_cli_out,
		"ls --json without channels prints an empty list");
	is_int(1, kit_cli_run("channel stat none"),
		"stat of a channel that does not exist fails");
	has_str("none", kit_cli_out,
		"the error says that there are no channels");
	has_str("'tarn channel ls' lists those that there are", kit_cli_out,
		"the hint names tarn channel ls");
	is_int(0, kit_cli_run("channel top -n 1"),
		"top without channels succeeds");
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
	is_int(0, kit_cli_run("channel ls"),
		"channel ls with channels succeeds");
	is_str("run/decoded  queue          4 x 8.00 KiB         1 ready  "
	       "1 in, 1 out\n",
		kit_cli_out, "channel ls prints a line for each channel");
	is_int(1, kit_cli_run("channel ls nothing"),
		"ls of a prefix that no channel has fails");
	has_str("no channel whose name begins with 'nothing'", kit_cli_out,
		"ls names the prefix that no channel has");
	is_int(0, kit_cli_run("channel stat run/decoded"),
		"channel stat succeeds");
	has_str("run/decoded: queue, 4 slots of 8.00 KiB, items of up to 2 "
		"tensors\n",
		kit_cli_out, "stat prints name, mode and sizes of the channel");
	has_str("[=#+.]\n", kit_cli_out, "stat draws a bar of the slots");
	has_str("= 1 being read, # 1 ready, + 1 being filled, . 1 free\n",
		kit_cli_out, "stat prints the number of slots in each state");
	has_str("published  2 items", kit_cli_out,
		"stat prints the number of published items");
	has_str("producers  1, consumers: 1\n", kit_cli_out,
		"stat prints the numbers of producers and consumers");
	is_int(0, kit_cli_run("channel stat run/decoded --json"),
		"stat --json succeeds");
	has_str("{\"name\":\"run/decoded\",\"mode\":\"queue\",\"slots\":4,"
		"\"slot_bytes\":8192,\"tensors\":2,\"free\":1,\"filling\":1,"
		"\"ready\":1,\"reading\":1,\"producers\":1,\"consumers\":1,"
		"\"closed\":false,\"idle\":false,\"published\":2,",
		kit_cli_out,
		"stat --json prints name, mode and sizes of the channel");
	is_int(0, kit_cli_run("channel top -n 2 -e 0.1 run/"),
		"channel top succeeds with two frames");
	has_str("run/decoded        [=#+.          ]     1        -           "
		"- "
		"  1   1 ",
		kit_cli_out, "top draws a row, at first without a rate");
	has_str("     1      0.0         0 B   1   1 ", kit_cli_out,
		"top draws a row with a rate in its second frame");
	tarn_slot_abandon(slot);
	tarn_item_unref(item);
	tarn_item_unref(kit_channel_receive(channel));
}

/* One that nobody has joined, which keeps its memory all the same. */
static void test_idle(void)
{
	tarn_channel_unref(kit_cli_make(store, "run/left", TARN_CHANNEL_QUEUE));
	is_int(0, kit_cli_run("channel ls run/left"),
		"channel ls of a channel without participants succeeds");
	has_str("0 in, 0 out, idle\n", kit_cli_out,
		"a channel without participants is listed as idle");
	is_int(0, kit_cli_run("channel ls run/left --json"),
		"ls --json lists the idle channel");
	has_str("\"idle\":true", kit_cli_out,
		"ls --json has a key for the idle channel");
	is_int(0, kit_cli_run("status"),
		"tarn status succeeds with idle channels");
	has_str("; channels: 2 (1 idle)\n", kit_cli_out,
		"tarn status counts the idle channels");
	is_int(0, kit_cli_run("status --json"),
		"status --json succeeds with idle channels");
	has_str("\"channels\":2,\"channels_idle\":1", kit_cli_out,
		"status --json has keys with the numbers of channels");
	is_int(0, kit_cli_run("channel rm run/left"),
		"an idle channel can be removed");
	is_int(0, kit_cli_run("status"),
		"status succeeds after the channel was removed");
	has_str("; channels: 1\n", kit_cli_out,
		"status does not count the removed channel");
}

static void test_other_verbs(void)
{
	is_int(0, kit_cli_run("ls"), "tarn ls succeeds with a channel");
	is_str("run/decoded  channel  -  -\n", kit_cli_out,
		"tarn ls lists the channel as one");
	is_int(0, kit_cli_run("ls --json"),
		"tarn ls --json succeeds with a channel");
	is_str("{\"tensors\":[{\"name\":\"run/decoded\",\"dtype\":null,"
	       "\"shape\":[],\"channel\":true,\"bytes\":null}]}\n",
		kit_cli_out, "ls --json gives the channel no dtype");
	is_int(0, kit_cli_run("info run"),
		"tarn info of a folder with a channel succeeds");
	has_str("run: published, 1 channel\n", kit_cli_out,
		"tarn info counts the channel apart from tensors");
	is_int(1, kit_cli_run("print run/decoded"),
		"tarn print of a channel fails");
	has_str("'run/decoded' is a channel", kit_cli_out,
		"the error of print says that it is a channel");
	has_str("'tarn channel stat run/decoded'", kit_cli_out,
		"the hint for a channel names tarn channel stat");
	is_int(1, kit_cli_run("save run %s/x.npy", test_tmpdir()),
		"tarn save below a channel's folder fails");
	has_str("nothing is published", kit_cli_out,
		"the error says that no tensor is published");
	is_int(1, kit_cli_run("save run/decoded %s/x.npy", test_tmpdir()),
		"tarn save of a channel's name fails");
	has_str("'run/decoded' is a channel", kit_cli_out,
		"the error of save says that it is a channel");
	is_int(1, kit_cli_run("copy run/decoded %s/x.npy", test_tmpdir()),
		"tarn copy of a channel fails");
	has_str("'run/decoded' is a channel", kit_cli_out,
		"the error of copy says that it is a channel");
	is_int(0, kit_cli_run("status"),
		"tarn status with one channel succeeds");
	has_str("; channels: 1\n", kit_cli_out,
		"tarn status counts the channel");
	test_idle();
	is_int(0, kit_cli_run("metrics"), "metrics succeeds with a channel");
	has_str("} 1\n",
		strstr(kit_cli_out, "tarn_pool_channels{")
			? strstr(kit_cli_out, "tarn_pool_channels{")
			: "",
		"metrics count the channel in its pool");
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
		"channel stat of a tensor fails");
	has_str("'tarn info run/tensor' shows what it is", kit_cli_out,
		"the hint for a tensor names tarn info");
	is_int(1, kit_cli_run("channel rm run/tensor run/decode"),
		"channel rm does not remove a tensor");
	has_str("did you mean 'run/decoded'?", kit_cli_out,
		"channel rm suggests the near name");
	is_int(1, kit_cli_run("channel stat ''"),
		"channel stat of an empty name fails");
	ok(!strstr(kit_cli_out, "tarn info"),
		"the error of an empty name has no hint to tarn info");
	is_int(0, kit_cli_run("info run"),
		"tarn info of a folder with both succeeds");
	has_str("run: published, 1 tensor, 4 B, 1 channel\n", kit_cli_out,
		"tarn info counts the tensor and the channel");
	is_int(0, kit_cli_run("rm run/tensor"),
		"the tensor still exists after channel rm");
	is_int(0, kit_cli_run("channel ls"),
		"channel ls below the tensor succeeds");
	ok(!strstr(kit_cli_out, "run/tensor"), "channel ls lists no tensors");
}

static void test_end(tarn_channel *channel)
{
	tarn_item *item;

	tarn_channel_unref(kit_cli_make(store, "run/gone", TARN_CHANNEL_QUEUE));
	kit_cli_send(channel, 10, "last", 4);
	is_int(1, kit_cli_run("channel close run/other run/nothing"),
		"close of one channel that exists and one that does not fails");
	has_str("nothing", kit_cli_out,
		"the error of close names the channel that does not exist");
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"the channel that exists is closed");
	is_int(0, kit_cli_run("channel ls run/other"),
		"channel ls of a closed channel succeeds");
	has_str(", closed\n", kit_cli_out,
		"ls shows that the channel is closed");
	is_int(0, kit_cli_run("channel stat -w 3600 run/other"),
		"watching a closed channel ends");
	has_str("; closed\n", kit_cli_out, "stat shows why watching ended");
	is_int(0, kit_cli_run("channel tail run/other"),
		"tail of a closed channel ends without error");
	is_str("", kit_cli_out,
		"tail of a closed channel prints no earlier items");
	is_int(0, kit_cli_run("channel rm run/gone"), "channel rm succeeds");
	is_int(0, kit_cli_run("channel ls"), "channel ls after rm succeeds");
	ok(!strstr(kit_cli_out, "run/gone"),
		"channel ls does not list the removed name");
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
		"close of a channel with an item in it succeeds");
	is_int(-EPIPE, tarn_channel_acquire(channel, 0, &slot),
		"a producer cannot acquire a slot of a closed channel");
	tarn_item_unref(kit_channel_receive(channel));
	is_int(-EPIPE, tarn_channel_receive(channel, 0, &item),
		"items published before the close were received");
	is_int(1, kit_cli_run("rm run/"),
		"rm of several channels fails when one is open and in use");
	has_str("'run/decoded' is a channel that has ", kit_cli_out,
		"the output contains the expected words");
	has_str("'tarn channel close run/decoded' ends it", kit_cli_out,
		"the error of rm names tarn channel close");
	ok(!strstr(kit_cli_out, "'run/queue' is"),
		"rm of a closed channel with items fails");
	is_int(0, kit_cli_run("channel stat run/queue"),
		"the closed channel with items still has its name");
	is_int(0, kit_cli_run("channel close run/decoded"),
		"another channel is closed");
	is_int(0, kit_cli_run("rm run/"),
		"rm removes the names of closed channels");
	has_str("removed 3 names below run/\n", kit_cli_out,
		"tarn rm counts the removed names");
	tarn_channel_unref(channel);
}

/* Participants would lose those that come later. */
static void test_plain_rm(void)
{
	tarn_channel *channel =
		kit_cli_make(store, "apart/busy", TARN_CHANNEL_QUEUE);

	if (tarn_channel_join(channel, TARN_CHANNEL_CONSUMER) < 0)
		bail("join: %s", tarn_error_message());
	is_int(1, kit_cli_run("rm apart/busy"),
		"tarn rm of a channel in use fails");
	has_str("'apart/busy' is a channel that has 0 producers and 1 consumer",
		kit_cli_out, "the error of rm counts the participants");
	has_str("'tarn channel close apart/busy' ends it", kit_cli_out,
		"the error of rm names tarn channel close for that channel");
	is_int(0, kit_cli_run("channel stat apart/busy"),
		"the channel in use still exists");
	is_int(0, kit_cli_run("channel close apart/busy"),
		"the channel in use is closed");
	is_int(0, kit_cli_run("rm apart/busy"),
		"tarn rm removes the closed channel");
	tarn_channel_unref(channel);
	tarn_channel_unref(
		kit_cli_make(store, "apart/idle", TARN_CHANNEL_QUEUE));
	is_int(0, kit_cli_run("rm apart/idle"),
		"tarn rm removes a channel without participants");
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
	is_int(0, kit_cli_end_daemon(), "the daemon ends without an error");
	return done(96);
}
