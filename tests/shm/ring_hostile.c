/* SPDX-License-Identifier: MIT */
/*
 * A ring whose words a peer has spoilt: whatever comes out, it comes out, and
 * stays in bounds.
 */
#include <errno.h>
#include <stdatomic.h>

#include "base/fail.h"
#include "shm/ring_internal.h"
#include "tests/kit/ring.h"
#include "tests/kit/tap.h"

#define SLOTS 8

static uint64_t seed = 88172645463325252ull;
static uint64_t n_got, n_bad;

/* Some word behind the head's geometry, often one that matters. */
static void spoil(const struct ring *ring)
{
	uint64_t *words = kit_ring_memory, at, r;

	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	at = 16 + seed % (kit_ring_size / 8 - 16);
	r = seed >> 32;
	if (r % 4 == 0) /* where it hurts */
		at = (uint64_t)((char *)ring->slots - (char *)kit_ring_memory) /
			     8 +
		     seed % (SLOTS * 16);
	if (r % 4 == 1)
		at = 16 * (1 + seed % 5);
	words[at] = r % 3 ? seed : words[at] + r % 7 - 3;
}

static void publish_something(struct ring *ring)
{
	uint32_t slot;

	if (ring_acquire(ring, &slot) != 1)
		return;
	if (slot >= SLOTS)
		bail("slot %u", slot);
	ring_publish(ring, slot, &(struct ring_note) {.bytes = 9});
}

static void receive_something(struct ring *ring)
{
	struct ring_item item;
	int r = ring_receive(ring, &item);

	n_bad += r == -EBADMSG;
	if (r != 1)
		return;
	if (item.slot >= SLOTS || item.note.bytes > KIT_SLOT_BYTES ||
		item.note.tag_size > RING_TAG_MAX)
		bail("item of slot %u", item.slot);
	n_got++;
	ring_release(ring, &item);
}

static void test_hostile(enum ring_mode mode)
{
	n_got = n_bad = 0;
	for (int turn = 0; turn < 100; turn++) {
		struct ring p, c;

		kit_ring_make(mode, SLOTS);
		p = kit_ring_join(RING_PRODUCER, 1);
		c = kit_ring_join(RING_CONSUMER, 2);
		kit_ring_put(&p, 1);
		for (int i = 0; i < 30; i++) {
			spoil(&p);
			publish_something(&p);
			receive_something(&c);
		}
		kit_ring_stat(&c);
		ring_reap_owner(&c, 1);
		ring_reap(&c, c.me);
		ring_close(&c);
	}
	diag("%llu received, %llu refused", (unsigned long long)n_got,
		(unsigned long long)n_bad);
	ok(n_got > 0, "participants survive random words in the ring's memory");
}

/* Head or tail anywhere: bounded, and said. */
static void test_nonsense(void)
{
	struct ring p, c;
	struct ring_item item;
	uint32_t slot;

	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	atomic_store(&c.head->head, 1ull << 40);
	is_int(-EBADMSG, ring_receive(&c, &item),
		"a head far away is reported as damage");
	has_str("damaged", tarn_fail_message(), "the error contains 'damaged'");
	atomic_store(&c.head->tail, 1ull << 41);
	slot = kit_ring_acquire(&p);
	is_int(-EBADMSG,
		ring_publish(&p, slot, &(struct ring_note) {.bytes = 1}),
		"a tail far away is reported as damage");
	is_int(-EBADMSG, ring_close(&p), "a damaged ring cannot be closed");
	kit_ring_make(RING_QUEUE, 2);
	p = kit_ring_join(RING_PRODUCER, 1);
	c = kit_ring_join(RING_CONSUMER, 2);
	kit_ring_put(&p, 1);
	for (int i = 0; i < 2; i++)
		c.slots[i].tag_size = 65;
	is_int(-EBADMSG, ring_receive(&c, &item),
		"a tag with a wrong length is reported as damage");
	is_int(2, kit_ring_free(&c), "the item with the wrong tag is dropped");
}

int main(void)
{
	test_hostile(RING_QUEUE);
	test_hostile(RING_BROADCAST);
	test_nonsense();
	kit_ring_drop();
	return done(8);
}
