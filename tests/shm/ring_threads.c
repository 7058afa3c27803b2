/* SPDX-License-Identifier: MIT */
/*
 * Threads that race over one small ring: each item reaches one consumer
 * (queue) or all (broadcast), those of one producer in their order, none twice
 * and none torn. Slots are plain memory, so that ThreadSanitizer sees whether
 * the ring really hands them over.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fail.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

enum { SLOTS = 3, PRODUCERS = 3, CONSUMERS = 2, WORDS = 32 };
#if defined(__SANITIZE_THREAD__)
enum { ITEMS = 2000 };
#else
enum { ITEMS = 20000 };
#endif

static uint64_t bytes[SLOTS][WORDS];
static uint32_t spin_max;
static _Atomic int faults;

struct consumer {
	struct ring ring;
	uint64_t n;
	uint8_t seen[PRODUCERS][ITEMS];
};

static struct consumer consumers[CONSUMERS];
static struct ring producers[PRODUCERS];

static void *produce(void *arg)
{
	struct ring *ring = arg;
	uint64_t who = (uint64_t)(ring - producers);

	for (uint64_t i = 0; i < ITEMS; i++) {
		struct ring_note note = {.bytes = sizeof(bytes[0])};
		uint32_t slot;

		if (ring_wait_acquire(ring, &kit_ring_forever, &slot) != 1) {
			faults++;
			break;
		}
		if (i % 7 == 3) { /* thinks better of it */
			bytes[slot][0] = ~who;
			faults += ring_abandon(ring, slot) < 0;
			if (ring_wait_acquire(ring, &kit_ring_forever, &slot) !=
				1)
				break;
		}
		for (int w = 0; w < WORDS; w++)
			bytes[slot][w] = who << 32 | i;
		if (ring_publish(ring, slot, &note) < 0)
			faults++;
	}
	return NULL;
}

static void *consume(void *arg)
{
	struct consumer *c = arg;
	int64_t last[PRODUCERS] = {-1, -1, -1};
	struct ring_item item;

	while (ring_wait_receive(&c->ring, &kit_ring_forever, &item) == 1) {
		uint64_t first = bytes[item.slot][0], who = first >> 32;
		uint32_t i = (uint32_t)first;

		for (int w = 0; w < WORDS; w++)
			faults += bytes[item.slot][w] != first;
		if (who >= PRODUCERS || i >= ITEMS) {
			faults++;
			break;
		}
		faults += (int64_t)i <= last[who] || item.redelivered;
		last[who] = i;
		c->seen[who][i]++;
		c->n++;
		faults += ring_release(&c->ring, &item) < 0;
	}
	return NULL;
}

static void join(struct ring *ring, unsigned int kinds)
{
	*ring = kit_ring_join(kinds, 1);
	ring->spin_max = spin_max;
}

static uint64_t count_wrong(uint64_t wanted)
{
	uint64_t wrong = 0;

	for (int p = 0; p < PRODUCERS; p++) {
		for (int i = 0; i < ITEMS; i++) {
			uint64_t n = 0;

			for (int c = 0; c < CONSUMERS; c++)
				n += consumers[c].seen[p][i];
			wrong += n != wanted;
		}
	}
	return wrong;
}

static void race(enum ring_mode mode, const char *what)
{
	pthread_t threads[PRODUCERS + CONSUMERS];
	struct ring_stat stat;

	kit_ring_make(mode, SLOTS);
	memset(consumers, 0, sizeof(consumers));
	faults = 0;
	for (int i = 0; i < CONSUMERS; i++)
		join(&consumers[i].ring, RING_CONSUMER);
	for (int i = 0; i < PRODUCERS; i++)
		join(&producers[i], RING_PRODUCER);
	for (int i = 0; i < CONSUMERS; i++)
		pthread_create(
			&threads[PRODUCERS + i], NULL, consume, &consumers[i]);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_create(&threads[i], NULL, produce, &producers[i]);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	if (ring_close(&producers[0]) < 0)
		bail("%s", tarn_fail_message());
	for (int i = 0; i < CONSUMERS; i++)
		pthread_join(threads[PRODUCERS + i], NULL);
	stat = kit_ring_stat(&producers[0]);
	is_int(0, faults, "%s: all items arrive in order and whole", what);
	is_int(0, (int64_t)count_wrong(mode == RING_QUEUE ? 1 : CONSUMERS),
		"%s: nothing is lost or doubled", what);
	is_int(SLOTS, stat.free, "%s: no slot is lost", what);
	is_int(PRODUCERS * ITEMS, (int64_t)stat.published,
		"%s: the ring counts all publications", what);
	kit_ring_drop();
}

int main(void)
{
	spin_max = 2000;
	race(RING_QUEUE, "queue");
	race(RING_BROADCAST, "broadcast");
	spin_max = 0;
	race(RING_QUEUE, "queue, asleep");
	race(RING_BROADCAST, "broadcast, asleep");
	return done(16);
}
