/* SPDX-License-Identifier: MIT */
/*
 * Readiness of a ring, and consumers that go quiet: such a consumer receives
 * no more items, keeps those that it has, and holds up no other.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/fail.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

static void test_ready(enum ring_mode mode)
{
	struct ring p, c;
	struct ring_item item;
	uint32_t slot;

	kit_ring_make(mode, 1);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	ok(ring_ready(&p, RING_PRODUCER),
		"a producer is ready while a slot is free");
	ok(!ring_ready(&c, RING_CONSUMER),
		"a consumer is not ready without an item");
	if (ring_acquire(&p, &slot) != 1)
		bail("no slot");
	ok(!ring_ready(&p, RING_PRODUCER),
		"a producer is not ready without a free slot");
	ring_abandon(&p, slot);
	kit_ring_must_put(&p, 1);
	ok(!ring_ready(&p, RING_PRODUCER),
		"a producer is not ready while no slot is free");
	for (int i = 0; i < 3; i++)
		ok(ring_ready(&c, RING_CONSUMER),
			"a consumer is ready when there is an item");
	if (ring_receive(&c, &item) != 1)
		bail("no item");
	ok(!ring_ready(&c, RING_CONSUMER),
		"a consumer is not ready after it took the item");
	ring_leave(&c);
	ok(ring_ready(&c, RING_CONSUMER),
		"a consumer is ready when an item is taken back");
	c = kit_ring_join(RING_CONSUMER, 3);
	if (mode == RING_QUEUE) {
		ok(ring_ready(&c, RING_CONSUMER),
			"an item that its reader returned makes a consumer "
			"ready");
		kit_ring_must_get(&c, 1);
	}
	ok(ring_ready(&p, RING_PRODUCER),
		"a producer is ready when a slot is free again");
	ring_close(&p);
	ok(ring_ready(&c, RING_CONSUMER),
		"a consumer is ready at the ring's end");
	ok(ring_ready(&p, RING_PRODUCER),
		"a producer is ready at the ring's end");
}

static void test_quiet(void)
{
	struct ring p, c, d;
	struct ring_item mine, item;
	struct ring_stat stat;

	kit_ring_make(RING_BROADCAST, 4);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	d = kit_ring_join(RING_CONSUMER, 3);
	for (uint32_t i = 1; i <= 3; i++)
		kit_ring_must_put(&p, i);
	if (ring_receive(&c, &mine) != 1)
		bail("no item");
	ring_quiet(&c);
	ring_quiet(&c);
	is_int(-EPIPE, ring_receive(&c, &item),
		"a quiet consumer receives the end");
	ok(ring_ready(&c, RING_CONSUMER),
		"a quiet consumer is ready, for the end");
	for (uint32_t i = 1; i <= 3; i++)
		kit_ring_must_get(&d, i);
	ring_stat(&p, &stat);
	is_int(3, stat.free,
		"a quiet consumer holds only the items that it has");
	is_int(1, stat.consumers, "a quiet consumer is not counted as one");
	for (uint32_t i = 4; i < 5000; i++) {
		kit_ring_must_put(&p, i);
		kit_ring_must_get(&d, i);
	}
	ring_stat(&p, &stat);
	is_int(3, stat.free, "a new item does not wait for the quiet consumer");
	is_int(0, ring_release(&c, &mine),
		"the quiet consumer may release the item that it has");
	is_int(-ESTALE, ring_release(&c, &mine),
		"the quiet consumer cannot release the item twice");
	ring_stat(&p, &stat);
	is_int(4, stat.free,
		"the quiet consumer holds nothing after the release");
	/* In the hands of one that goes quiet, and dies. */
	c = kit_ring_join(RING_CONSUMER, 4);
	kit_ring_must_put(&p, 1);
	kit_ring_must_get(&d, 1);
	if (ring_receive(&c, &mine) != 1)
		bail("no item");
	ring_quiet(&c);
	ring_reap_owner(&p, 4);
	ring_stat(&p, &stat);
	is_int(4, stat.free, "a dead quiet consumer holds nothing");
	c = kit_ring_join(RING_CONSUMER, 5);
	kit_ring_must_put(&p, 2);
	kit_ring_must_get(&c, 2);
	kit_ring_must_get(&d, 2);
}

/* ---- a race ------------------------------------------------------------ */

static _Atomic int faults;

/* Consumers come, receive some, go quiet holding the last, and leave, while
 * others publish; to one that stays nothing is missing. */
static void *quiet_often(void *arg)
{
	for (int i = 0; i < 300; i++) {
		struct ring c = kit_ring_join(RING_CONSUMER, 5);
		struct ring_item item;
		int r;

		for (int j = 0; j < i % 3; j++)
			if (ring_wait_receive(&c, &kit_ring_forever, &item) ==
				1)
				ring_release(&c, &item);
		r = ring_wait_receive(&c, &kit_ring_forever, &item);
		ring_quiet(&c);
		if (r == 1) {
			faults += !kit_ring_is_whole(&item.note);
			faults += ring_release(&c, &item) < 0;
		}
		ring_leave(&c);
	}
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void *publish_always(void *arg)
{
	struct ring ring = kit_ring_join(RING_PRODUCER, 6);
	uint32_t slot, n = 0;

	while (!*(_Atomic bool *)arg) {
		struct ring_note note = kit_ring_note(++n);

		if (ring_wait_acquire(&ring, &kit_ring_forever, &slot) != 1 ||
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

	kit_ring_make(RING_BROADCAST, 3);
	c = kit_ring_join(RING_CONSUMER, 4);
	faults = 0;
	pthread_create(&quiet, NULL, quiet_often, (void *)&enough);
	pthread_create(&publisher, NULL, publish_always, (void *)&enough);
	while (ring_wait_receive(&c, &kit_ring_forever, &item) == 1) {
		gaps += item.note.tensors != last + 1;
		last = item.note.tensors;
		ring_release(&c, &item);
	}
	pthread_join(quiet, NULL);
	pthread_join(publisher, NULL);
	ring_stat(&c, &stat);
	is_int(0, gaps, "the other consumer misses none of %u items", last);
	is_int(0, faults, "a consumer that goes quiet keeps its item");
	is_int(3, stat.free, "no slot is lost by quiet consumers");
}

int main(void)
{
	test_ready(RING_QUEUE);
	test_ready(RING_BROADCAST);
	test_quiet();
	test_quiet_race();
	kit_ring_drop();
	return done(37);
}
