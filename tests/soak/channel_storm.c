/* SPDX-License-Identifier: MIT */
/*
 * Producers, consumers and servers are killed at random while tensors of the
 * pool go from hand to hand through a channel, kept by nothing but their items:
 *
 *	channel_storm [SECONDS]
 *
 * What was published is received, with the right bytes, and once, unless it
 * says that it is delivered again. Nobody who lives is taken for dead. In the
 * end no slot and no byte is left taken, and the books are right.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { PRODUCERS = 3, CONSUMERS = 3, WORKERS = PRODUCERS + CONSUMERS };
enum { SLOTS = 8, SECONDS = 4, ITEMS_MAX = 1 << 20, SIZE = 20000 };
enum { ITEMS_MIN = 21, PATIENCE_S = 120, SLOWER_US = 5000 };

/* What becomes of an item. */
enum fate { NOTHING, BEGUN, PUBLISHED };

static struct shared {
	_Atomic bool no_more, stop;
	_Atomic uint32_t n_items;
	_Atomic long n_received, n_again;
	_Atomic int n_faults;
	char fault[300]; /* the first */
	_Atomic uint8_t fates[ITEMS_MAX];
	_Atomic uint8_t received[ITEMS_MAX];
} * shared;

static struct daemon daemon_;
static enum tarn_channel_mode mode;

static void fault(const char *what, uint32_t item, int r)
{
	if (atomic_fetch_add(&shared->n_faults, 1) == 0)
		snprintf(shared->fault, sizeof(shared->fault),
			"item %u: %s: %d, %s", item, what, r,
			tarn_error_message());
}

/* ---- workers ----------------------------------------------------------- */

/* It waits long for every answer: many servers die, and a busy machine takes
 * its time to begin the next. */
static tarn_store *store_of(void)
{
	tarn_store *store = NULL;
	double end = seconds() + PATIENCE_S;
	int r = -ECONNREFUSED;

	while (r < 0 && seconds() < end) {
		r = tarn_store_open(daemon_.socket, NULL, &store);
		if (r < 0)
			usleep(10000);
	}
	if (r < 0)
		fault("a store", 0, r);
	else
		store->connection.timeout_ms = PATIENCE_S * 1000;
	return store;
}

static void open_channel(tarn_store *store, tarn_channel **ret)
{
	const struct tarn_channel_options options = {
		.mode = mode, .slots = SLOTS, .slot_bytes = 4096, .tensors = 2};
	int r = CALL_AGAIN(tarn_channel_open(store, "channel", &options, ret));

	if (r < 0) {
		fault("the channel", 0, r);
		_exit(1);
	}
}

/* One that only we hold, when this returns. */
static tarn_tensor *make_tensor(tarn_store *store, uint32_t item)
{
	int64_t shape = SIZE;
	char name[40];
	struct tarn_publish_item published = {.name = name};
	tarn_tensor *tensor = NULL;
	unsigned char *p;
	int r;

	snprintf(name, sizeof(name), "t/%u", item);
	r = tarn_store_create(store, TARN_U8, 1, &shape, 0, &published.tensor);
	if (r < 0)
		return NULL;
	p = tarn_tensor_data(published.tensor);
	for (uint64_t i = 0; i < SIZE; i++)
		p[i] = made_byte(i, item);
	r = tarn_store_publish(store, &published, 1, NULL, NULL);
	tarn_tensor_unref(published.tensor);
	if (r >= 0)
		r = CALL_AGAIN(tarn_store_lookup(store, name, &tensor));
	if (r >= 0)
		r = tarn_store_remove(store, name);
	/* Two servers were killed during the call, or one was slow to begin:
	 * remove_names() removes the name if it is there. */
	if (r < 0 && r != -ECONNRESET && r != -ETIMEDOUT)
		fault("a tensor", item, r);
	return tensor;
}

/* Now and then a child takes its time, so that it is killed meanwhile. */
static void dawdle(uint32_t item, uint32_t which)
{
	if (item % 64 == which)
		usleep(10000);
}

/* Let go of before it is published, or after. */
static int send_tensor(
	tarn_channel *channel, uint32_t item, tarn_tensor *tensor)
{
	tarn_slot *slot;
	int r = CALL_AGAIN(tarn_channel_acquire(channel, 1000, &slot));

	if (r < 0) {
		tarn_tensor_unref(tensor);
		return r;
	}
	r = tarn_slot_add(slot, tensor);
	if (item % 2)
		tensor = tarn_tensor_unref(tensor);
	dawdle(item, 1);
	if (r >= 0)
		r = tarn_slot_set_tag(slot, &item, sizeof(item));
	if (r < 0)
		tarn_slot_abandon(slot);
	else
		r = tarn_slot_publish(slot);
	tarn_tensor_unref(tensor);
	return r;
}

static void produce(tarn_store *store, tarn_channel *channel)
{
	while (!shared->no_more && !shared->n_faults) {
		uint32_t item = atomic_fetch_add(&shared->n_items, 1);
		tarn_tensor *tensor;
		int r;

		if (item >= ITEMS_MAX)
			break;
		shared->fates[item] = BEGUN;
		tensor = make_tensor(store, item);
		if (!tensor)
			continue;
		r = send_tensor(channel, item, tensor);
		if (r >= 0)
			shared->fates[item] = PUBLISHED;
		else if (r != -ETIMEDOUT)
			fault("sending", item, r);
	}
}

static void look_at(tarn_item *item)
{
	tarn_tensor *tensor = NULL;
	uint32_t number = 0;
	size_t size;
	const void *tag = tarn_item_tag(item, &size);
	int r = CALL_AGAIN(tarn_item_tensor(item, 0, &tensor));

	memcpy(&number, tag, sizeof(number));
	dawdle(number, 2);
	if (r < 0)
		return fault("what it keeps", number, r);
	/* With a lease of our own, or with the item's. */
	if (number % 4 > 1)
		item = tarn_item_unref(item);
	if (!tensor_is(tensor, number, SIZE))
		fault("other bytes", number, 0);
	tarn_tensor_unref(tensor);
	tarn_item_unref(item);
}

static void count(tarn_item *item)
{
	uint32_t number = 0;
	size_t size;
	const void *tag = tarn_item_tag(item, &size);

	memcpy(&number, tag, sizeof(number));
	shared->n_received++;
	shared->n_again += tarn_item_redelivered(item);
	if (number >= ITEMS_MAX)
		fault("no such item", number, 0);
	else if (atomic_fetch_add(&shared->received[number], 1) &&
		 mode == TARN_CHANNEL_QUEUE && !tarn_item_redelivered(item))
		fault("received twice", number, 0);
}

static void consume(tarn_channel *channel)
{
	while (!shared->stop && !shared->n_faults) {
		tarn_item *item;
		int r = CALL_AGAIN(tarn_channel_receive(channel, 50, &item));

		if (r == -ETIMEDOUT)
			continue;
		if (r < 0) {
			fault("receiving", 0, r);
			break;
		}
		count(item);
		look_at(item);
	}
}

static pid_t start(int worker)
{
	tarn_channel *channel = NULL;
	tarn_store *store;
	pid_t pid = fork();

	if (pid < 0)
		bail("fork: %m");
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	store = store_of();
	if (!store)
		_exit(1);
	open_channel(store, &channel);
	if (worker < PRODUCERS)
		produce(store, channel);
	else
		consume(channel);
	tarn_channel_unref(channel);
	tarn_store_unref(store);
	_exit(0);
}

/* ---- the storm --------------------------------------------------------- */

static pid_t workers[WORKERS];

static void kill_all(void *arg)
{
	for (int i = 0; i < WORKERS; i++)
		if (workers[i] > 0)
			kill(workers[i], SIGKILL);
}

static void replace_worker(int i)
{
	kill(workers[i], SIGKILL);
	waitpid(workers[i], NULL, 0);
	workers[i] = start(i);
}

static long count_published(void)
{
	long n = 0;

	for (uint32_t i = 0; i < shared->n_items && i < ITEMS_MAX; i++)
		n += shared->fates[i] == PUBLISHED;
	return n;
}

static bool is_answered(tarn_store *store)
{
	struct tarn_report_daemon s;

	return report_daemon(store, &s) >= 0;
}

/* Until then, and until there was something to do: a busy machine may take
 * longer for that, and is given more and more time between two kills. */
static void rage(tarn_store *store, double until)
{
	unsigned n = 0, seed = 4711, nap_us = 60000;

	while ((seconds() < until || (count_published() < ITEMS_MIN &&
					     seconds() < until + PATIENCE_S)) &&
		!shared->n_faults) {
		nap_us += seconds() < until ? 0 : SLOWER_US;
		usleep(20000 + (useconds_t)rand_r(&seed) % nap_us);
		if (n++ % 8 != 7)
			replace_worker(rand_r(&seed) % WORKERS);
		else if (is_answered(store))
			server_kill(&daemon_);
	}
	diag("%u kills", n);
}

static void end_workers(int from, int to)
{
	for (int i = from; i < to; i++) {
		int status = -1;

		waitpid(workers[i], &status, 0);
		workers[i] = 0;
		if (status)
			fault("a worker ended badly", (uint32_t)i, status);
	}
}

/* All that was published, and at most what was begun. */
static bool is_drained(tarn_channel *channel)
{
	double end = seconds() + PATIENCE_S;
	struct tarn_channel_info info = {0};

	while (seconds() < end && !shared->n_faults) {
		if (tarn_channel_info(channel, &info) < 0)
			return false;
		if (info.free == SLOTS)
			return true;
		usleep(10000);
	}
	diag("%u slots are free, %u ready, %u being filled, %u read", info.free,
		info.ready, info.filling, info.reading);
	return false;
}

static void remove_names(tarn_store *store)
{
	char name[40];

	for (uint32_t i = 0; i < shared->n_items && i < ITEMS_MAX; i++) {
		snprintf(name, sizeof(name), "t/%u", i);
		if (shared->fates[i] != NOTHING)
			may_fail(tarn_store_remove(store, name));
	}
}

static void check_all_received(void)
{
	long published = count_published(), lost = 0;

	for (uint32_t i = 0; i < shared->n_items && i < ITEMS_MAX; i++)
		lost += shared->fates[i] == PUBLISHED && !shared->received[i];
	diag("%ld items, %ld receptions, %ld of them again", published,
		(long)shared->n_received, (long)shared->n_again);
	ok(published >= ITEMS_MIN, "enough items were published");
	/* A broadcast reaches the consumers of the moment, perhaps none. */
	if (mode == TARN_CHANNEL_QUEUE)
		is_int(0, lost, "no published item is lost");
}

static void check_books(tarn_store *store)
{
	struct tarn_check *check = NULL;
	double end = seconds() + PATIENCE_S;
	int r = -EBUSY;

	while (r == -EBUSY && seconds() < end) {
		r = tarn_store_check(store, &check);
		if (r == -EBUSY)
			usleep(10000);
	}
	if (r < 0)
		bail("check: %s", tarn_error_message());
	is_int(0, check->n_faults, "tarn check finds no fault%s%s",
		check->n_faults ? ": " : "",
		check->n_faults ? check->faults[0] : "");
	tarn_check_free(check);
}

static void storm(enum tarn_channel_mode of, double duration)
{
	struct tarn_report_daemon before;
	struct tarn_channel_info info;
	tarn_channel *channel;
	tarn_store *store;

	memset(shared, 0, sizeof(*shared));
	mode = of;
	store = store_of();
	if (!store)
		bail("%s", tarn_error_message());
	open_channel(store, &channel);
	if (report_daemon(store, &before) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < WORKERS; i++)
		workers[i] = start(i);
	rage(store, seconds() + duration);
	shared->no_more = true;
	end_workers(0, PRODUCERS);
	ok(is_drained(channel), "all items that were published are received");
	shared->stop = true;
	end_workers(PRODUCERS, WORKERS);
	is_str("", shared->fault, "no worker reports a fault");
	check_all_received();
	remove_names(store);
	ok(used_becomes(store, before.used), "no byte is allocated at the end");
	check_books(store);
	if (tarn_channel_info(channel, &info) < 0)
		bail("%s", tarn_error_message());
	is_int(0, info.producers + info.consumers, "no participant is left");
	tarn_channel_unref(channel);
	if (tarn_store_remove(store, "channel") < 0)
		bail("%s", tarn_error_message());
	ok(used_becomes(store, 0),
		"the memory of the channel without participants is free");
	check_books(store);
	tarn_store_unref(store);
}

int main(int argc, char **argv)
{
	const char *const options[] = {
		"--budget", "256M", "--segment-size", "16M", NULL};
	double duration = argc > 1 ? atof(argv[1]) : SECONDS;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bail("mmap: %m");
	at_bail(kill_all, NULL);
	daemon_start(&daemon_, "s", options);
	storm(TARN_CHANNEL_QUEUE, duration);
	storm(TARN_CHANNEL_BROADCAST, duration);
	is_int(0, daemon_stop(&daemon_), "the daemon ends without an error");
	return done(18);
}
