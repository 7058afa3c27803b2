/* SPDX-License-Identifier: MIT */
/*
 * Channels in an event loop, and watched: a descriptor becomes readable when
 * there is an item, a free slot or the end; the thread behind it sleeps while
 * there is nothing; and a watcher takes no item from a consumer.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "shm/ring.h"
#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define LONG_MS 60000
#define ITEMS 200

static struct daemon server;

static int polled(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms);
}

static int channel_fd(tarn_channel *c, enum tarn_channel_role role)
{
	int fd = tarn_channel_fd(c, role);

	if (fd < 0)
		bail("%s", tarn_error_message());
	return fd;
}

static const struct tarn_channel_options small = {
	.slots = 2, .slot_bytes = 4096};

/* ---- both ways --------------------------------------------------------- */

static void test_consumer(tarn_store *store)
{
	tarn_channel *in = kit_channel_open(store, "in", &small),
		     *out = kit_channel_open(store, "in", NULL);
	int fd = channel_fd(in, TARN_CHANNEL_CONSUMER);

	is_int(fd, channel_fd(in, TARN_CHANNEL_CONSUMER),
		"a channel has one descriptor for each role");
	is_int(0, polled(fd, 50),
		"the descriptor is not readable without an item");
	kit_channel_put(out, 0, 1);
	is_int(1, polled(fd, LONG_MS),
		"the descriptor is readable when there is an item");
	is_int(1, polled(fd, 0),
		"the descriptor stays readable while an item is there");
	is_int(1, kit_channel_get(in, 0), "the item is received");
	is_int(-ETIMEDOUT, kit_channel_get(in, 0),
		"no further item is received");
	is_int(0, polled(fd, 50),
		"the descriptor is not readable after the last item");
	kit_channel_put(out, 0, 2);
	kit_channel_put(out, 0, 3);
	is_int(1, polled(fd, LONG_MS),
		"the next item makes the descriptor readable again");
	is_int(2, kit_channel_get(in, 0), "one of two items is received");
	is_int(1, polled(fd, LONG_MS),
		"the descriptor is readable while an item is left");
	is_int(3, kit_channel_get(in, 0), "the second item is received");
	is_int(-ETIMEDOUT, kit_channel_get(in, 0), "no second item comes");
	kit_channel_put(out, 0, 4);
	is_int(4, kit_channel_get(in, LONG_MS),
		"an item is received without polling first");
	must(tarn_channel_close(out));
	is_int(1, polled(fd, LONG_MS),
		"the descriptor is readable at the channel's end");
	is_int(-EPIPE, kit_channel_get(in, 0),
		"a receive at the channel's end is EPIPE");
	is_int(1, polled(fd, 0),
		"the end of the channel makes the descriptor readable");
	is_int(-EINVAL, tarn_channel_fd(in, 3),
		"a descriptor for both roles is refused");
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	may_fail(tarn_store_remove(store, "in"));
}

static void test_producer(tarn_store *store)
{
	tarn_channel *in = kit_channel_open(store, "out", &small),
		     *out = kit_channel_open(store, "out", NULL);
	int fd = channel_fd(out, TARN_CHANNEL_PRODUCER);
	tarn_item *first;

	is_int(1, polled(fd, LONG_MS),
		"a producer's descriptor is readable while slots are free");
	is_int(0, kit_channel_put(out, 0, 1),
		"a first slot is filled and published");
	is_int(0, kit_channel_put(out, 0, 2),
		"a second slot is filled and published");
	is_int(-ETIMEDOUT, kit_channel_put(out, 0, 3), "no third slot is free");
	is_int(0, polled(fd, 50),
		"without a free slot the descriptor is not ready");
	first = kit_channel_receive(in);
	is_int(0, polled(fd, 50),
		"an item that is received but not released frees no slot");
	tarn_item_unref(first);
	is_int(1, polled(fd, LONG_MS),
		"the descriptor is readable when the item is released");
	is_int(0, kit_channel_put(out, 0, 3),
		"a slot that was given back can be filled");
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	must(tarn_store_remove(store, "out"));
}

static void test_broadcast(tarn_store *store)
{
	const struct tarn_channel_options cast = {
		.slots = 2, .slot_bytes = 4096, .mode = TARN_CHANNEL_BROADCAST};
	tarn_channel *out = kit_channel_open(store, "cast", &cast),
		     *in[2] = {kit_channel_open(store, "cast", NULL),
			     kit_channel_open(store, "cast", NULL)};
	int fds[2], full = channel_fd(out, TARN_CHANNEL_PRODUCER);

	for (int i = 0; i < 2; i++)
		fds[i] = channel_fd(in[i], TARN_CHANNEL_CONSUMER);
	/* The descriptor's thread signals the free slots now, and not during
	 * the checks below. */
	polled(full, LONG_MS);
	kit_channel_put(out, 0, 1);
	for (int i = 0; i < 2; i++) {
		is_int(1, polled(fds[i], LONG_MS),
			"%d: a consumer's descriptor reports a broadcast item",
			i);
		is_int(1, kit_channel_get(in[i], 0),
			"%d: a consumer receives the broadcast item", i);
		is_int(-ETIMEDOUT, kit_channel_get(in[i], 0),
			"%d: a consumer receives a broadcast item once", i);
		is_int(0, polled(fds[i], 50),
			"%d: a consumer's descriptor is not readable "
			"afterwards",
			i);
	}
	kit_channel_put(out, 0, 2);
	kit_channel_put(out, 0, 3);
	is_int(-ETIMEDOUT, kit_channel_put(out, 0, 4),
		"a full broadcast has no free slot");
	is_int(0, polled(full, 50),
		"the producer's descriptor is not readable while it is full");
	is_int(2, kit_channel_get(in[0], 0),
		"the first consumer has received an item");
	is_int(0, polled(full, 50),
		"one of two consumers is not enough for a free slot");
	is_int(2, kit_channel_get(in[1], 0),
		"the second consumer has received the item");
	is_int(1, polled(full, LONG_MS),
		"the descriptor is readable when both have received the item");
	tarn_channel_unref(out);
	tarn_channel_unref(in[0]);
	tarn_channel_unref(in[1]);
	must(tarn_store_remove(store, "cast"));
}

/* ---- a loop ------------------------------------------------------------ */

static void *produce(void *arg)
{
	for (int64_t i = 0; i < ITEMS; i++)
		if (kit_channel_put(arg, LONG_MS, i) < 0)
			bail("%s", tarn_error_message());
	return NULL;
}

/* Everything comes by the descriptor alone, while somebody else sleeps for the
 * same items: neither takes the other's wake-up. */
static void test_loop(tarn_store *store)
{
	tarn_channel *in = kit_channel_open(store, "loop", &small),
		     *out = kit_channel_open(store, "loop", NULL);
	int fd = channel_fd(in, TARN_CHANNEL_CONSUMER);
	int64_t next = 0, seen;
	pthread_t thread;
	bool ordered = true;

	pthread_create(&thread, NULL, produce, out);
	while (next < ITEMS && polled(fd, LONG_MS) == 1)
		while ((seen = kit_channel_get(in, 0)) != -ETIMEDOUT)
			ordered = ordered && seen == next++;
	is_int(ITEMS, next, "all items come by the descriptor");
	ok(ordered, "items arrive in the order of publication");
	pthread_join(thread, NULL);
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	must(tarn_store_remove(store, "loop"));
}

/* ---- asleep ------------------------------------------------------------ */

/* Of all threads. A thread that spins looks, and one that is woken sleeps again:
 * one that does neither uses no time. */
static _Atomic unsigned n_sleeps, n_looks;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_futex &&
		(arg[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)
		n_sleeps++;
	return __real_syscall(
		number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

bool __real_ring_ready(struct ring *ring, enum ring_kind kind);
bool __wrap_ring_ready(struct ring *ring, enum ring_kind kind);
bool __wrap_ring_ready(struct ring *ring, enum ring_kind kind)
{
	n_looks++;
	return __real_ring_ready(ring, kind);
}

int __real_ring_receive(struct ring *ring, struct ring_item *ret);
int __wrap_ring_receive(struct ring *ring, struct ring_item *ret);
int __wrap_ring_receive(struct ring *ring, struct ring_item *ret)
{
	n_looks++;
	return __real_ring_receive(ring, ret);
}

/* One receive of a second: it looks up to SPIN_MAX times (shm/ring_wait.c) and
 * sleeps, once more if it was woken for another's sake. Each sleep has two
 * looks. */
#define SLEEPS 2u
#define LOOKS (2000u + 2 * SLEEPS + 8)

static void test_idle(tarn_store *store)
{
	tarn_channel *c = kit_channel_open(store, "idle", &small);
	int fd = channel_fd(c, TARN_CHANNEL_CONSUMER);
	unsigned sleeps, looks;
	tarn_item *item;

	kit_channel_until_asleep(1);
	sleeps = n_sleeps;
	looks = n_looks;
	is_int(0, polled(fd, 1000),
		"the descriptor is not ready within a second");
	is_int(0, n_sleeps - sleeps,
		"the thread behind the descriptor sleeps all the while");
	is_int(0, n_looks - looks,
		"no thread looks for items while none comes");
	sleeps = n_sleeps;
	looks = n_looks;
	is_int(-ETIMEDOUT, tarn_channel_receive(c, 1000, &item),
		"a receive of one second times out");
	sleeps = n_sleeps - sleeps;
	looks = n_looks - looks;
	ok(sleeps >= 1 && sleeps <= SLEEPS,
		"a receive without an item sleeps until its deadline: %u times",
		sleeps);
	ok(looks <= LOOKS,
		"a receive without an item looks for it while it spins, and "
		"after each sleep: %u times",
		looks);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "idle"));
}

/* ---- forks, and the end ------------------------------------------------ */

static void test_fork(tarn_store *store)
{
#ifdef __SANITIZE_THREAD__
	(void)store;
	skip(4, "ThreadSanitizer ends a child that starts a thread");
#else
	tarn_channel *in = kit_channel_open(store, "fork", &small),
		     *out = kit_channel_open(store, "fork", NULL);
	int fd = channel_fd(in, TARN_CHANNEL_CONSUMER), status;
	pid_t pid = fork();

	if (pid == 0) {
		int own = tarn_channel_fd(in, TARN_CHANNEL_CONSUMER);

		if (own < 0 || polled(own, LONG_MS) != 1)
			_exit(1);
		if (kit_channel_get(in, 0) != 7)
			_exit(2);
		tarn_channel_unref(in);
		tarn_channel_unref(out);
		tarn_store_unref(store);
		_exit(0);
	}
	kit_channel_put(out, 0, 7);
	waitpid(pid, &status, 0);
	is_int(0, status, "a forked child has a descriptor of its own");
	is_int(-ETIMEDOUT, kit_channel_get(in, 0),
		"the item that the child received is gone for the parent");
	kit_channel_put(out, 0, 8);
	is_int(1, polled(fd, LONG_MS), "the parent's descriptor still works");
	is_int(8, kit_channel_get(in, 0),
		"the parent receives as before the fork");
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	must(tarn_store_remove(store, "fork"));
#endif
}

static void test_leave(tarn_store *store)
{
	tarn_channel *in = kit_channel_open(store, "left", &small),
		     *out = kit_channel_open(store, "left", NULL);
	int fd = channel_fd(in, TARN_CHANNEL_CONSUMER);

	polled(fd, 20);
	is_int(0, tarn_channel_leave(in, TARN_CHANNEL_CONSUMER),
		"a consumer with a descriptor leaves");
	is_int(1, polled(fd, LONG_MS),
		"leaving makes the consumer's descriptor readable");
	is_int(-ETIMEDOUT, kit_channel_get(in, 0),
		"a consumer that joins again has no item at first");
	kit_channel_put(out, 0, 1);
	is_int(1, polled(fd, LONG_MS),
		"the descriptor of a consumer that joined again is ready");
	is_int(1, kit_channel_get(in, 0),
		"the consumer that joined again receives");
	tarn_channel_unref(in);
	tarn_channel_unref(out);
	must(tarn_store_remove(store, "left"));
}

/* ---- watching ---------------------------------------------------------- */

struct taker {
	tarn_channel *c;
	int64_t value;
};

static void *take(void *arg)
{
	struct taker *taker = arg;

	taker->value = kit_channel_get(taker->c, LONG_MS);
	return NULL;
}

static void put_tagged(tarn_channel *c, const char *tag)
{
	const int64_t n = 100;
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *t;

	if (tarn_slot_new_tensor(slot, TARN_U8, 1, &n, &t) < 0 ||
		tarn_slot_set_tag(slot, tag, strlen(tag)) < 0 ||
		tarn_slot_publish(slot) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(t);
}

static void test_watch(tarn_store *store)
{
	tarn_channel *c = kit_channel_open(store, "watched", &small),
		     *eye = kit_channel_open(store, "watched", NULL);
	struct taker taker = {.c = c};
	struct tarn_channel_seen seen;
	uint64_t cursor = 0, first;
	pthread_t thread;

	kit_channel_put(c, 0, 0);
	is_int(-ETIMEDOUT, tarn_channel_watch(eye, &cursor, 0, &seen),
		"a watcher does not see items from before it began");
	is_int(0, kit_channel_get(c, 0),
		"an item that came before the descriptor can be received");
	put_tagged(c, "one");
	is_int(1, tarn_channel_watch(eye, &cursor, 0, &seen),
		"a watcher sees an item");
	first = seen.position;
	is_int(100, (int64_t)seen.bytes, "the event has the item's bytes");
	is_int(1, seen.tensors, "the event has the item's number of tensors");
	is_int(3, seen.tag_size, "the event has the tag's size");
	is_mem("one", seen.tag, 3, "the event has the item's tag");
	is_int(0, kit_channel_info(c).consumers - 1,
		"a watcher is not counted as a consumer");
	tarn_item_unref(kit_channel_receive(c));
	is_int(-ETIMEDOUT, tarn_channel_watch(eye, &cursor, 30, &seen),
		"a watcher sees an item once");
	has_str("within 30 ms", tarn_error_message(),
		"the error contains 'within 30 ms'");
	/* A consumer and a watcher asleep for the same: both wake. */
	pthread_create(&thread, NULL, take, &taker);
	kit_channel_until_asleep(1);
	kit_channel_put(c, 0, 44);
	is_int(1, tarn_channel_watch(eye, &cursor, LONG_MS, &seen),
		"a watcher sees the item that comes while it waits");
	is_int((int64_t)first + 1, (int64_t)seen.position,
		"the next event has the next position");
	pthread_join(thread, NULL);
	is_int(44, taker.value, "the consumer receives the item meanwhile");
	for (int64_t i = 0; i < 5000; i++) {
		kit_channel_put(c, 0, i);
		kit_channel_get(c, 0);
	}
	is_int(1, tarn_channel_watch(eye, &cursor, 0, &seen),
		"a watcher that fell behind sees an item");
	ok(seen.position > first + 2,
		"a watcher that fell behind skips the items that are gone");
	while (tarn_channel_watch(eye, &cursor, 0, &seen) == 1)
		continue;
	is_int((int64_t)first + 1 + 5000, (int64_t)seen.position,
		"a watcher that fell behind comes to the last item");
	must(tarn_channel_close(c));
	is_int(-EPIPE, tarn_channel_watch(eye, &cursor, LONG_MS, &seen),
		"a watcher sees the channel's end");
	tarn_channel_unref(c);
	tarn_channel_unref(eye);
	may_fail(tarn_store_remove(store, "watched"));
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "fd.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_consumer(store);
	test_producer(store);
	test_broadcast(store);
	test_loop(store);
	test_idle(store);
	test_fork(store);
	test_leave(store);
	test_watch(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(74);
}
