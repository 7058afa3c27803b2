/* SPDX-License-Identifier: MIT */
/*
 * A ring by itself: each transition in both modes, the order of delivery, and
 * closing. Participants that die in the middle are in ring_dead.c.
 */
#include <errno.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

static void test_geometry(void)
{
	struct ring_geometry g = {RING_QUEUE, 65536, 1};
	struct ring ring;
	size_t n;

	is_int(0, ring_size(&g, &n), "a ring of the most slots has a size");
	g.slots++;
	is_int(-EINVAL, ring_size(&g, &n),
		"a ring of one slot too many is refused");
	g.slots = 0;
	is_int(-EINVAL, ring_size(&g, &n),
		"a geometry without slots is refused");
	g = (struct ring_geometry) {3, 1, 1};
	is_int(-EINVAL, ring_size(&g, &n), "an unknown mode is refused");
	kit_ring_make(RING_QUEUE, 3);
	is_int(-EPROTO, ring_attach(&ring, kit_ring_memory, kit_ring_size - 1),
		"a mapping that is one byte too short is refused");
	is_int(-EPROTO, ring_attach(&ring, kit_ring_memory, 8),
		"a memory without a header is refused");
	((struct ring_head *)kit_ring_memory)->order_size *= 2;
	is_int(-EPROTO, ring_attach(&ring, kit_ring_memory, kit_ring_size),
		"a ring of another byte order is refused");
	((struct ring_head *)kit_ring_memory)->order_size /= 2;
	((struct ring_head *)kit_ring_memory)->version++;
	is_int(-EPROTO, ring_attach(&ring, kit_ring_memory, kit_ring_size),
		"a ring of another version is refused");
}

/* Two who publish and two who receive, of three slots. */
struct four {
	struct ring p, q, c, d;
};

static struct four join_four(void)
{
	struct four four;

	kit_ring_make(RING_QUEUE, 3);
	four.p = kit_ring_join(RING_PRODUCER, 1);
	four.q = kit_ring_join(RING_PRODUCER, 2);
	four.c = kit_ring_join(RING_CONSUMER, 3);
	four.d = kit_ring_join(RING_CONSUMER, 3);
	return four;
}

static void test_items(struct four *by)
{
	struct ring_item one, two;
	uint32_t slot, other;

	is_int(-1, kit_ring_get(&by->c), "an empty ring has no item");
	slot = kit_ring_acquire(&by->p);
	other = kit_ring_acquire(&by->q);
	ok(slot != other, "two producers acquire two slots");
	is_int(-ESTALE, ring_abandon(&by->p, other),
		"a producer can abandon only its own slot");
	is_int(0,
		ring_publish(&by->q, other, &(struct ring_note) {.tensors = 7}),
		"the second slot is published first");
	is_int(0,
		ring_publish(&by->p, slot, &(struct ring_note) {.tensors = 8}),
		"the first slot is published second");
	one = kit_ring_receive(&by->c);
	two = kit_ring_receive(&by->d);
	is_int(7, one.note.tensors,
		"items are received in the order of publication");
	is_int(8, two.note.tensors,
		"the other consumer receives the other item");
	is_int(1, (int64_t)(two.position - one.position),
		"positions count publications");
	is_int(-ESTALE, ring_release(&by->d, &one),
		"a consumer can release only its own item");
	is_int(0, kit_ring_put(&by->p, 9),
		"the third slot is filled and published");
	is_int(-EAGAIN, kit_ring_put(&by->p, 10), "a fourth slot is not free");
	is_int(0, ring_release(&by->d, &two),
		"an item is released out of order");
	is_int(0, kit_ring_put(&by->p, 10),
		"a slot released out of order is used again");
	is_int(-ESTALE, ring_release(&by->d, &two),
		"an item cannot be released twice");
	is_int(0, ring_release(&by->c, &one),
		"the other item is released, too");
	is_int(9, kit_ring_get(&by->c), "the third item comes first");
	is_int(10, kit_ring_get(&by->c), "the fourth item comes next");
}

static void test_refused(struct four *by)
{
	struct ring_note note = {.tag_size = RING_TAG_MAX + 1};
	uint32_t slot;

	slot = kit_ring_acquire(&by->p);
	is_int(0, ring_abandon(&by->p, slot), "a slot is abandoned");
	is_int(-ESTALE, ring_publish(&by->p, slot, &note),
		"an abandoned slot cannot be published");
	slot = kit_ring_acquire(&by->p);
	is_int(-EINVAL, ring_publish(&by->p, slot, &note),
		"a tag that is too long is refused");
	slot = kit_ring_acquire(&by->p);
	note = (struct ring_note) {.bytes = 4097};
	is_int(-EINVAL, ring_publish(&by->p, slot, &note),
		"a note with too many bytes is refused");
	is_int(3, kit_ring_free(&by->p),
		"no slot is lost by refused publications");
}

/* Several laps of the order ring, one deep and three deep; and one item that is
 * held while the order ring goes round twice. */
static void test_laps(struct four *by)
{
	struct ring_item one;

	for (uint32_t i = 0; i < 5000; i++)
		if (kit_ring_put(&by->p, i) < 0 ||
			kit_ring_get(&by->c) != (int)i)
			bail("item %u", i);
	for (uint32_t i = 0; i < 5000; i++) {
		if (kit_ring_put(&by->p, i) < 0 ||
			kit_ring_put(&by->q, i) < 0 ||
			kit_ring_put(&by->p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
		for (int j = 0; j < 3; j++)
			if (kit_ring_get(&by->c) != (int)i)
				bail("item %u", i);
	}
	kit_ring_put(&by->p, 77);
	one = kit_ring_receive(&by->c);
	for (uint32_t i = 0; i < 2 * RING_ORDER_MIN; i++)
		if (kit_ring_put(&by->q, i) < 0 ||
			kit_ring_get(&by->d) != (int)i)
			bail("item %u: %s", i, tarn_fail_message());
	is_int(0, ring_release(&by->c, &one),
		"an item that was held for two laps is released");
	is_int(3, kit_ring_free(&by->p),
		"no slot is lost by an item held for two laps");
}

static void test_queue(void)
{
	struct four by = join_four();
	struct ring_stat stat;

	test_items(&by);
	test_refused(&by);
	stat = kit_ring_stat(&by.c);
	ok(stat.producers == 2 && stat.consumers == 2 && stat.published == 4 &&
			stat.received == 4 && !stat.closed,
		"the ring counts participants, items and bytes");
	test_laps(&by);
}

static void test_close(void)
{
	struct ring p, c;

	kit_ring_make(RING_QUEUE, 4);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	kit_ring_put(&p, 1);
	kit_ring_put(&p, 2);
	is_int(0, ring_close(&c), "the ring is closed");
	is_int(0, ring_close(&p), "closing a ring twice is no error");
	is_int(-EPIPE, kit_ring_put(&p, 3),
		"a closed ring refuses publications");
	is_int(1, kit_ring_get(&c),
		"an item from before the close is received");
	is_int(2, kit_ring_get(&c),
		"all items from before the close are received");
	is_int(-EPIPE, kit_ring_get(&c),
		"the ring's end follows the last item");
	is_int(-EPIPE, kit_ring_get(&c),
		"the end of the ring is received again");
	is_int(4, kit_ring_free(&c), "no slot is lost by the close");
}

static void test_close_filling(void)
{
	struct ring p, c;
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 4);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	slot = kit_ring_acquire(&p);
	ring_close(&c);
	is_int(-EPIPE, ring_publish(&p, slot, &(struct ring_note) {.bytes = 1}),
		"a slot that is filled during the close cannot be published");
	is_int(4, kit_ring_free(&p),
		"the slot that came too late is free again");
}

/* Each consumer receives, in its own time, what was published since it
 * joined. */
static void receive_broadcast(struct ring *p, struct ring c[3])
{
	struct ring_item item;

	is_int(0, kit_ring_put(p, 6), "an item is published to two consumers");
	c[2] = kit_ring_join(RING_CONSUMER, 4);
	is_int(0, kit_ring_put(p, 7),
		"an item is published to three consumers");
	is_int(-EAGAIN, kit_ring_put(p, 8),
		"a broadcast ring of two items is full");
	is_int(6, kit_ring_get(&c[0]),
		"the first consumer receives the first item");
	is_int(7, kit_ring_get(&c[0]),
		"the first consumer receives the next item");
	is_int(-1, kit_ring_get(&c[0]), "the first consumer receives no more");
	is_int(-EAGAIN, kit_ring_put(p, 8),
		"the second consumer still has to receive the items");
	is_int(7, kit_ring_get(&c[2]),
		"a consumer that joined later receives later items");
	item = kit_ring_receive(&c[1]);
	is_int(-EAGAIN, kit_ring_put(p, 8),
		"an item that is being read occupies its slot");
	is_int(0, ring_release(&c[1], &item),
		"the second consumer releases the item");
	is_int(-ESTALE, ring_release(&c[1], &item),
		"an item is not released twice");
	is_int(0, kit_ring_put(p, 8),
		"after both released it the slot can be filled");
}

static void leave_and_join_again(struct ring *p, struct ring c[3])
{
	ring_leave(&c[1]);
	is_int(8, kit_ring_get(&c[0]), "a consumer that left holds no slot");
	is_int(8, kit_ring_get(&c[2]),
		"the remaining consumer receives the next item");
	is_int(2, kit_ring_free(p), "no slot of the broadcast is lost");
	c[1] = kit_ring_join(RING_CONSUMER, 5);
	is_int(-1, kit_ring_get(&c[1]),
		"a consumer that joins again begins at the end");
	for (uint32_t i = 0; i < 5000; i++) {
		if (kit_ring_put(p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
		for (int j = 0; j < 3; j++)
			if (kit_ring_get(&c[j]) != (int)i)
				bail("item %u", i);
	}
}

static void close_broadcast(struct ring *p, struct ring c[3])
{
	kit_ring_put(p, 1);
	ring_close(p);
	for (int j = 0; j < 3; j++) {
		is_int(1, kit_ring_get(&c[j]),
			"each consumer receives the last item");
		is_int(-EPIPE, kit_ring_get(&c[j]),
			"each consumer receives the end");
	}
}

static void test_broadcast(void)
{
	struct ring p, c[3];

	kit_ring_make(RING_BROADCAST, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	ok(p.me >= RING_BROADCAST_CONSUMERS,
		"a producer takes no bit of the consumers'");
	for (int i = 0; i < 10; i++)
		is_int(0, kit_ring_put(&p, 5),
			"an item without consumers frees its slot at once");
	c[0] = kit_ring_join(RING_CONSUMER, 2);
	c[1] = kit_ring_join(RING_CONSUMER, 3);
	receive_broadcast(&p, c);
	leave_and_join_again(&p, c);
	close_broadcast(&p, c);
}

/* As many consumers as a broadcast can have. */
static void test_broadcast_full(void)
{
	struct ring p, c;

	kit_ring_make(RING_BROADCAST, 2);
	for (uint32_t i = 0; i < RING_BROADCAST_CONSUMERS; i++)
		kit_ring_join(RING_CONSUMER, i);
	c = kit_ring_attach();
	is_int(-EUSERS, ring_join(&c, RING_CONSUMER, 1),
		"one consumer too many is refused");
	p = kit_ring_join(RING_PRODUCER, 99);
	kit_ring_put(&p, 1);
	is_int(1, kit_ring_free(&p),
		"an item for all 64 consumers occupies its slot");
	for (uint32_t i = 0; i < RING_BROADCAST_CONSUMERS; i++)
		ring_reap_owner(&p, i);
	is_int(2, kit_ring_free(&p),
		"an item for consumers that left frees its slot");
}

/* As many slots as an order ring might have entries, all of them unread, and
 * then the end: it takes no place that is still to be seen. */
static void test_close_full(void)
{
	struct ring p, c;
	uint32_t wrong = 0;

	kit_ring_make(RING_BROADCAST, RING_ORDER_MIN);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	for (uint32_t i = 0; i < RING_ORDER_MIN; i++)
		if (kit_ring_put(&p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
	is_int(0, ring_close(&p), "a full broadcast ring is closed");
	for (uint32_t i = 0; i < RING_ORDER_MIN; i++)
		wrong += kit_ring_get(&c) != (int)i;
	is_int(0, wrong, "all that was published is received");
	is_int(-EPIPE, kit_ring_get(&c), "after the last item comes the end");
}

int main(void)
{
	test_geometry();
	test_queue();
	test_close();
	test_close_filling();
	test_broadcast();
	test_broadcast_full();
	test_close_full();
	kit_ring_drop();
	return done(82);
}
