/* SPDX-License-Identifier: MIT */
/*
 * Around a ring: who watches it without taking part, threads that share one
 * participant and wait for it, what is ready, who goes quiet, signals that end
 * a wait, and the reaper's questions.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "base/fail.h"
#include "shm/ring_words.h"
#include "tests/tap.h"

static void *memory;
static size_t size;
static const struct ring_wait forever = {.deadline_ns = UINT64_MAX};

static void make(enum ring_mode mode, uint32_t slots)
{
	struct ring_geometry g = {mode, slots, UINT32_MAX};

	free(memory);
	if (ring_size(&g, &size) < 0)
		bail("%s", tarn_fail_message());
	size = (size + 4095) & ~(size_t)4095;
	memory = aligned_alloc(4096, size);
	if (!memory)
		bail("no memory");
	memset(memory, 0, size);
	if (ring_init(memory, size, &g) < 0)
		bail("%s", tarn_fail_message());
}

static struct ring attach(void)
{
	struct ring ring;

	if (ring_attach(&ring, memory, size) < 0)
		bail("%s", tarn_fail_message());
	return ring;
}

static struct ring join(unsigned int kinds, uint32_t owner)
{
	struct ring ring = attach();

	if (ring_join(&ring, kinds, owner) < 0)
		bail("%s", tarn_fail_message());
	return ring;
}

/* A note all of whose parts say the same. */
static struct ring_note note_of(uint32_t n)
{
	struct ring_note note = {
		.bytes = n, .tensors = n, .tag_size = n % (RING_TAG_MAX + 1)};

	memset(note.tag, (int)(n & 0xff), note.tag_size);
	return note;
}

static bool is_whole(const struct ring_note *note)
{
	struct ring_note wanted = note_of(note->tensors);

	return note->bytes == wanted.bytes &&
	       note->tag_size == wanted.tag_size &&
	       memcmp(note->tag, wanted.tag, wanted.tag_size) == 0;
}

static void put(struct ring *ring, uint32_t n)
{
	struct ring_note note = note_of(n);
	uint32_t slot;

	if (ring_acquire(ring, &slot) != 1 ||
		ring_publish(ring, slot, &note) < 0)
		bail("put %u: %s", n, tarn_fail_message());
}

static void get(struct ring *ring, uint32_t n)
{
	struct ring_item item;

	if (ring_receive(ring, &item) != 1 || item.note.tensors != n ||
		ring_release(ring, &item) < 0)
		bail("get %u: %s", n, tarn_fail_message());
}

/* The number of what is seen next, or the error. */
static int see(const struct ring *ring, uint64_t *at)
{
	struct ring_item item;
	int r = ring_peek(ring, at, &item);

	if (r == 1 && !is_whole(&item.note))
		bail("torn: %u", item.note.tensors);
	return r == 1 ? (int)item.note.tensors : r;
}

static void test_peek(void)
{
	struct ring p, c, w;
	struct ring_item item;
	uint64_t at, first;
	uint32_t slot;

	make(RING_QUEUE, 4);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	w = attach();
	first = at = ring_end(&w);
	is_int(0, see(&w, &at), "nothing yet");
	put(&p, 1);
	put(&p, 2);
	is_int(2, (int64_t)(ring_end(&w) - first), "two further on");
	is_int(1, see(&w, &at), "the first");
	is_int(2, see(&w, &at), "the second");
	is_int(0, see(&w, &at), "and no more");
	is_int(2, (int64_t)(at - first), "it has moved on");
	get(&c, 1);
	if (ring_receive(&c, &item) != 1)
		bail("no item");
	at = first;
	is_int(1, see(&w, &at), "what was released is still to be seen");
	is_int(2, see(&w, &at), "what is being read too");
	ring_reap_owner(&w, 2);
	at = first + 1;
	is_int(2, see(&w, &at), "and what was returned");
	c = join(RING_CONSUMER, 2);
	get(&c, 2);
	/* Fill all slots anew: what was in them went by. */
	for (uint32_t i = 3; i < 7; i++)
		put(&p, i);
	at = first;
	is_int(3, see(&w, &at), "what went by is passed over");
	for (uint32_t i = 3; i < 7; i++)
		get(&c, i);
	/* Written over and given back: it is about nothing any more. */
	at = first + 2;
	if (ring_acquire(&p, &slot) != 1)
		bail("no slot");
	ring_close(&c);
	is_int(-EPIPE,
		ring_publish(&p, slot, &(struct ring_note) {.bytes = 99}),
		"too late");
	{
		uint32_t n = 0;
		int r;

		while ((r = see(&w, &at)) > 0)
			n++;
		is_int(-EPIPE, r, "the end");
		is_int(3, n, "what was not published is not seen");
	}
	is_int(-EPIPE, see(&w, &at), "and stays");
}

/* Further behind than the order ring is long, and words that lie. */
static void test_peek_far(void)
{
	struct ring p, c, w;
	uint64_t at, first;
	int n = 0;

	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	w = attach();
	first = at = ring_end(&w);
	for (uint32_t i = 1; i <= 3 * RING_ORDER_MIN; i++) {
		put(&p, i);
		get(&c, i);
	}
	while (see(&w, &at) > 0)
		n++;
	ok(n >= 1 && n <= 2, "the last %d of many are seen", n);
	ok(at == first + 3 * RING_ORDER_MIN, "and it stands at the end");
	at += 1ull << 40;
	is_int(0, see(&w, &at), "what is not to come for long");
	atomic_store(&w.head->tail, 1ull << 41);
	ok(ring_end(&w) == 1ull << 41, "a tail far away");
	at = first;
	is_int(0, see(&w, &at), "has nothing");
	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	w = attach();
	at = ring_end(&w);
	put(&p, 1);
	for (int i = 0; i < 2; i++)
		atomic_store(&w.slots[i].tag_size, 65);
	is_int(-EBADMSG, see(&w, &at), "a tag too long");
	is_int(0, see(&w, &at), "it is passed over");
}

/* ---- a race ---------------------------------------------------------------
 */

enum { RACERS = 2, RACE_ITEMS = 20000 };

static _Atomic int faults;

/* Its notes are n * RACERS + who: in order by n. */
static void *race_produce(void *arg)
{
	uint32_t who = (uint32_t)(uintptr_t)arg, slot;
	struct ring ring = join(RING_PRODUCER, who + 1);

	for (uint32_t n = 1; n <= RACE_ITEMS; n++) {
		struct ring_note note = note_of(n * RACERS + who);

		if (ring_wait_acquire(&ring, &forever, &slot) != 1)
			bail("%s", tarn_fail_message());
		if (n % 5 == 0) {
			ring_abandon(&ring, slot);
			continue;
		}
		if (ring_publish(&ring, slot, &note) < 0)
			bail("%s", tarn_fail_message());
	}
	return NULL;
}

static void *race_consume(void *arg)
{
	struct ring ring = join(RING_CONSUMER, 9);
	struct ring_item item;

	(void)arg;
	while (ring_wait_receive(&ring, &forever, &item) == 1) {
		faults += !is_whole(&item.note);
		ring_release(&ring, &item);
	}
	return NULL;
}

static void *race_watch(void *arg)
{
	struct ring ring = attach();
	uint64_t at = ring_end(&ring), last = at - 1, n = 0;
	uint32_t seen[RACERS] = {0};
	int r;

	for (;;) {
		struct ring_item item;
		uint32_t who;

		r = ring_peek(&ring, &at, &item);
		if (r < 0)
			break;
		if (r == 0)
			continue;
		who = item.note.tensors % RACERS;
		faults += !is_whole(&item.note) || item.position <= last ||
			  item.note.tensors <= seen[who];
		seen[who] = item.note.tensors;
		last = item.position;
		n++;
	}
	faults += r != -EPIPE;
	*(uint64_t *)arg = n;
	return NULL;
}

static void test_race(enum ring_mode mode, const char *what)
{
	pthread_t racers[RACERS], consumer, watcher;
	uint64_t n = 0;
	struct ring ring;

	make(mode, 3);
	ring = attach();
	faults = 0;
	pthread_create(&consumer, NULL, race_consume, NULL);
	pthread_create(&watcher, NULL, race_watch, &n);
	for (uintptr_t i = 0; i < RACERS; i++)
		pthread_create(&racers[i], NULL, race_produce, (void *)i);
	for (int i = 0; i < RACERS; i++)
		pthread_join(racers[i], NULL);
	ring_close(&ring);
	pthread_join(consumer, NULL);
	pthread_join(watcher, NULL);
	is_int(0, faults, "%s: what is seen is whole, and in order", what);
	diag("%s: %llu seen of %d", what, (unsigned long long)n,
		RACERS * (RACE_ITEMS - RACE_ITEMS / 5));
}

/* ---- one participant, several threads ------------------------------------
 */

enum { SHARERS = 3, SHARED_ITEMS = 6000 };

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

	while (ring_wait_for(&shared.out, RING_ITEMS, &forever, look_for_item,
		       &item) == 1) {
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

	while (more && ring_wait_for(&shared.in, RING_SPACE, &forever,
			       look_for_slot, &slot) == 1) {
		pthread_mutex_lock(&shared.lock);
		more = shared.next < SHARED_ITEMS;
		if (more) {
			struct ring_note note = note_of(shared.next++);

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

	make(RING_QUEUE, 2);
	shared.in = join(RING_PRODUCER, 1);
	shared.out = join(RING_CONSUMER, 2);
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
	is_int(0, wrong, "%s: each item once", what);
	is_int(0, faults, "%s: no call fails", what);
}

/* ---- ready, quiet, watchers -------------------------------------------------
 */

static void test_ready(enum ring_mode mode)
{
	struct ring p, c;
	struct ring_item item;
	uint32_t slot;

	make(mode, 1);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	ok(ring_ready(&p, RING_PRODUCER), "a slot is free");
	ok(!ring_ready(&c, RING_CONSUMER), "there is no item");
	if (ring_acquire(&p, &slot) != 1)
		bail("no slot");
	ok(!ring_ready(&p, RING_PRODUCER), "no slot is free");
	ring_abandon(&p, slot);
	put(&p, 1);
	ok(!ring_ready(&p, RING_PRODUCER), "nor now");
	for (int i = 0; i < 3; i++)
		ok(ring_ready(&c, RING_CONSUMER), "there is an item");
	if (ring_receive(&c, &item) != 1)
		bail("no item");
	ok(!ring_ready(&c, RING_CONSUMER), "it is taken");
	ring_leave(&c);
	ok(ring_ready(&c, RING_CONSUMER), "that it is none is something");
	c = join(RING_CONSUMER, 3);
	if (mode == RING_QUEUE) {
		ok(ring_ready(&c, RING_CONSUMER), "it has come back");
		get(&c, 1);
	}
	ok(ring_ready(&p, RING_PRODUCER), "a slot is free again");
	ring_close(&p);
	ok(ring_ready(&c, RING_CONSUMER), "the end is something");
	ok(ring_ready(&p, RING_PRODUCER), "for producers too");
}

static void test_quiet(void)
{
	struct ring p, c, d;
	struct ring_item mine, item;
	struct ring_stat stat;

	make(RING_BROADCAST, 4);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	d = join(RING_CONSUMER, 3);
	for (uint32_t i = 1; i <= 3; i++)
		put(&p, i);
	if (ring_receive(&c, &mine) != 1)
		bail("no item");
	ring_quiet(&c);
	ring_quiet(&c);
	is_int(-EPIPE, ring_receive(&c, &item), "it hears no more");
	ok(ring_ready(&c, RING_CONSUMER), "which is something");
	for (uint32_t i = 1; i <= 3; i++)
		get(&d, i);
	ring_stat(&p, &stat);
	is_int(3, stat.free, "only what it holds is held");
	is_int(1, stat.consumers, "it is no consumer");
	for (uint32_t i = 4; i < 5000; i++) {
		put(&p, i);
		get(&d, i);
	}
	ring_stat(&p, &stat);
	is_int(3, stat.free, "nothing new is held for it");
	is_int(0, ring_release(&c, &mine), "what it holds it may release");
	is_int(-ESTALE, ring_release(&c, &mine), "once");
	ring_stat(&p, &stat);
	is_int(4, stat.free, "and then holds nothing");
	/* In the hands of one that goes quiet, and dies. */
	c = join(RING_CONSUMER, 4);
	put(&p, 1);
	get(&d, 1);
	if (ring_receive(&c, &mine) != 1)
		bail("no item");
	ring_quiet(&c);
	ring_reap_owner(&p, 4);
	ring_stat(&p, &stat);
	is_int(4, stat.free, "a dead one holds nothing");
	c = join(RING_CONSUMER, 5);
	put(&p, 2);
	get(&c, 2);
	get(&d, 2);
}

/* Consumers come, receive some, go quiet holding the last, and leave, while
 * others publish; to one that stays nothing is missing. */
static void *quiet_often(void *arg)
{
	for (int i = 0; i < 300; i++) {
		struct ring c = join(RING_CONSUMER, 5);
		struct ring_item item;
		int r;

		for (int j = 0; j < i % 3; j++)
			if (ring_wait_receive(&c, &forever, &item) == 1)
				ring_release(&c, &item);
		r = ring_wait_receive(&c, &forever, &item);
		ring_quiet(&c);
		if (r == 1) {
			faults += !is_whole(&item.note);
			faults += ring_release(&c, &item) < 0;
		}
		ring_leave(&c);
	}
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void *publish_always(void *arg)
{
	struct ring ring = join(RING_PRODUCER, 6);
	uint32_t slot, n = 0;

	while (!*(_Atomic bool *)arg) {
		struct ring_note note = note_of(++n);

		if (ring_wait_acquire(&ring, &forever, &slot) != 1 ||
			ring_publish(&ring, slot, &note) < 0)
			bail("%s", tarn_fail_message());
	}
	ring_close(&ring);
	return NULL;
}

static void test_quiet_race(void)
{
	pthread_t quiet, publisher;
	_Atomic bool enough = false;
	struct ring_stat stat;
	struct ring_item item;
	struct ring c;
	uint32_t last = 0, gaps = 0;

	make(RING_BROADCAST, 3);
	c = join(RING_CONSUMER, 4);
	faults = 0;
	pthread_create(&quiet, NULL, quiet_often, (void *)&enough);
	pthread_create(&publisher, NULL, publish_always, (void *)&enough);
	while (ring_wait_receive(&c, &forever, &item) == 1) {
		gaps += item.note.tensors != last + 1;
		last = item.note.tensors;
		ring_release(&c, &item);
	}
	pthread_join(quiet, NULL);
	pthread_join(publisher, NULL);
	ring_stat(&c, &stat);
	is_int(0, gaps, "who stays misses none of %u", last);
	is_int(0, faults, "who goes quiet holds what it held");
	is_int(3, stat.free, "no slot is lost");
}

static _Atomic bool over;

static int look_at_nothing(void *arg)
{
	++*(_Atomic int *)arg;
	return over ? -EPIPE : 0;
}

static void *watch_items(void *arg)
{
	struct ring ring = attach();
	struct ring_wait wait = {.deadline_ns = UINT64_MAX, .watcher = true};

	ring.spin_max = 0;
	ring_wait_for(&ring, RING_ITEMS, &wait, look_at_nothing, arg);
	return NULL;
}

static void *take_items(void *arg)
{
	struct ring ring = join(RING_CONSUMER, 2);
	struct ring_item item;

	ring.spin_max = 0;
	while (ring_wait_receive(&ring, &forever, &item) == 1) {
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

	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	over = false;
	for (int i = 0; i < WATCHERS; i++)
		pthread_create(
			&watchers[i], NULL, watch_items, (void *)&looks[i]);
	pthread_create(&taker, NULL, take_items, (void *)&taken);
	for (int i = 0; i < WATCHERS; i++)
		while (looks[i] < 2)
			sched_yield();
	for (int i = 1; i <= TURNS; i++) {
		put(&p, (uint32_t)i);
		while (taken < i)
			sched_yield();
	}
	is_int(TURNS, taken, "each item woke the one who takes");
	over = true;
	ring_wake_everybody(&p);
	for (int i = 0; i < WATCHERS; i++) {
		pthread_join(watchers[i], NULL);
		ok(looks[i] > 2, "a watcher was woken");
	}
	ring_close(&p);
	pthread_join(taker, NULL);
}

/* ---- signals ---------------------------------------------------------------
 */

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

	make(RING_QUEUE, 1);
	c = join(RING_CONSUMER, 1);
	sigaction(SIGALRM, &action, NULL);
	/* Again and again: one may come just before we sleep. */
	setitimer(ITIMER_REAL, &soon, NULL);
	is_int(-EINTR, ring_wait_receive(&c, &wait, &item),
		"a signal ends a wait that says so");
	clock_gettime(CLOCK_MONOTONIC, &t);
	wait.signals = false;
	wait.deadline_ns = (uint64_t)t.tv_sec * 1000000000u +
			   (uint64_t)t.tv_nsec + 100000000u;
	is_int(-ETIMEDOUT, ring_wait_receive(&c, &wait, &item), "and no other");
	setitimer(ITIMER_REAL, &never, NULL);
	ok(handled > 1, "though they came");
}

/* ---- the reaper's questions ------------------------------------------------
 */

static bool is_even(void *arg, uint32_t owner)
{
	++*(int *)arg;
	return owner % 2 == 0;
}

static void test_owners(enum ring_mode mode)
{
	struct ring p[5], w;
	struct ring_stat stat;
	uint32_t slot;
	int asked = 0;

	make(mode, 8);
	w = attach();
	ok(!ring_has_owner(&w, 1), "nobody is there");
	is_int(0, ring_reap_owner(&w, 1), "so nothing is to be reaped");
	for (uint32_t i = 0; i < 5; i++) {
		p[i] = join(i % 3 ? RING_PRODUCER : RING_CONSUMER, 10 + i);
		if (i % 3 && ring_acquire(&p[i], &slot) != 1)
			bail("no slot");
	}
	ok(ring_has_owner(&w, 10) && ring_has_owner(&w, 14) &&
			!ring_has_owner(&w, 15),
		"five are there");
	ring_reap_gone(&w, is_even, &asked);
	is_int(5, asked, "it is asked of each");
	ok(!ring_has_owner(&w, 10) && ring_has_owner(&w, 11) &&
			!ring_has_owner(&w, 12) && ring_has_owner(&w, 13) &&
			!ring_has_owner(&w, 14),
		"two are left");
	ring_stat(&w, &stat);
	is_int(1, stat.filling, "what the others held is free");
	put(&p[1], 100);
	ring_stat(&w, &stat);
	is_int(100, (int64_t)stat.bytes, "bytes are counted");
	ring_leave(&p[1]);
	ok(!ring_has_owner(&w, 11), "who left is not there");
}

int main(void)
{
	test_peek();
	test_peek_far();
	test_race(RING_QUEUE, "queue");
	test_race(RING_BROADCAST, "broadcast");
	test_share(2000, "threads that share");
	test_share(0, "threads that share, asleep");
	test_ready(RING_QUEUE);
	test_ready(RING_BROADCAST);
	test_quiet();
	test_quiet_race();
	test_watchers();
	test_signals();
	test_owners(RING_QUEUE);
	test_owners(RING_BROADCAST);
	free(memory);
	return done();
}
