/* SPDX-License-Identifier: MIT */
/*
 * A ring by itself: each transition in both modes, the order of delivery,
 * closing, leaving and being reaped at each stage, and words that a peer has
 * spoilt.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/ring_words.h"
#include "tests/tap.h"

static void *memory;
static size_t size;

static void make(enum ring_mode mode, uint32_t slots)
{
	struct ring_geometry g = {mode, slots, 4096};

	free(memory);
	if (ring_size(&g, &size) < 0)
		bail("%s", tarn_fail_message());
	memory = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
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

static int put(struct ring *ring, uint32_t number)
{
	struct ring_note note = {.bytes = 8,
		.tensors = number,
		.tag_size = 1,
		.tag = {(unsigned char)number}};
	uint32_t slot;
	int r = ring_acquire(ring, &slot);

	return r == 1 ? ring_publish(ring, slot, &note) : r == 0 ? -EAGAIN : r;
}

/* The number of the next item, released; -1: there is none. */
static int get(struct ring *ring)
{
	struct ring_item item;
	int r = ring_receive(ring, &item);

	if (r != 1)
		return r == 0 ? -1 : r;
	if (item.note.tag[0] != (unsigned char)item.note.tensors ||
		ring_release(ring, &item) < 0)
		bail("item %u: %s", item.note.tensors, tarn_fail_message());
	return (int)item.note.tensors;
}

static uint32_t acquire(struct ring *ring)
{
	uint32_t slot;

	if (ring_acquire(ring, &slot) != 1)
		bail("no slot: %s", tarn_fail_message());
	return slot;
}

static struct ring_item receive(struct ring *ring)
{
	struct ring_item item = {0};

	if (ring_receive(ring, &item) != 1)
		bail("no item: %s", tarn_fail_message());
	return item;
}

static uint32_t n_free(const struct ring *ring)
{
	struct ring_stat s;

	ring_stat(ring, &s);
	return s.free;
}

static void test_geometry(void)
{
	struct ring_geometry g = {RING_QUEUE, 65536, 1};
	struct ring ring;
	size_t n;

	is_int(0, ring_size(&g, &n), "the most slots");
	g.slots++;
	is_int(-EINVAL, ring_size(&g, &n), "one more");
	g.slots = 0;
	is_int(-EINVAL, ring_size(&g, &n), "none");
	g = (struct ring_geometry) {3, 1, 1};
	is_int(-EINVAL, ring_size(&g, &n), "no such mode");
	make(RING_QUEUE, 3);
	is_int(-EPROTO, ring_attach(&ring, memory, size - 1), "too short");
	is_int(-EPROTO, ring_attach(&ring, memory, 8), "no header");
	((struct ring_head *)memory)->order_size *= 2;
	is_int(-EPROTO, ring_attach(&ring, memory, size), "another order");
	((struct ring_head *)memory)->order_size /= 2;
	((struct ring_head *)memory)->version++;
	is_int(-EPROTO, ring_attach(&ring, memory, size), "another version");
}

static void test_queue(void)
{
	struct ring p, q, c, d;
	struct ring_item one, two;
	struct ring_note note = {.tag_size = RING_TAG_MAX + 1};
	struct ring_stat stat;
	uint32_t slot, other;

	make(RING_QUEUE, 3);
	p = join(RING_PRODUCER, 1);
	q = join(RING_PRODUCER, 2);
	c = join(RING_CONSUMER, 3);
	d = join(RING_CONSUMER, 3);
	is_int(-1, get(&c), "an empty one has no item");
	slot = acquire(&p);
	other = acquire(&q);
	ok(slot != other, "two acquire two slots");
	is_int(-ESTALE, ring_abandon(&p, other), "only one's own is abandoned");
	is_int(0, ring_publish(&q, other, &(struct ring_note) {.tensors = 7}),
		"the second is published");
	is_int(0, ring_publish(&p, slot, &(struct ring_note) {.tensors = 8}),
		"then the first");
	one = receive(&c);
	two = receive(&d);
	is_int(7, one.note.tensors, "what was published first comes first");
	is_int(8, two.note.tensors, "the other one gets the other");
	is_int(1, (int64_t)(two.position - one.position), "positions count");
	is_int(-ESTALE, ring_release(&d, &one), "only one's own is released");
	is_int(0, put(&p, 9), "the third slot is there");
	is_int(-EAGAIN, put(&p, 10), "a fourth is not");
	is_int(0, ring_release(&d, &two), "released out of order");
	is_int(0, put(&p, 10), "and used again");
	is_int(-ESTALE, ring_release(&d, &two), "it is not released twice");
	is_int(0, ring_release(&c, &one), "the other too");
	is_int(9, get(&c), "in order");
	is_int(10, get(&c), "in order");
	slot = acquire(&p);
	is_int(0, ring_abandon(&p, slot), "one is abandoned");
	is_int(-ESTALE, ring_publish(&p, slot, &note), "and not published");
	slot = acquire(&p);
	is_int(-EINVAL, ring_publish(&p, slot, &note), "too long a tag");
	slot = acquire(&p);
	note = (struct ring_note) {.bytes = 4097};
	is_int(-EINVAL, ring_publish(&p, slot, &note), "too many bytes");
	is_int(3, n_free(&p), "no slot is lost");
	ring_stat(&c, &stat);
	ok(stat.producers == 2 && stat.consumers == 2 && stat.published == 4 &&
			stat.received == 4 && !stat.closed,
		"it is all counted");
	/* Several laps of the order ring, one deep and three deep. */
	for (uint32_t i = 0; i < 5000; i++)
		if (put(&p, i) < 0 || get(&c) != (int)i)
			bail("item %u", i);
	for (uint32_t i = 0; i < 5000; i++) {
		if (put(&p, i) < 0 || put(&q, i) < 0 || put(&p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
		for (int j = 0; j < 3; j++)
			if (get(&c) != (int)i)
				bail("item %u", i);
	}
	/* One that is held while the order ring goes round twice. */
	put(&p, 77);
	one = receive(&c);
	for (uint32_t i = 0; i < 2 * RING_ORDER_MIN; i++)
		if (put(&q, i) < 0 || get(&d) != (int)i)
			bail("item %u: %s", i, tarn_fail_message());
	is_int(0, ring_release(&c, &one), "held for two laps");
	is_int(3, n_free(&p), "no slot is lost");
}

static void test_close(void)
{
	struct ring p, c;

	make(RING_QUEUE, 4);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	put(&p, 1);
	put(&p, 2);
	is_int(0, ring_close(&c), "closed");
	is_int(0, ring_close(&p), "and again");
	is_int(-EPIPE, put(&p, 3), "nothing is published any more");
	is_int(1, get(&c), "what was is received");
	is_int(2, get(&c), "all of it");
	is_int(-EPIPE, get(&c), "then comes the end");
	is_int(-EPIPE, get(&c), "and stays");
	is_int(4, n_free(&c), "no slot is lost");
	make(RING_QUEUE, 4);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	{
		uint32_t slot = acquire(&p);

		ring_close(&c);
		is_int(-EPIPE,
			ring_publish(
				&p, slot, &(struct ring_note) {.bytes = 1}),
			"what is being filled comes too late");
		is_int(4, n_free(&p), "and its slot is free");
	}
}

static void test_broadcast(void)
{
	struct ring p, c[3];
	struct ring_item item;

	make(RING_BROADCAST, 2);
	p = join(RING_PRODUCER, 1);
	ok(p.me >= RING_BROADCAST_CONSUMERS, "producers need no bit");
	for (int i = 0; i < 10; i++)
		is_int(0, put(&p, 5), "without consumers nothing is kept");
	c[0] = join(RING_CONSUMER, 2);
	c[1] = join(RING_CONSUMER, 3);
	is_int(0, put(&p, 6), "published for two");
	c[2] = join(RING_CONSUMER, 4);
	is_int(0, put(&p, 7), "published for three");
	is_int(-EAGAIN, put(&p, 8), "full");
	is_int(6, get(&c[0]), "the first has it");
	is_int(7, get(&c[0]), "and the next");
	is_int(-1, get(&c[0]), "and no more");
	is_int(-EAGAIN, put(&p, 8), "the second has not seen it");
	is_int(7, get(&c[2]), "who joined later got what came later");
	item = receive(&c[1]);
	is_int(-EAGAIN, put(&p, 8), "it is being read");
	is_int(0, ring_release(&c[1], &item), "it was read");
	is_int(-ESTALE, ring_release(&c[1], &item), "and not twice");
	is_int(0, put(&p, 8), "so there is room");
	ring_leave(&c[1]);
	is_int(8, get(&c[0]), "who has left is not waited for");
	is_int(8, get(&c[2]), "nor by others");
	is_int(2, n_free(&p), "no slot is lost");
	c[1] = join(RING_CONSUMER, 5);
	is_int(-1, get(&c[1]), "who comes back begins anew");
	for (uint32_t i = 0; i < 5000; i++) {
		if (put(&p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
		for (int j = 0; j < 3; j++)
			if (get(&c[j]) != (int)i)
				bail("item %u", i);
	}
	put(&p, 1);
	ring_close(&p);
	for (int j = 0; j < 3; j++) {
		is_int(1, get(&c[j]), "the last one");
		is_int(-EPIPE, get(&c[j]), "the end");
	}
	make(RING_BROADCAST, 2);
	for (uint32_t i = 0; i < RING_BROADCAST_CONSUMERS; i++)
		join(RING_CONSUMER, i);
	c[0] = attach();
	is_int(-EUSERS, ring_join(&c[0], RING_CONSUMER, 1), "one too many");
	p = join(RING_PRODUCER, 99);
	put(&p, 1);
	is_int(1, n_free(&p), "for all 64");
	for (uint32_t i = 0; i < RING_BROADCAST_CONSUMERS; i++)
		ring_reap_owner(&p, i);
	is_int(2, n_free(&p), "who are gone");
}

/* As many slots as an order ring might have entries, all of them unread, and
 * then the end: it takes no place that is still to be seen. */
static void test_close_full(void)
{
	struct ring p, c;
	uint32_t wrong = 0;

	make(RING_BROADCAST, RING_ORDER_MIN);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	for (uint32_t i = 0; i < RING_ORDER_MIN; i++)
		if (put(&p, i) < 0)
			bail("put %u: %s", i, tarn_fail_message());
	is_int(0, ring_close(&p), "a full one is closed");
	for (uint32_t i = 0; i < RING_ORDER_MIN; i++)
		wrong += get(&c) != (int)i;
	is_int(0, wrong, "all that was published is received");
	is_int(-EPIPE, get(&c), "and then the end");
}

/* Leaving while the reaper is at it: the place is the reaper's to free, or
 * another would join there and be swept along. */
static void test_leave_reaped(void)
{
	struct ring p, q;
	uint64_t mine;
	uint32_t slot;

	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	slot = acquire(&p);
	/* As the reaper marks it. */
	mine = member_word(MEMBER_LEAVING, RING_PRODUCER | 8,
		member_generation(p.word), 1);
	atomic_store(&p.members[p.me].word, mine);
	ring_leave(&p);
	q = join(RING_PRODUCER, 2);
	ok(q.me != 0, "the place is not given to another");
	is_int(1, n_free(&q), "nor the slot");
	is_int(1, ring_reap_owner(&q, 1), "but when it was reaped");
	is_int(2, n_free(&q), "the slot is free");
	p = join(RING_PRODUCER, 3);
	is_int(0, p.me, "and the place");
	is_int(-ESTALE, ring_abandon(&p, slot), "with nothing in it");
}

/* Who was taken for dead touches nothing of who has joined in its place, not
 * even the same slot. */
static void test_replaced(void)
{
	struct ring p, q;
	uint32_t slot;

	make(RING_QUEUE, 1);
	p = join(RING_PRODUCER, 1);
	slot = acquire(&p);
	ring_reap_owner(&p, 1);
	q = join(RING_PRODUCER, 2);
	is_int(p.me, q.me, "another has its place");
	is_int(slot, acquire(&q), "and its slot");
	is_int(-ESTALE, ring_abandon(&p, slot), "it does not abandon it");
	is_int(-ESTALE, ring_publish(&p, slot, &(struct ring_note) {0}),
		"nor publish it");
	ring_leave(&p);
	is_int(0, n_free(&q), "nor leave with it");
	is_int(0, ring_publish(&q, slot, &(struct ring_note) {0}),
		"who has it publishes it");
}

/* What a producer leaves at each stage of a publication. */
static void test_dead_producer(enum ring_mode mode)
{
	struct ring p, q, c;
	uint32_t slot;
	uint64_t at;

	make(mode, 2);
	p = join(RING_PRODUCER, 1);
	q = join(RING_PRODUCER, 2);
	c = join(RING_CONSUMER, 3);
	slot = acquire(&p);
	is_int(1, ring_reap_owner(&c, 1), "who was filling is reaped");
	is_int(0, ring_reap_owner(&c, 1), "once");
	is_int(2, n_free(&c), "its slot is free");
	is_int(-ESTALE,
		ring_publish(&p, slot, &(struct ring_note) {.bytes = 1}),
		"it cannot publish");
	is_int(-ESTALE, put(&p, 1), "nor acquire");
	/* Offered, and not placed. */
	p = join(RING_PRODUCER, 1);
	slot = acquire(&p);
	at = ring_end(&c);
	atomic_store(&c.slots[slot].word, slot_word(SLOT_OFFERED, p.me, at));
	is_int(-1, get(&c), "what was not placed is not published");
	is_int(1, ring_reap_owner(&c, 1), "it is reaped");
	is_int(2, n_free(&c), "its slot is free");
	put(&q, 3);
	put(&q, 4);
	is_int(3, get(&c), "its place was given to another");
	is_int(4, get(&c), "and all goes on");
	/* Offered, and placed, and then nothing. */
	p = join(RING_PRODUCER, 1);
	slot = acquire(&p);
	at = ring_end(&c);
	atomic_store(&c.slots[slot].word, slot_word(SLOT_OFFERED, p.me, at));
	atomic_store(ring_entry(&c, at), entry_word(at, p.me, slot));
	is_int(0, ring_reap_owner(&c, 1), "what was placed is not taken back");
	put(&q, 5);
	ok(get(&c) >= 0, "it is delivered");
	is_int(5, get(&c), "and what came after it");
	is_int(2, n_free(&c), "no slot is lost");
	/* The same, and it is its successor who is there to finish it. */
	p = join(RING_PRODUCER, 1);
	slot = acquire(&p);
	at = ring_end(&c);
	atomic_store(&c.slots[slot].word, slot_word(SLOT_OFFERED, p.me, at));
	atomic_store(ring_entry(&c, at), entry_word(at, p.me, slot));
	put(&q, 6);
	is_int(0, ring_reap_owner(&c, 1), "placed, finished by others");
	ok(get(&c) >= 0, "it is delivered");
	is_int(6, get(&c), "and what came after it");
	/* An entry that comes after its owner was reaped. */
	at = ring_end(&c);
	atomic_store(ring_entry(&c, at), entry_word(at, p.me, slot));
	put(&q, 7);
	is_int(7, get(&c), "a late entry is skipped");
	is_int(2, n_free(&c), "no slot is lost");
}

static void test_dead_consumer(void)
{
	struct ring p, c, d;
	struct ring_item item, two;
	uint64_t entry;

	make(RING_QUEUE, 4);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	d = join(RING_CONSUMER, 3);
	for (uint32_t i = 1; i <= 4; i++)
		put(&p, i);
	item = receive(&c);
	two = receive(&c);
	is_int(2, (int)two.note.tensors, "two are being read");
	is_int(2, ring_reap_owner(&p, 2), "the reader is reaped");
	is_int(-ESTALE, ring_release(&c, &item), "it cannot release");
	is_int(-ESTALE, get(&c), "nor receive");
	item = receive(&d);
	ok(item.redelivered && item.note.tensors == 1,
		"the oldest comes again, before what is newer");
	ring_leave(&d);
	d = join(RING_CONSUMER, 3);
	is_int(1, get(&d), "and again from one who left");
	is_int(2, get(&d), "then the next");
	item = receive(&d);
	ok(!item.redelivered && item.note.tensors == 3, "then new ones");
	ring_release(&d, &item);
	/* Received, head not moved on. */
	entry = atomic_load(&d.head->head);
	item = receive(&d);
	atomic_store(&d.head->head, entry);
	put(&p, 5);
	c = join(RING_CONSUMER, 2);
	is_int(5, get(&c), "what is taken is passed over");
	is_int(1, ring_reap_owner(&p, 3), "its reader is reaped");
	is_int(4, get(&c), "and it comes again");
	is_int(-1, get(&c), "once");
	is_int(4, n_free(&c), "no slot is lost");
	/* A reaper that died between returning an item and saying so. */
	put(&p, 6);
	item = receive(&c);
	atomic_store(&p.slots[item.slot].word,
		slot_word(SLOT_RETURNED, 0, item.position));
	d = join(RING_CONSUMER, 4);
	is_int(-1, get(&d), "nobody knows of it");
	ring_reap_owner(&p, 2);
	is_int(6, get(&d), "the next reaper says so");
}

static bool yes(void *arg)
{
	++*(int *)arg;
	return true;
}

/* Who was taken for dead, and runs on, while another has his place, and the
 * very slot and item: what he does late is not done to those. */
static void test_successor(void)
{
	struct ring old, new, p;
	struct ring_item item, again;
	struct ring_note note = {.bytes = 1};
	uint32_t slot;

	make(RING_QUEUE, 1);
	old = join(RING_PRODUCER, 1);
	slot = acquire(&old);
	ring_reap_owner(&old, 1);
	new = join(RING_PRODUCER, 2);
	is_int(0, new.me, "a producer in the place of one who was reaped");
	is_int((int)slot, (int)acquire(&new), "fills the same slot");
	is_int(-ESTALE, ring_publish(&old, slot, &note),
		"which the other does not publish");
	is_int(-ESTALE, ring_abandon(&old, slot), "nor abandon");
	is_int(0, ring_publish(&new, slot, &note), "it is the new one's");
	ring_leave(&new);
	old = join(RING_CONSUMER, 3);
	item = receive(&old);
	ring_reap_owner(&old, 3);
	new = join(RING_CONSUMER, 4);
	is_int(0, new.me, "a consumer in such a place");
	again = receive(&new);
	ok(again.slot == item.slot && again.position == item.position,
		"reads the same item");
	is_int(-ESTALE, ring_release(&old, &item),
		"which the other does not release");
	p = join(RING_PRODUCER, 5);
	is_int(0, ring_acquire(&p, &slot), "so nobody fills it meanwhile");
	is_int(0, ring_release(&new, &again), "it is the new one's");
}

static void test_wait(void)
{
	struct ring p, c;
	struct ring_wait soon = {0};
	struct ring_item item;
	struct timespec t;
	uint32_t slot;
	int asked = 0;

	make(RING_QUEUE, 1);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	clock_gettime(CLOCK_MONOTONIC, &t);
	soon.deadline_ns = (uint64_t)t.tv_sec * 1000000000u +
			   (uint64_t)t.tv_nsec + 20000000u;
	is_int(-ETIMEDOUT, ring_wait_receive(&c, &soon, &item), "no item");
	is_int(1, ring_wait_acquire(&p, &soon, &slot), "a slot at once");
	is_int(-ETIMEDOUT, ring_wait_acquire(&p, &soon, &slot), "no slot");
	soon.deadline_ns = UINT64_MAX;
	soon.interrupted = yes;
	soon.arg = &asked;
	is_int(-EINTR, ring_wait_receive(&c, &soon, &item), "interrupted");
	is_int(1, asked, "it was asked");
	ring_close(&p);
	is_int(-EPIPE, ring_wait_receive(&c, &soon, &item), "the end");
	is_int(-EPIPE, ring_wait_acquire(&p, &soon, &slot), "closed");
}

/* Any words: whatever comes out, it comes out, and stays in bounds. */
static void test_hostile(enum ring_mode mode)
{
	uint64_t seed = 88172645463325252ull, n_got = 0, n_bad = 0;

	for (int turn = 0; turn < 100; turn++) {
		struct ring p, c;
		struct ring_item item;
		struct ring_stat stat;
		uint32_t slot;

		make(mode, 8);
		p = join(RING_PRODUCER, 1);
		c = join(RING_CONSUMER, 2);
		put(&p, 1);
		for (int i = 0; i < 30; i++) {
			uint64_t *words = memory, at, r;

			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			at = 16 + seed % (size / 8 - 16);
			r = seed >> 32;
			if (r % 4 == 0) /* where it hurts */
				at = (uint64_t)((char *)p.slots -
						(char *)memory) /
					     8 +
				     seed % (8 * 16);
			if (r % 4 == 1)
				at = 16 * (1 + seed % 5);
			words[at] = r % 3 ? seed : words[at] + r % 7 - 3;
			if (ring_acquire(&p, &slot) == 1) {
				if (slot >= 8)
					bail("slot %u", slot);
				ring_publish(&p, slot,
					&(struct ring_note) {.bytes = 9});
			}
			switch (ring_receive(&c, &item)) {
			case 1:
				if (item.slot >= 8 || item.note.bytes > 4096 ||
					item.note.tag_size > RING_TAG_MAX)
					bail("item of slot %u", item.slot);
				n_got++;
				ring_release(&c, &item);
				break;
			case -EBADMSG:
				n_bad++;
				break;
			default:
				break;
			}
		}
		ring_stat(&c, &stat);
		ring_reap_owner(&c, 1);
		ring_reap(&c, c.me);
		ring_close(&c);
	}
	diag("%llu received, %llu refused", (unsigned long long)n_got,
		(unsigned long long)n_bad);
	ok(n_got > 0, "spoilt words end nobody");
}

/* Head or tail anywhere: bounded, and said. */
static void test_nonsense(void)
{
	struct ring p, c;
	struct ring_item item;
	uint32_t slot;

	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	atomic_store(&c.head->head, 1ull << 40);
	is_int(-EBADMSG, ring_receive(&c, &item), "a head far away");
	has_str("damaged", tarn_fail_message(), "it says so");
	atomic_store(&c.head->tail, 1ull << 41);
	slot = acquire(&p);
	is_int(-EBADMSG,
		ring_publish(&p, slot, &(struct ring_note) {.bytes = 1}),
		"a tail far away");
	is_int(-EBADMSG, ring_close(&p), "nor is it closed");
	make(RING_QUEUE, 2);
	p = join(RING_PRODUCER, 1);
	c = join(RING_CONSUMER, 2);
	put(&p, 1);
	for (int i = 0; i < 2; i++)
		c.slots[i].tag_size = 65;
	is_int(-EBADMSG, ring_receive(&c, &item), "a tag too long");
	is_int(2, n_free(&c), "its item is dropped");
}

int main(void)
{
	test_geometry();
	test_queue();
	test_close();
	test_broadcast();
	test_close_full();
	test_leave_reaped();
	test_replaced();
	test_dead_producer(RING_QUEUE);
	test_dead_producer(RING_BROADCAST);
	test_dead_consumer();
	test_successor();
	test_wait();
	test_hostile(RING_QUEUE);
	test_hostile(RING_BROADCAST);
	test_nonsense();
	free(memory);
	return done();
}
