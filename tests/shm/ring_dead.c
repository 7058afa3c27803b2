/* SPDX-License-Identifier: MIT */
/*
 * A ring and participants that are dead, or were wrongly taken for dead: what
 * each of them leaves at each step, what happens when it continues after
 * another took its place, and what the reaper asks about.
 */
#include <errno.h>
#include <stdatomic.h>

#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

/* Leaving while the reaper is at it: the place is the reaper's to free, or
 * another would join there and be swept along. */
static void test_leave_reaped(void)
{
	struct ring p, q;
	uint64_t mine;
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	slot = kit_ring_acquire(&p);
	/* As the reaper marks it. */
	mine = member_word(MEMBER_LEAVING, RING_PRODUCER | 8,
		member_generation(p.word), 1);
	atomic_store(&p.members[p.me].word, mine);
	ring_leave(&p);
	q = kit_ring_join(RING_PRODUCER, 2);
	ok(q.me != 0, "a dead participant's place is not given to another");
	is_int(1, kit_ring_free(&q), "a dead participant's slot is not free");
	is_int(1, ring_reap_owner(&q, 1),
		"a dead participant that was reaped holds nothing");
	is_int(2, kit_ring_free(&q), "a reaped participant's slot is free");
	kit_ring_let_rest();
	p = kit_ring_join(RING_PRODUCER, 3);
	is_int(0, p.me, "a reaped participant's place is given to another");
	is_int(-ESTALE, ring_abandon(&p, slot),
		"a place that was taken again holds no old slot");
}

/* A participant that was taken for dead touches nothing of the one that joined
 * in its place, not even the same slot. */
static void test_replaced(void)
{
	struct ring p, q;
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 1);
	p = kit_ring_join(RING_PRODUCER, 1);
	slot = kit_ring_acquire(&p);
	ring_reap_owner(&p, 1);
	kit_ring_let_rest();
	q = kit_ring_join(RING_PRODUCER, 2);
	is_int(p.me, q.me, "another participant takes the reaped one's place");
	is_int(slot, kit_ring_acquire(&q),
		"the next participant gets the dead one's slot");
	is_int(-ESTALE, ring_abandon(&p, slot),
		"the dead participant cannot abandon the slot of another");
	is_int(-ESTALE, ring_publish(&p, slot, &(struct ring_note) {0}),
		"a dead participant cannot publish its slot");
	ring_leave(&p);
	is_int(0, kit_ring_free(&q),
		"leaving after death frees no slot of another");
	is_int(0, ring_publish(&q, slot, &(struct ring_note) {0}),
		"the slot's new owner publishes it");
}

/* A producer who dies, another who goes on, and who receives. */
struct three {
	struct ring p, q, c;
};

/* As ring_publish begins: a slot that is offered, and not placed. */
static uint32_t offer(struct ring *p)
{
	uint32_t slot = kit_ring_acquire(p);

	atomic_store(&p->slots[slot].word,
		slot_word(SLOT_OFFERED, p->me, ring_end(p)));
	return slot;
}

/* And goes on: it is placed, and the end is not moved. */
static uint32_t place(struct ring *p)
{
	uint32_t slot = offer(p);
	uint64_t at = ring_end(p);

	atomic_store(ring_entry(p, at), entry_word(at, p->me, slot));
	return slot;
}

static void test_dead_filling(struct three *by)
{
	uint32_t slot = kit_ring_acquire(&by->p);

	is_int(1, ring_reap_owner(&by->c, 1),
		"a participant that was filling a slot is reaped");
	is_int(0, ring_reap_owner(&by->c, 1),
		"a reaped participant has nothing to be reaped again");
	is_int(2, kit_ring_free(&by->c),
		"the slot of a reaped producer is free");
	is_int(-ESTALE,
		ring_publish(&by->p, slot, &(struct ring_note) {.bytes = 1}),
		"a reaped producer cannot publish its slot");
	is_int(-ESTALE, kit_ring_put(&by->p, 1),
		"a dead participant cannot acquire a slot");
}

static void test_dead_offering(struct three *by)
{
	by->p = kit_ring_join(RING_PRODUCER, 1);
	offer(&by->p);
	is_int(-1, kit_ring_get(&by->c),
		"an item that was not placed is not delivered");
	is_int(1, ring_reap_owner(&by->c, 1),
		"a producer that did not place its item is reaped");
	is_int(2, kit_ring_free(&by->c),
		"the slot of an item that was not placed is free");
	kit_ring_put(&by->q, 3);
	kit_ring_put(&by->q, 4);
	is_int(3, kit_ring_get(&by->c),
		"the reaped producer's place was given to another");
	is_int(4, kit_ring_get(&by->c),
		"the ring goes on after the place was given away");
}

static void test_dead_placing(struct three *by)
{
	uint32_t slot;
	uint64_t at;

	by->p = kit_ring_join(RING_PRODUCER, 1);
	place(&by->p);
	is_int(0, ring_reap_owner(&by->c, 1),
		"an item that was placed is not taken back");
	kit_ring_put(&by->q, 5);
	ok(kit_ring_get(&by->c) >= 0,
		"the placed item of a dead producer is delivered");
	is_int(5, kit_ring_get(&by->c),
		"the item after the redelivered one comes next");
	is_int(2, kit_ring_free(&by->c), "no slot is lost by the placed item");
	/* The same, and it is its successor who is there to finish it. */
	by->p = kit_ring_join(RING_PRODUCER, 1);
	slot = place(&by->p);
	kit_ring_put(&by->q, 6);
	is_int(0, ring_reap_owner(&by->c, 1),
		"an item that others finished has nothing to be reaped");
	ok(kit_ring_get(&by->c) >= 0,
		"an item that others finished is delivered");
	is_int(6, kit_ring_get(&by->c),
		"the item after the second redelivered one comes next");
	/* An entry that comes after its owner was reaped. */
	at = ring_end(&by->c);
	atomic_store(ring_entry(&by->c, at), entry_word(at, by->p.me, slot));
	kit_ring_put(&by->q, 7);
	is_int(7, kit_ring_get(&by->c),
		"an entry that a dead producer wrote late is skipped");
	is_int(2, kit_ring_free(&by->c), "no slot is lost by the late entry");
}

/* What a producer leaves at each stage of a publication. */
static void test_dead_producer(enum ring_mode mode)
{
	struct three by;

	kit_ring_make(mode, 2);
	by.p = kit_ring_join(RING_PRODUCER, 1);
	by.q = kit_ring_join(RING_PRODUCER, 2);
	by.c = kit_ring_join(RING_CONSUMER, 3);
	test_dead_filling(&by);
	test_dead_offering(&by);
	test_dead_placing(&by);
}

static void test_dead_consumer(void)
{
	struct ring p, c, d;
	struct ring_item item, two;
	uint64_t entry;

	kit_ring_make(RING_QUEUE, 4);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	d = kit_ring_join(RING_CONSUMER, 3);
	for (uint32_t i = 1; i <= 4; i++)
		kit_ring_put(&p, i);
	item = kit_ring_receive(&c);
	two = kit_ring_receive(&c);
	is_int(2, (int)two.note.tensors, "a consumer reads two items");
	is_int(2, ring_reap_owner(&p, 2),
		"the consumer with two items is reaped");
	is_int(-ESTALE, ring_release(&c, &item),
		"the reaped consumer cannot release its item");
	is_int(-ESTALE, kit_ring_get(&c), "a dead participant cannot receive");
	item = kit_ring_receive(&d);
	ok(item.redelivered && item.note.tensors == 1,
		"redelivered items come before newer ones, the oldest first");
	ring_leave(&d);
	d = kit_ring_join(RING_CONSUMER, 3);
	is_int(1, kit_ring_get(&d),
		"an item of a consumer that left is delivered again");
	is_int(2, kit_ring_get(&d), "the next redelivered item follows");
	item = kit_ring_receive(&d);
	ok(!item.redelivered && item.note.tensors == 3,
		"new items follow the redelivered ones");
	ring_release(&d, &item);
	/* Received, head not moved on. */
	entry = atomic_load(&d.head->head);
	item = kit_ring_receive(&d);
	atomic_store(&d.head->head, entry);
	kit_ring_put(&p, 5);
	c = kit_ring_join(RING_CONSUMER, 2);
	is_int(5, kit_ring_get(&c),
		"an entry that was already taken is skipped");
	is_int(1, ring_reap_owner(&p, 3), "a consumer with an item is reaped");
	is_int(4, kit_ring_get(&c), "the dead reader's item is received again");
	is_int(-1, kit_ring_get(&c),
		"the reaped consumer's item is delivered once");
	is_int(4, kit_ring_free(&c), "no slot is lost by redelivery");
	/* A reaper that died between returning an item and saying so. */
	kit_ring_put(&p, 6);
	item = kit_ring_receive(&c);
	atomic_store(&p.slots[item.slot].word,
		slot_word(SLOT_RETURNED, 0, item.position));
	d = kit_ring_join(RING_CONSUMER, 4);
	is_int(-1, kit_ring_get(&d),
		"an item whose reader died is unknown before the reaper comes");
	ring_reap_owner(&p, 2);
	is_int(6, kit_ring_get(&d),
		"the next reaper delivers the dead reader's item");
}

/* A participant was taken for dead and runs on, while a successor has its place
 * and the very slot and item: its late calls do not change those. */
static void test_successor(void)
{
	struct ring old, new, p;
	struct ring_item item, again;
	struct ring_note note = {.bytes = 1};
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 1);
	old = kit_ring_join(RING_PRODUCER, 1);
	slot = kit_ring_acquire(&old);
	ring_reap_owner(&old, 1);
	kit_ring_let_rest();
	new = kit_ring_join(RING_PRODUCER, 2);
	is_int(0, new.me, "a producer takes the place of a reaped one");
	is_int((int)slot, (int)kit_ring_acquire(&new),
		"the new producer fills the same slot");
	is_int(-ESTALE, ring_publish(&old, slot, &note),
		"the reaped producer cannot publish the new one's slot");
	is_int(-ESTALE, ring_abandon(&old, slot),
		"a dead participant cannot abandon the slot");
	is_int(0, ring_publish(&new, slot, &note),
		"the slot still belongs to the new producer");
	ring_leave(&new);
	kit_ring_let_rest();
	old = kit_ring_join(RING_CONSUMER, 3);
	item = kit_ring_receive(&old);
	ring_reap_owner(&old, 3);
	kit_ring_let_rest();
	new = kit_ring_join(RING_CONSUMER, 4);
	is_int(0, new.me, "a consumer takes the place of a reaped one");
	again = kit_ring_receive(&new);
	ok(again.slot == item.slot && again.position == item.position,
		"the new consumer reads the same item");
	is_int(-ESTALE, ring_release(&old, &item),
		"the reaped consumer cannot release the new one's item");
	p = kit_ring_join(RING_PRODUCER, 5);
	is_int(0, ring_acquire(&p, &slot),
		"the new consumer's slot is not filled meanwhile");
	is_int(0, ring_release(&new, &again),
		"the item still belongs to the new consumer");
}

/* A participant is stopped between its look at itself and its next instruction,
 * is taken for dead, and goes on. A new producer that fills the same slot at
 * the same position is not in its place, so its instruction fails. */
static void test_rest(void)
{
	struct ring old, new[RING_COOLDOWN], last, w;
	uint64_t mine;
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 1);
	w = kit_ring_attach();
	old = kit_ring_join(RING_PRODUCER, 1);
	slot = kit_ring_acquire(&old);
	mine = atomic_load(&old.slots[slot].word);
	ring_reap_owner(&w, 1);
	for (uint32_t i = 0; i < RING_COOLDOWN; i++) {
		uint64_t seen = mine;

		new[i] = kit_ring_join(RING_PRODUCER, 2);
		kit_ring_acquire(&new[i]);
		if (atomic_compare_exchange_strong(&old.slots[slot].word, &seen,
			    slot_word(SLOT_FREE, 0, 0)))
			ok(false, "the slot of generation %u is not given away",
				i);
		ring_abandon(&new[i], slot);
	}
	last = kit_ring_join(RING_PRODUCER, 2);
	is_int(old.me, last.me,
		"a place is used again after the cooldown's number of joins");
}

/* Where there is no other place, nobody is refused. */
static void test_crowded(void)
{
	struct ring c[RING_BROADCAST_CONSUMERS], more;

	kit_ring_make(RING_BROADCAST, 1);
	for (uint32_t i = 0; i < RING_BROADCAST_CONSUMERS; i++)
		c[i] = kit_ring_join(RING_CONSUMER, 1);
	more = kit_ring_attach();
	is_int(-EUSERS, ring_join(&more, RING_CONSUMER, 2),
		"a ring whose places are all taken refuses a join");
	ring_leave(&c[5]);
	is_int(0, ring_join(&more, RING_CONSUMER, 2),
		"a place is free at once if all others are taken");
	is_int(c[5].me == RING_PARTICIPANTS ? 5 : -1, more.me,
		"the free place is the one that was left");
}

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

	kit_ring_make(mode, 8);
	w = kit_ring_attach();
	ok(!ring_has_owner(&w, 1), "an owner that never joined is unknown");
	is_int(0, ring_reap_owner(&w, 1),
		"no dead participant means nothing to reap");
	for (uint32_t i = 0; i < 5; i++) {
		p[i] = kit_ring_join(
			i % 3 ? RING_PRODUCER : RING_CONSUMER, 10 + i);
		if (i % 3 && ring_acquire(&p[i], &slot) != 1)
			bail("no slot");
	}
	ok(ring_has_owner(&w, 10) && ring_has_owner(&w, 14) &&
			!ring_has_owner(&w, 15),
		"five participants of one owner are known");
	ring_reap_gone(&w, is_even, &asked);
	is_int(5, asked, "the reaper asks about each owner");
	ok(!ring_has_owner(&w, 10) && ring_has_owner(&w, 11) &&
			!ring_has_owner(&w, 12) && ring_has_owner(&w, 13) &&
			!ring_has_owner(&w, 14),
		"the two living owners remain");
	ring_stat(&w, &stat);
	is_int(1, stat.filling, "the slots of the dead owners are free");
	kit_ring_must_put(&p[1], 100);
	ring_stat(&w, &stat);
	is_int(100, (int64_t)stat.bytes,
		"the ring counts bytes of delivered items");
	ring_leave(&p[1]);
	ok(!ring_has_owner(&w, 11), "an owner that left is unknown");
}

int main(void)
{
	test_leave_reaped();
	test_replaced();
	test_dead_producer(RING_QUEUE);
	test_dead_producer(RING_BROADCAST);
	test_dead_consumer();
	test_successor();
	test_rest();
	test_crowded();
	test_owners(RING_QUEUE);
	test_owners(RING_BROADCAST);
	kit_ring_drop();
	return done(95);
}
