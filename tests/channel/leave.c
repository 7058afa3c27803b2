/* SPDX-License-Identifier: MIT */
/*
 * Items that are left in a closed channel are not lost to a channel that would
 * take its name: a client that makes one gets an error with their number and
 * what to do, and a late consumer receives them. Nor does a name stay when
 * nothing is left behind it: it goes with the last participant, even if that
 * is killed, and the next receiver waits for the next channel.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct daemon server;
static const struct tarn_channel_options small = {
	.slots = 3, .slot_bytes = 4096};
static const struct tarn_channel_options cast = {
	.mode = TARN_CHANNEL_BROADCAST, .slots = 3, .slot_bytes = 4096};

/* A sender that has come, sent so many, and gone. */
static void send(tarn_store *store, const char *name, int n)
{
	tarn_channel *c = kit_channel_open(store, name, &small);

	for (int i = 0; i < n; i++)
		if (kit_channel_put(c, 0, i) < 0)
			bail("put: %s", tarn_error_message());
	if (tarn_channel_close(c) < 0)
		bail("close: %s", tarn_error_message());
	tarn_channel_unref(c);
}

static void test_sent_twice(tarn_store *store)
{
	tarn_channel *c, *late;

	send(store, "twice", 2);
	is_int(-EEXIST, tarn_channel_open(store, "twice", &small, &c),
		"a second channel of a name with an item left is refused");
	is_str("channel 'twice': it is closed, 2 items not received; receive "
	       "them, or 'tarn channel rm twice'",
		tarn_error_message(),
		"the error says how to receive or drop the item");
	late = kit_channel_open(store, "twice", NULL);
	is_int(0, kit_channel_get(late, 0),
		"a late consumer receives the first item");
	is_int(-EEXIST, tarn_channel_open(store, "twice", &small, &c),
		"a channel with one item left keeps its name");
	has_str("1 item not received; receive it,", tarn_error_message(),
		"the error contains '1 item not received; receive it,'");
	is_int(1, kit_channel_get(late, 0),
		"the late consumer receives the second item");
	is_int(-EPIPE, kit_channel_get(late, 0),
		"after the second item comes the end");
	c = kit_channel_open(store, "twice", &small);
	is_int(0, kit_channel_put(c, 0, 10),
		"a new channel takes the name of the empty one");
	is_int(-EPIPE, kit_channel_get(late, 0),
		"the new channel is not the old one");
	tarn_channel_unref(late);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "twice"));
}

static void test_broadcast(tarn_store *store)
{
	tarn_channel *out = kit_channel_open(store, "cast", &cast),
		     *in = kit_channel_open(store, "cast", NULL), *c;

	if (tarn_channel_join(in, TARN_CHANNEL_CONSUMER) < 0)
		bail("join: %s", tarn_error_message());
	is_int(0, kit_channel_put(out, 0, 1),
		"an item is published to a consumer");
	is_int(0, tarn_channel_close(out),
		"the producer closes the channel with one item in it");
	c = kit_channel_open(store, "cast", &cast);
	is_int(0, (int64_t)kit_channel_info(c).closed,
		"a closed broadcast keeps no item for late consumers");
	is_int(1, kit_channel_get(in, 0),
		"a consumer that was there receives its item");
	is_int(-EPIPE, kit_channel_get(in, 0),
		"after its item the consumer gets the end");
	tarn_channel_unref(out);
	tarn_channel_unref(in);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "cast"));
}

/* ---- the name of one that is over ---------------------------------------- */

static tarn_store *asked;

static bool is_gone(void *name)
{
	tarn_channel *c;
	int r = tarn_channel_open(asked, name, NULL, &c);

	if (r >= 0)
		tarn_channel_unref(c);
	return r == -ENOENT;
}

static bool is_ready(void *channel)
{
	return kit_channel_info(channel).ready > 0;
}

static void test_over(tarn_store *store)
{
	tarn_channel *out = kit_channel_open(store, "over", &small),
		     *in = kit_channel_open(store, "over", NULL),
		     *looking = kit_channel_open(store, "over", NULL);
	tarn_item *item;

	is_int(0, kit_channel_put(out, 0, 1), "an item is published");
	item = kit_channel_receive(in);
	is_int(0, tarn_channel_leave(out, TARN_CHANNEL_PRODUCER),
		"its producer leaves");
	is_int(0, tarn_channel_close(out),
		"the channel is closed after its producer left");
	is_int(-EPIPE, kit_channel_get(in, 0), "the consumer receives the end");
	tarn_channel_unref(in);
	ok(!is_gone("over"),
		"the name stays while a consumer reads the last item");
	tarn_item_unref(item);
	ok(kit_channel_comes_true(is_gone, "over"),
		"the name goes soon after the last item is released");
	is_int(-EPIPE, kit_channel_get(looking, 0),
		"a handle that is still open sees the end");
	tarn_channel_unref(looking);
	tarn_channel_unref(out);
}

static void test_closed_last(tarn_store *store)
{
	tarn_channel *c = kit_channel_open(store, "last", &small);

	is_int(0, kit_channel_put(c, 0, 1),
		"an item is published to be received");
	is_int(1, kit_channel_get(c, 0), "the item is received");
	is_int(0, tarn_channel_leave(c, 3), "all participants leave");
	ok(!is_gone("last"), "an open channel keeps its name");
	is_int(0, tarn_channel_close(c),
		"the channel is closed after all have left");
	ok(kit_channel_comes_true(is_gone, "last"),
		"a channel closed after all have left loses its name");
	tarn_channel_unref(c);
}

/* A participant is killed with an item in hand, or without. */
static void test_killed(tarn_store *store, bool with)
{
	const char *name = with ? "with" : "without";
	tarn_channel *c = kit_channel_open(store, name, &small);
	int pipes[2];
	char byte;
	pid_t pid;

	if (pipe(pipes) < 0 || kit_channel_put(c, 0, 7) < 0)
		bail("put: %s", tarn_error_message());
	pid = fork();
	if (pid == 0) {
		tarn_channel *theirs = kit_channel_open(
			kit_channel_store(server.socket), name, NULL);
		tarn_item *item = kit_channel_receive(theirs);

		if (!with)
			tarn_item_unref(item);
		if (write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1)
		bail("the other one failed");
	close(pipes[0]);
	is_int(0, tarn_channel_close(c),
		"the channel is closed while a participant is there");
	tarn_channel_unref(c);
	ok(!is_gone((void *)name),
		"the channel keeps its name while a participant is there, %s "
		"an item",
		name);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!with) {
		ok(kit_channel_comes_true(is_gone, (void *)name),
			"the name goes when the last participant is killed");
		return;
	}
	c = kit_channel_open(store, name, NULL);
	ok(kit_channel_comes_true(is_ready, c),
		"the killed consumer's item is left");
	is_int(7, kit_channel_get(c, 0),
		"a late consumer receives the killed one's item");
	tarn_channel_unref(c);
	ok(kit_channel_comes_true(is_gone, (void *)name),
		"the name goes after the last item was received");
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "left.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_sent_twice(store);
	test_broadcast(store);
	asked = store;
	test_over(store);
	test_closed_last(store);
	test_killed(store, false);
	test_killed(store, true);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(36);
}
