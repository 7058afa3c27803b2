/* SPDX-License-Identifier: MIT */
/*
 * Waiting at a ring: deadlines, interruption, threads that share one
 * participant and wait for it, takers asleep beside watchers, and signals that
 * end a wait.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

static bool yes(void *arg)
{
	++*(int *)arg;
	return true;
}

static void test_wait(void)
{
	struct ring p, c;
	struct ring_wait soon = {0};
	struct ring_item item;
	struct timespec t;
	uint32_t slot;
	int asked = 0;

	kit_ring_make(RING_QUEUE, 1);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	clock_gettime(CLOCK_MONOTONIC, &t);
	soon.deadline_ns = (uint64_t)t.tv_sec * 1000000000u +
			   (uint64_t)t.tv_nsec + 20000000u;
	is_int(-ETIMEDOUT, ring_wait_receive(&c, &soon, &item),
		"a receive without an item times out");
	is_int(1, ring_wait_acquire(&p, &soon, &slot),
		"an acquire with a free slot returns at once");
	is_int(-ETIMEDOUT, ring_wait_acquire(&p, &soon, &slot),
		"an acquire without a free slot times out");
	soon.deadline_ns = UINT64_MAX;
	soon.interrupted = yes;
	soon.arg = &asked;
	is_int(-EINTR, ring_wait_receive(&c, &soon, &item),
		"a wait ends when its callback interrupts it");
	is_int(1, asked, "the callback of the wait was called once");
	ring_close(&p);
	is_int(-EPIPE, ring_wait_receive(&c, &soon, &item),
		"a receive from a closed ring is EPIPE");
	is_int(-EPIPE, ring_wait_acquire(&p, &soon, &slot),
		"an acquire from a closed ring is EPIPE");
}

/* ---- one participant, several threads ---------------------------------- */

enum { SHARERS = 3, SHARED_ITEMS = 6000 };

static _Atomic int faults;

static struct shared {
	pthread_mutex_t lock;
	struct ring in, out;
	uint32_t next; /* to publish */
	_Atomic uint32_t got;
	_Atomic uint8_t seen[SHARED_ITEMS];
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int look_for_item(void *arg)
{
	int r;

	pthread_mutex_lock(&shared.lock);
	r = ring_receive(&shared.out, arg);
	pthread_mutex_unlock(&shared.lock);
	return r;
}

static int look_for_slot(void *arg)
{
	int r;

	pthread_mutex_lock(&shared.lock);
	r = ring_acquire(&shared.in, arg);
	pthread_mutex_unlock(&shared.lock);
	return r;
}

static void *share_receive(void *arg)
{
	struct ring_item item;

	while (ring_wait_for(&shared.out, RING_ITEMS, &kit_ring_forever,
		       look_for_item, &item) == 1) {
		if (item.note.tensors >= SHARED_ITEMS)
			bail("item %u", item.note.tensors);
		shared.seen[item.note.tensors]++;
		shared.got++;
		pthread_mutex_lock(&shared.lock);
		faults += ring_release(&shared.out, &item) < 0;
		pthread_mutex_unlock(&shared.lock);
	}
	return arg;
}

static void *share_send(void *arg)
{
	uint32_t slot;
	bool more = true;

	while (more && ring_wait_for(&shared.in, RING_SPACE, &kit_ring_forever,
			       look_for_slot, &slot) == 1) {
		pthread_mutex_lock(&shared.lock);
		more = shared.next < SHARED_ITEMS;
		if (more) {
			struct ring_note note = kit_ring_note(shared.next++);

			faults += ring_publish(&shared.in, slot, &note) < 0;
		} else {
			faults += ring_abandon(&shared.in, slot) < 0;
		}
		pthread_mutex_unlock(&shared.lock);
	}
	return arg;
}

static void test_share(uint32_t spin_max, const char *what)
{
	pthread_t senders[SHARERS], receivers[SHARERS];
	uint32_t wrong = 0;

	kit_ring_make(RING_QUEUE, 2);
	shared.in = kit_ring_join(RING_PRODUCER, 1);
	shared.out = kit_ring_join(RING_CONSUMER, 2);
	shared.in.spin_max = shared.out.spin_max = spin_max;
	shared.next = shared.got = 0;
	memset((void *)shared.seen, 0, sizeof(shared.seen));
	faults = 0;
	for (int i = 0; i < SHARERS; i++) {
		pthread_create(&receivers[i], NULL, share_receive, NULL);
		pthread_create(&senders[i], NULL, share_send, NULL);
	}
	for (int i = 0; i < SHARERS; i++)
		pthread_join(senders[i], NULL);
	ring_close(&shared.in);
	for (int i = 0; i < SHARERS; i++)
		pthread_join(receivers[i], NULL);
	for (uint32_t i = 0; i < SHARED_ITEMS; i++)
		wrong += shared.seen[i] != 1;
	is_int(0, wrong, "%s: each item is received once", what);
	is_int(0, faults, "%s: no call fails", what);
}

/* ---- beside watchers --------------------------------------------------- */

static _Atomic bool over;

static int look_at_nothing(void *arg)
{
	++*(_Atomic int *)arg;
	return over ? -EPIPE : 0;
}

static void *watch_items(void *arg)
{
	struct ring ring = kit_ring_attach();
	struct ring_wait wait = {.deadline_ns = UINT64_MAX, .watcher = true};

	ring.spin_max = 0;
	ring_wait_for(&ring, RING_ITEMS, &wait, look_at_nothing, arg);
	return NULL;
}

static void *take_items(void *arg)
{
	struct ring ring = kit_ring_join(RING_CONSUMER, 2);
	struct ring_item item;

	ring.spin_max = 0;
	while (ring_wait_receive(&ring, &kit_ring_forever, &item) == 1) {
		++*(_Atomic int *)arg;
		ring_release(&ring, &item);
	}
	return NULL;
}

/* A taker asleep beside watchers: each item wakes it, or this hangs. */
static void test_watchers(void)
{
	enum { WATCHERS = 3, TURNS = 2000 };
	pthread_t watchers[WATCHERS], taker;
	_Atomic int looks[WATCHERS] = {0}, taken = 0;
	struct ring p;

	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	over = false;
	for (int i = 0; i < WATCHERS; i++)
		pthread_create(
			&watchers[i], NULL, watch_items, (void *)&looks[i]);
	pthread_create(&taker, NULL, take_items, (void *)&taken);
	for (int i = 0; i < WATCHERS; i++)
		while (looks[i] < 2)
			usleep(10);
	for (int i = 1; i <= TURNS; i++) {
		kit_ring_must_put(&p, (uint32_t)i);
		while (taken < i)
			usleep(10);
	}
	is_int(TURNS, taken, "each item wakes the consumer that sleeps");
	over = true;
	ring_wake_everybody(&p);
	for (int i = 0; i < WATCHERS; i++) {
		pthread_join(watchers[i], NULL);
		ok(looks[i] > 2, "each watcher is woken");
	}
	ring_close(&p);
	pthread_join(taker, NULL);
}

/* ---- signals ----------------------------------------------------------- */

static _Atomic int handled;

static void handle(int signo)
{
	(void)signo;
	handled++;
}

static void test_signals(void)
{
	struct itimerval soon = {
		.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000};
	struct itimerval never = {0};
	struct sigaction action = {
		.sa_handler = handle, .sa_flags = SA_RESTART};
	struct ring c;
	struct ring_item item;
	struct ring_wait wait = {.deadline_ns = UINT64_MAX, .signals = true};
	struct timespec t;

	kit_ring_make(RING_QUEUE, 1);
	c = kit_ring_join(RING_CONSUMER, 1);
	sigaction(SIGALRM, &action, NULL);
	/* Again and again: one may come just before we sleep. */
	setitimer(ITIMER_REAL, &soon, NULL);
	is_int(-EINTR, ring_wait_receive(&c, &wait, &item),
		"a signal ends a wait that asks for it");
	clock_gettime(CLOCK_MONOTONIC, &t);
	wait.signals = false;
	wait.deadline_ns = (uint64_t)t.tv_sec * 1000000000u +
			   (uint64_t)t.tv_nsec + 100000000u;
	is_int(-ETIMEDOUT, ring_wait_receive(&c, &wait, &item),
		"the next wait ends by its time-out, not by the signal");
	setitimer(ITIMER_REAL, &never, NULL);
	ok(handled > 1, "several signals came during the wait");
}

int main(void)
{
	test_wait();
	test_share(2000, "threads that share");
	test_share(0, "threads that share, asleep");
	test_watchers();
	test_signals();
	kit_ring_drop();
	return done(18);
}
