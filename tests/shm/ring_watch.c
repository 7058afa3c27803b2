/* SPDX-License-Identifier: MIT */
/*
 * Watching a ring without taking part: a watcher sees what is published and
 * what is gone, when it falls further behind than the ring remembers, and in a
 * race.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

/* The number of what is seen next, or the error. */
static int see(const struct ring *ring, uint64_t *at)
{
	struct ring_item item;
	int r = ring_peek(ring, at, &item);

	if (r == 1 && !kit_ring_is_whole(&item.note))
		bail("torn: %u", item.note.tensors);
	return r == 1 ? (int)item.note.tensors : r;
}

static void test_peek(void)
{
	struct ring p, c, w;
	struct ring_item item;
	uint64_t at, first;
	uint32_t slot, n = 0;
	int r;

	kit_ring_make(RING_QUEUE, 4);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	w = kit_ring_attach();
	first = at = ring_end(&w);
	is_int(0, see(&w, &at), "a watcher of an empty ring sees nothing");
	kit_ring_must_put(&p, 1);
	kit_ring_must_put(&p, 2);
	is_int(2, (int64_t)(ring_end(&w) - first),
		"two publications move the end by two");
	is_int(1, see(&w, &at), "a watcher sees the first item");
	is_int(2, see(&w, &at), "a watcher sees the second item");
	is_int(0, see(&w, &at),
		"after the second item the watcher sees no more");
	is_int(2, (int64_t)(at - first),
		"the watcher's position has moved by two");
	kit_ring_must_get(&c, 1);
	if (ring_receive(&c, &item) != 1)
		bail("no item");
	at = first;
	is_int(1, see(&w, &at), "a watcher sees an item that was released");
	is_int(2, see(&w, &at), "a watcher sees an item that is being read");
	ring_reap_owner(&w, 2);
	at = first + 1;
	is_int(2, see(&w, &at), "a watcher sees an item that was returned");
	c = kit_ring_join(RING_CONSUMER, 2);
	kit_ring_must_get(&c, 2);
	/* Fill all slots anew: what was in them went by. */
	for (uint32_t i = 3; i < 7; i++)
		kit_ring_must_put(&p, i);
	at = first;
	is_int(3, see(&w, &at), "a watcher skips items that are gone");
	for (uint32_t i = 3; i < 7; i++)
		kit_ring_must_get(&c, i);
	/* Written over and given back: it is about nothing any more. */
	at = first + 2;
	if (ring_acquire(&p, &slot) != 1)
		bail("no slot");
	ring_close(&c);
	is_int(-EPIPE,
		ring_publish(&p, slot, &(struct ring_note) {.bytes = 99}),
		"publishing after the close fails");
	while ((r = see(&w, &at)) > 0)
		n++;
	is_int(-EPIPE, r, "a watcher sees the end of a closed ring");
	is_int(3, n, "a watcher does not see a slot that was not published");
	is_int(-EPIPE, see(&w, &at), "the watcher sees the end again");
}

/* Further behind than the order ring is long, and words that lie. */
static void test_peek_far(void)
{
	struct ring p, c, w;
	uint64_t at, first;
	int n = 0;

	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	w = kit_ring_attach();
	first = at = ring_end(&w);
	for (uint32_t i = 1; i <= 3 * RING_ORDER_MIN; i++) {
		kit_ring_must_put(&p, i);
		kit_ring_must_get(&c, i);
	}
	while (see(&w, &at) > 0)
		n++;
	ok(n >= 1 && n <= 2, "a slow watcher sees the last %d of many items",
		n);
	ok(at == first + 3 * RING_ORDER_MIN,
		"a slow watcher is at the end afterwards");
	at += 1ull << 40;
	is_int(0, see(&w, &at),
		"a watcher does not wait for a distant position");
	atomic_store(&w.head->tail, 1ull << 41);
	ok(ring_end(&w) == 1ull << 41, "a tail far away is an end far away");
	at = first;
	is_int(0, see(&w, &at), "a watcher of a distant tail sees nothing");
	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	w = kit_ring_attach();
	at = ring_end(&w);
	kit_ring_must_put(&p, 1);
	for (int i = 0; i < 2; i++)
		atomic_store(&w.slots[i].tag_size, 65);
	is_int(-EBADMSG, see(&w, &at),
		"a tag with a wrong length is reported to the watcher");
	is_int(0, see(&w, &at),
		"the watcher skips the item with the wrong tag");
}

/* ---- a race ------------------------------------------------------------ */

enum { RACERS = 2, RACE_ITEMS = 20000 };

static _Atomic int faults;

/* Its notes are n * RACERS + who: in order by n. */
static void *race_produce(void *arg)
{
	uint32_t who = (uint32_t)(uintptr_t)arg, slot;
	struct ring ring = kit_ring_join(RING_PRODUCER, who + 1);

	for (uint32_t n = 1; n <= RACE_ITEMS; n++) {
		struct ring_note note = kit_ring_note(n * RACERS + who);

		if (ring_wait_acquire(&ring, &kit_ring_forever, &slot) != 1)
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
	struct ring ring = kit_ring_join(RING_CONSUMER, 9);
	struct ring_item item;

	(void)arg;
	while (ring_wait_receive(&ring, &kit_ring_forever, &item) == 1) {
		faults += !kit_ring_is_whole(&item.note);
		ring_release(&ring, &item);
	}
	return NULL;
}

static void *race_watch(void *arg)
{
	struct ring ring = kit_ring_attach();
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
		faults += !kit_ring_is_whole(&item.note) ||
			  item.position <= last ||
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

	kit_ring_make(mode, 3);
	ring = kit_ring_attach();
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
	is_int(0, faults, "%s: a watcher sees whole items in order", what);
	diag("%s: %llu seen of %d", what, (unsigned long long)n,
		RACERS * (RACE_ITEMS - RACE_ITEMS / 5));
}

int main(void)
{
	test_peek();
	test_peek_far();
	test_race(RING_QUEUE, "queue");
	test_race(RING_BROADCAST, "broadcast");
	kit_ring_drop();
	return done(23);
}
