/* SPDX-License-Identifier: MIT */
/*
 * A full ring of many slots: a failed try is cheap, since it looks at no slot,
 * and yet each slot that is freed is found at once, however that came.
 */
#include <errno.h>
#include <stdatomic.h>

#include "shm/ring_words.h"
#include "tests/ring_kit.h"
#include "tests/tap.h"

enum { SLOTS = 1000, TRIES_MAX = 2000 };

static uint32_t slots[SLOTS];

/* One that has all slots, and knows that there is none. */
static struct ring full(void)
{
	struct ring p;
	uint32_t none;

	kit_make(RING_QUEUE, SLOTS);
	p = kit_join(RING_PRODUCER, 1);
	for (int i = 0; i < SLOTS; i++)
		slots[i] = kit_acquire(&p);
	for (int i = 0; i < 5; i++)
		if (ring_acquire(&p, &none) != 0)
			bail("a slot too many");
	return p;
}

/* What nobody says. */
static void free_silently(struct ring *p, uint32_t slot)
{
	atomic_store(&p->slots[slot].word, slot_word(SLOT_FREE, 0, 0));
}

/* How many tries fail until there is a slot. */
static int tries(struct ring *p)
{
	uint32_t slot;
	int n = 0;

	while (ring_acquire(p, &slot) == 0 && n < TRIES_MAX)
		n++;
	return n;
}

static void test_no_look(void)
{
	struct ring p = full();
	uint32_t slot;
	int n;

	free_silently(&p, 7);
	is_int(0, ring_acquire(&p, &slot), "a failed try looks at no slot");
	n = tries(&p);
	ok(n > 100 && n < TRIES_MAX, "but one of many does: that after %d", n);
}

/* A wait is never for what is there, whoever has kept silent. */
static void test_wait(void)
{
	struct ring p = full();
	const struct ring_wait at_once = {0};
	uint32_t slot;

	is_int(-ETIMEDOUT, ring_wait_acquire(&p, &at_once, &slot),
		"nothing is there to wait for");
	for (int i = 0; i < 5; i++)
		ring_acquire(&p, &slot);
	p.spin_max = 0;
	free_silently(&p, 8);
	is_int(1, ring_wait_acquire(&p, &at_once, &slot),
		"before it sleeps it looks at all");
}

static void test_ended(void)
{
	struct ring p = full(), q = kit_join(RING_PRODUCER, 2), c;
	struct ring_item item;

	is_int(0, ring_abandon(&p, slots[3]), "abandoned,");
	is_int(0, tries(&p), "it is found at once");
	c = kit_join(RING_CONSUMER, 3);
	is_int(0, ring_publish(&p, slots[4], &(struct ring_note) {0}),
		"published,");
	is_int(TRIES_MAX, tries(&p), "it is not free");
	item = kit_receive(&c);
	is_int(TRIES_MAX, tries(&q), "nor is it received");
	is_int(0, ring_release(&c, &item), "released,");
	is_int(0, tries(&q), "it is, also for who came later");
	is_int(-EINVAL,
		ring_publish(&p, slots[5],
			&(struct ring_note) {.bytes = KIT_SLOT_BYTES + 1}),
		"one that cannot be published");
	is_int(0, tries(&q), "is free, too");
}

static void test_gone(void)
{
	struct ring p = full(), q, r;
	uint32_t slot;

	is_int(0, ring_abandon(&p, slots[9]), "one that another takes");
	q = kit_join(RING_PRODUCER, 2);
	kit_acquire(&q);
	tries(&p);
	ring_leave(&q);
	is_int(0, tries(&p), "is free when he leaves");
	is_int(0, ring_abandon(&p, slots[10]), "one that another takes");
	r = kit_join(RING_PRODUCER, 3);
	slot = kit_acquire(&r);
	tries(&p);
	/* As if killed between the two. */
	free_silently(&r, slot);
	is_int(0, ring_acquire(&p, &slot), "and gives back, and dies,");
	ring_reap_owner(&p, 3);
	is_int(0, tries(&p), "is free when he was reaped");
}

int main(void)
{
	test_no_look();
	test_wait();
	test_ended();
	test_gone();
	kit_drop();
	return done();
}
