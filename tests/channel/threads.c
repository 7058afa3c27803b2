/* SPDX-License-Identifier: MIT */
/*
 * One handle and many threads: they are one producer and one consumer, and
 * each item is received once. Waits end when the handle leaves, or the channel
 * ends; an item is released by the last thread that drops it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define THREADS 3
#define EACH 2000
#define LONG_MS 60000

static struct daemon server;
static tarn_store *store;

static const struct tarn_channel_options small = {
	.slots = 4, .slot_bytes = 4096};

/* ---- one handle -------------------------------------------------------- */

static atomic_int seen[THREADS * EACH];
static atomic_int numbers;

static void *produce(void *arg)
{
	int64_t first = atomic_fetch_add(&numbers, 1) * EACH;

	for (int64_t i = first; i < first + EACH; i++)
		if (kit_channel_put(arg, LONG_MS, i) < 0)
			bail("%s", tarn_error_message());
	return NULL;
}

static void *consume(void *arg)
{
	int64_t i;

	while ((i = kit_channel_get(arg, LONG_MS)) >= 0)
		seen[i]++;
	if (i != -EPIPE)
		bail("%s", tarn_error_message());
	return NULL;
}

static void test_shared(void)
{
	tarn_channel *c = kit_channel_open(store, "shared", &small);
	pthread_t in[THREADS], out[THREADS];
	int once = 0;

	for (int i = 0; i < THREADS; i++) {
		pthread_create(&in[i], NULL, consume, c);
		pthread_create(&out[i], NULL, produce, c);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(out[i], NULL);
	is_int(1, kit_channel_info(c).producers,
		"the threads of a handle are one producer");
	is_int(1, kit_channel_info(c).consumers,
		"the threads of a handle are one consumer");
	must(tarn_channel_close(c));
	for (int i = 0; i < THREADS; i++)
		pthread_join(in[i], NULL);
	for (int i = 0; i < THREADS * EACH; i++)
		once += seen[i] == 1;
	is_int(THREADS * EACH, once,
		"each item is received once by the threads");
	is_int(4, kit_channel_info(c).free,
		"no slot is lost among the threads");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "shared"));
}

/* ---- waits that end ---------------------------------------------------- */

static void *wait_for_item(void *arg)
{
	tarn_item *item;

	return (void *)(intptr_t)tarn_channel_receive(arg, LONG_MS, &item);
}

static void *wait_for_slot(void *arg)
{
	tarn_slot *slot;

	return (void *)(intptr_t)tarn_channel_acquire(arg, LONG_MS, &slot);
}

static int joined(pthread_t thread)
{
	void *r;

	pthread_join(thread, &r);
	return (int)(intptr_t)r;
}

static void test_leave(enum tarn_channel_mode mode)
{
	struct tarn_channel_options options = small;
	tarn_channel *c, *other;
	tarn_item *item = NULL;
	pthread_t in, out;

	options.mode = mode;
	options.slots = 1;
	c = kit_channel_open(store, "leave", &options);
	other = kit_channel_open(store, "leave", NULL);
	must(tarn_channel_join(c, TARN_CHANNEL_CONSUMER));
	/* With an item in hand, which keeps the participant. */
	kit_channel_put(other, 0, 1);
	item = kit_channel_receive(c);
	pthread_create(&in, NULL, wait_for_item, c);
	pthread_create(&out, NULL, wait_for_slot, c);
	kit_channel_until_asleep(2);
	is_int(0, tarn_channel_leave(c, 3),
		"%d: a handle leaves while threads wait", (int)mode);
	is_int(-ESTALE, joined(in),
		"%d: a thread that waits for an item is woken", (int)mode);
	is_int(-ESTALE, joined(out),
		"%d: a thread that waits for a slot is woken", (int)mode);
	is_int(1, kit_channel_value(item),
		"%d: an item in hand stays when the handle leaves", (int)mode);
	tarn_item_unref(item);
	is_int(1, kit_channel_info(other).free,
		"%d: an item in hand is released afterwards", (int)mode);
	tarn_channel_unref(c);
	tarn_channel_unref(other);
	must(tarn_store_remove(store, "leave"));
}

static void test_close(void)
{
	struct tarn_channel_options options = small;
	tarn_channel *c, *full, *other;
	pthread_t in, out;

	options.slots = 1;
	c = kit_channel_open(store, "ends", &options);
	other = kit_channel_open(store, "ends", NULL);
	full = kit_channel_open(store, "full", &options);
	kit_channel_put(full, 0, 1);
	pthread_create(&in, NULL, wait_for_item, c);
	pthread_create(&out, NULL, wait_for_slot, full);
	kit_channel_until_asleep(2);
	must(tarn_channel_close(other));
	is_int(-EPIPE, joined(in),
		"closing the channel ends a wait for an item");
	must(tarn_channel_close(full));
	is_int(-EPIPE, joined(out),
		"closing the channel ends a wait for a slot");
	tarn_channel_unref(c);
	tarn_channel_unref(other);
	tarn_channel_unref(full);
	may_fail(tarn_store_remove(store, "ends"));
	may_fail(tarn_store_remove(store, "full"));
}

static void nothing(int sig)
{
	(void)sig;
}

static void test_signal(void)
{
	struct sigaction action = {
		.sa_handler = nothing, .sa_flags = SA_RESTART};
	tarn_channel *c = kit_channel_open(store, "signal", &small);
	pthread_t in;
	void *r = NULL;
	struct timespec soon;

	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&in, NULL, wait_for_item, c);
	/* One that comes before it sleeps is not what this is about. */
	do {
		pthread_kill(in, SIGUSR1);
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 50000000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(in, &r, &soon) == ETIMEDOUT);
	is_int(-EINTR, (int)(intptr_t)r, "a signal with a handler ends a wait");
	is_int(0, kit_channel_put(c, 0, 1),
		"after a handled signal nothing is published twice");
	is_int(1, kit_channel_get(c, 0),
		"the channel still works after the signal");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "signal"));
}

/* ---- who drops it last ------------------------------------------------- */

static void *drop(void *arg)
{
	tarn_tensor_unref(arg);
	return NULL;
}

static void test_dropped(void)
{
	tarn_channel *c = kit_channel_open(store, "drop", &small);
	int lost = 0;

	for (int i = 0; i < 100; i++) {
		pthread_t threads[2];
		tarn_item *item;

		kit_channel_put(c, 0, i);
		item = kit_channel_receive(c);
		for (int j = 0; j < 2; j++)
			pthread_create(&threads[j], NULL, drop,
				kit_channel_tensor(item, 0));
		tarn_item_unref(item);
		for (int j = 0; j < 2; j++)
			pthread_join(threads[j], NULL);
		lost += kit_channel_info(c).free != 4;
	}
	is_int(0, lost, "the last of three threads gives the item back");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "drop"));
}

int main(void)
{
	daemon_start(&server, "threads.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_shared();
	test_leave(TARN_CHANNEL_QUEUE);
	test_leave(TARN_CHANNEL_BROADCAST);
	test_close();
	test_signal();
	test_dropped();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(21);
}
