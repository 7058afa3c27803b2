/* SPDX-License-Identifier: MIT */
/*
 * A full ring of many slots: a failed try is cheap, since it looks at no slot,
 * and yet each slot that is freed is found at once, however that came.
 */
#include <errno.h>
#include <stdatomic.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

enum { SLOTS = 1000, TRIES_MAX = 2000 };

static uint32_t slots[SLOTS];

/* One that has all slots, and knows that there is none. */
static struct ring full(enum ring_mode mode)
{
	struct ring p;
	uint32_t none;

	kit_ring_make(mode, SLOTS);
	p = kit_ring_join(RING_PRODUCER, 1);
	for (int i = 0; i < SLOTS; i++)
		slots[i] = kit_ring_acquire(&p);
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

static void test_no_look(enum ring_mode mode)
{
	struct ring p = full(mode);
	uint32_t slot;
	int n;

	free_silently(&p, 7);
	is_int(0, ring_acquire(&p, &slot),
		"a failed attempt on a full ring looks at no slot");
	n = tries(&p);
	ok(n > 100 && n < TRIES_MAX,
		"one attempt of many looks at all slots: that after %d", n);
}

static void in_vain(struct ring *p, int n)
{
	uint32_t slot;

	for (int i = 0; i < n; i++)
		if (ring_acquire(p, &slot) != 0)
			bail("a slot too many");
}

/* A participant that frees slots and never counts them, as a hostile one may,
 * is found out sooner, and less soon again when none does so any more. */
static void test_silence(enum ring_mode mode)
{
	struct ring p = full(mode);
	int n, most = 0;

	free_silently(&p, 7);
	tries(&p);
	for (int i = 0; i < 10; i++) {
		in_vain(&p, 4 + i % 3);
		free_silently(&p, 7);
		n = tries(&p);
		most = n > most ? n : most;
	}
	ok(most < 10, "the next thorough looks come after at most %d attempts",
		most);
	in_vain(&p, 100);
	free_silently(&p, 7);
	n = tries(&p);
	ok(n <= 100, "after 100 failed attempts a thorough look comes after %d",
		n);
	in_vain(&p, 2500);
	free_silently(&p, 7);
	n = tries(&p);
	ok(n > 100, "after thousands of attempts, as at first, after %d", n);
}

/* A wait is never for what is there, whoever has kept silent. */
static void test_wait(enum ring_mode mode)
{
	struct ring p = full(mode);
	const struct ring_wait at_once = {0};
	uint32_t slot;

	is_int(-ETIMEDOUT, ring_wait_acquire(&p, &at_once, &slot),
		"a full ring has no slot to wait for");
	for (int i = 0; i < 5; i++)
		ring_acquire(&p, &slot);
	p.spin_max = 0;
	free_silently(&p, 8);
	is_int(1, ring_wait_acquire(&p, &at_once, &slot),
		"a producer looks at all slots before it sleeps");
}

static void test_ended(void)
{
	struct ring p = full(RING_QUEUE), q = kit_ring_join(RING_PRODUCER, 2),
		    c;
	struct ring_item item;

	is_int(0, ring_abandon(&p, slots[3]), "a slot is abandoned");
	is_int(0, tries(&p), "an abandoned slot is found at once");
	c = kit_ring_join(RING_CONSUMER, 3);
	is_int(0, ring_publish(&p, slots[4], &(struct ring_note) {0}),
		"a slot is published");
	is_int(TRIES_MAX, tries(&p), "a published slot is not found");
	item = kit_ring_receive(&c);
	is_int(TRIES_MAX, tries(&q),
		"a slot is not free while its item is being read");
	is_int(0, ring_release(&c, &item), "an item is released");
	is_int(0, tries(&q),
		"a released slot is found, also by a producer that came later");
	is_int(-EINVAL,
		ring_publish(&p, slots[5],
			&(struct ring_note) {.bytes = KIT_SLOT_BYTES + 1}),
		"a slot that a closed ring cannot publish");
	is_int(0, tries(&q), "a slot that could not be published is free, too");
}

static void take_one(struct ring *c)
{
	struct ring_item item = kit_ring_receive(c);

	ring_release(c, &item);
}

/* An item is free when the last has seen it, or will not. */
static void test_seen(void)
{
	struct ring p = full(RING_BROADCAST), c[4];
	const struct ring_note note = {.bytes = 1};
	struct ring_item item;

	ring_publish(&p, slots[0], &note);
	is_int(0, tries(&p),
		"a broadcast item without consumers frees its slot at once");
	for (uint32_t i = 0; i < 4; i++)
		c[i] = kit_ring_join(RING_CONSUMER, 2 + i);
	for (int i = 0; i < 4; i++)
		if (ring_publish(&p, slots[i], &note) < 0)
			bail("%s", tarn_fail_message());
	for (int i = 0; i < 3; i++)
		take_one(&c[i]);
	item = kit_ring_receive(&c[3]);
	is_int(TRIES_MAX, tries(&p),
		"a slot that a producer fills is not found");
	is_int(0, ring_release(&c[3], &item),
		"the last consumer releases its item");
	is_int(0, tries(&p), "a slot that its last consumer released is found");
	take_one(&c[0]);
	item = kit_ring_receive(&c[0]);
	ring_quiet(&c[0]);
	ring_leave(&c[1]);
	ring_reap_owner(&p, 4);
	is_int(TRIES_MAX, tries(&p),
		"three broadcast items are for one more consumer");
	take_one(&c[3]);
	is_int(0, tries(&p), "the slot of the first item is found");
	take_one(&c[3]);
	is_int(TRIES_MAX, tries(&p),
		"the second item's slot is read by another consumer");
	ring_release(&c[0], &item);
	is_int(0, tries(&p), "no other slot is found");
	ring_leave(&c[3]);
	is_int(0, tries(&p),
		"the slot of the last item is found when its consumer leaves");
}

/* A consumer that takes no more, or dies. */
static void test_unseen(void)
{
	struct ring p = full(RING_BROADCAST),
		    c = kit_ring_join(RING_CONSUMER, 2);
	const struct ring_note note = {.bytes = 1};

	ring_publish(&p, slots[0], &note);
	is_int(TRIES_MAX, tries(&p),
		"a slot of an item for one consumer is not found");
	ring_quiet(&c);
	is_int(0, tries(&p), "the slot is found when its consumer goes quiet");
	c = kit_ring_join(RING_CONSUMER, 3);
	ring_publish(&p, slots[1], &note);
	is_int(TRIES_MAX, tries(&p),
		"a slot of an item for another consumer is not found");
	ring_reap_owner(&p, 3);
	is_int(0, tries(&p),
		"the slot is found when its consumer has died and is reaped");
}

static void test_gone(enum ring_mode mode)
{
	struct ring p = full(mode), q, r;
	uint32_t slot;

	is_int(0, ring_abandon(&p, slots[9]),
		"a slot is abandoned and another producer takes it");
	q = kit_ring_join(RING_PRODUCER, 2);
	kit_ring_acquire(&q);
	tries(&p);
	ring_leave(&q);
	is_int(0, tries(&p),
		"the other producer's slot is free when it leaves");
	is_int(0, ring_abandon(&p, slots[10]),
		"another slot is abandoned and taken");
	r = kit_ring_join(RING_PRODUCER, 3);
	slot = kit_ring_acquire(&r);
	tries(&p);
	/* As if killed between the two. */
	free_silently(&r, slot);
	is_int(0, ring_acquire(&p, &slot),
		"the other participant gives it back and dies");
	ring_reap_owner(&p, 3);
	is_int(0, tries(&p), "its slot is found after it was reaped");
}

int main(void)
{
	for (int mode = RING_QUEUE; mode <= RING_BROADCAST; mode++) {
		test_no_look((enum ring_mode)mode);
		test_silence((enum ring_mode)mode);
		test_wait((enum ring_mode)mode);
		test_gone((enum ring_mode)mode);
	}
	test_ended();
	test_seen();
	test_unseen();
	kit_ring_drop();
	return done(46);
}
