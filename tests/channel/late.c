/* SPDX-License-Identifier: MIT */
/*
 * The last item of a closed channel is dropped wherever its last array is: in
 * Python under the interpreter's lock. Once that waited for a daemon that
 * hangs, and stopped all threads. Now it does not wait; but the next client
 * that opens the channel does not find the one that has ended.
 */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* How long an answer is waited for, on a loaded machine, and what is soon. */
#define ANSWER_MS 120000
#define SOON_MS 60000

/* Its name goes with the last who takes part. */
static const struct tarn_channel_options small = {
	.slots = 3, .slot_bytes = 4096, .flags = TARN_CHANNEL_EPHEMERAL};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static pid_t server_pid(tarn_store *store)
{
	struct tarn_report_daemon status;

	if (report_daemon(store, &status) < 0)
		bail("status: %s", tarn_error_message());
	return status.server_pid;
}

static int open_again(tarn_store *store, const char *name)
{
	tarn_channel *c;
	int r = tarn_channel_open(store, name, NULL, &c);

	if (r >= 0)
		tarn_channel_unref(c);
	return r;
}

struct named {
	tarn_store *store;
	const char *name;
};

/* After the server's next look. */
static bool is_free(void *arg)
{
	const struct named *named = arg;

	return open_again(named->store, named->name) == -ENOENT;
}

/* A channel that is closed and has been left, but for what is in hand. */
static void finish(tarn_channel *c)
{
	if (tarn_channel_close(c) < 0)
		bail("close: %s", tarn_error_message());
	tarn_channel_unref(c);
}

/* Stops the daemon while the channel's last participant, who, has a slot or an
 * item in hand. Returns the time. */
static int64_t hang(
	tarn_store *store, pid_t server, const char *name, const char *who)
{
	is_int(0, open_again(store, name),
		"the channel has its name while its %s is in use", who);
	kill(server, SIGSTOP);
	return now_ms();
}

/* That participant has released it since. */
static void went_soon(tarn_store *store, pid_t server, const char *name,
	int64_t began, const char *how)
{
	ok(now_ms() - began < SOON_MS,
		"a drop that %s does not wait for the hanging daemon", how);
	kill(server, SIGCONT);
	ok(kit_channel_comes_true(
		   is_free, &(struct named) {.store = store, .name = name}),
		"the channel's name is free afterwards");
}

static void test_item(tarn_store *store)
{
	pid_t server = server_pid(store);
	tarn_channel *c = kit_channel_open(store, "item", &small);
	tarn_item *item;
	int64_t began;

	is_int(0, kit_channel_put(c, 0, 1), "an item is published");
	item = kit_channel_receive(c);
	finish(c);
	began = hang(store, server, "item", "reader");
	tarn_item_unref(item);
	went_soon(store, server, "item", began, "is through");
}

static void test_slot(tarn_store *store)
{
	pid_t server = server_pid(store);
	tarn_channel *c = kit_channel_open(store, "slot", &small);
	tarn_slot *slot = kit_channel_acquire(c);
	int64_t began;

	finish(c);
	began = hang(store, server, "slot", "producer");
	tarn_slot_abandon(slot);
	went_soon(store, server, "slot", began, "gives up");
}

int main(void)
{
	struct daemon server;
	tarn_store *store;

	daemon_start(&server, "late.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	store->connection.timeout_ms = ANSWER_MS;
	test_item(store);
	test_slot(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(8);
}
