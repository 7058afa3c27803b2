/* SPDX-License-Identifier: MIT */
/*
 * The consumer's side of a ring.
 *
 * Queue: taking the slot is the decisive step, and head only follows; so a
 * consumer that finds a slot taken moves head on, and one that dies in between
 * has delayed no other. In a broadcast each consumer moves on independently.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/ring_internal.h"

static int ended(void)
{
	return tarn_fail(EPIPE, "it is closed, and no item is left");
}

/* Our own count, relaxed. */
static void count(struct ring *ring)
{
	_Atomic uint64_t *n = &ring->members[ring->me].received;

	atomic_store_explicit(n,
		atomic_load_explicit(n, memory_order_relaxed) + 1,
		memory_order_relaxed);
}

int ring_read_note(
	const struct ring *ring, uint32_t slot, struct ring_note *ret)
{
	struct ring_slot *s = &ring->slots[slot];
	/* Read once: a hostile peer may go on writing. Acquire: pairs with the
	 * releases in publish_note(), for watchers; other callers own the
	 * slot. */
	uint64_t bytes = atomic_load_explicit(&s->bytes, memory_order_acquire);
	uint32_t tag_size =
		atomic_load_explicit(&s->tag_size, memory_order_acquire);
	uint64_t tag[RING_TAG_MAX / 8];

	if (tag_size > RING_TAG_MAX || bytes > ring->geometry.slot_bytes)
		return tarn_fail(EBADMSG,
			"ring: slot %u claims %llu bytes with a tag of %u, "
			"where it has %llu and a tag at most %u",
			slot, (unsigned long long)bytes, tag_size,
			(unsigned long long)ring->geometry.slot_bytes,
			RING_TAG_MAX);
	ret->bytes = bytes;
	ret->tag_size = tag_size;
	/* Acquire, here and below: pairs with publish_note(), too. */
	ret->tensors = atomic_load_explicit(&s->tensors, memory_order_acquire);
	if (!tag_size)
		return 0;
	for (uint32_t i = 0; i < (tag_size + 7) / 8; i++)
		tag[i] = atomic_load_explicit(&s->tag[i], memory_order_acquire);
	memcpy(ret->tag, tag, tag_size);
	return 0;
}

/* The item that we have just taken; it is dropped if it is inconsistent. */
static int got(struct ring *ring, uint32_t slot, uint64_t position,
	bool redelivered, struct ring_item *ret)
{
	int r;

	ret->slot = slot;
	ret->position = position;
	ret->redelivered = redelivered;
	r = ring_read_note(ring, slot, &ret->note);
	if (r < 0) {
		ring_release(ring, ret);
		return r;
	}
	count(ring);
	return 1;
}

/* ---- the queue ----------------------------------------------------- */

void ring_count_returned(struct ring *ring)
{
	_Atomic uint64_t *returned = &ring->head->returned;
	uint64_t now = atomic_load(returned);

	/* Each failure is a consumer that clears the bit, or another that
	 * reports its own returned items. */
	for (uint64_t i = 0; i < ring_steps(ring); i++)
		if (atomic_compare_exchange_strong(
			    returned, &now, (now | 1) + 2))
			return;
}

/* Takes the slot. */
static bool take(struct ring *ring, uint32_t slot, uint64_t word)
{
	/* T1; acquire: pairs with the release in ring_publish, passed on by the
	 * reaper if it was returned. */
	return ring_swap(&ring->slots[slot].word, word,
		slot_owned(ring, SLOT_READING, slot_position(word)));
}

/* T2: pairs with M1 in ring_reap. */
static int check_taken(struct ring *ring, uint32_t slot, uint64_t position)
{
	if (ring_is_member(ring))
		return 0;
	if (ring_swap(&ring->slots[slot].word,
		    slot_owned(ring, SLOT_READING, position),
		    slot_word(SLOT_RETURNED, 0, position))) {
		ring_count_returned(ring);
		ring_wake(&ring->head->items, false);
	}
	return ring_stale(ring);
}

/* Takes the oldest returned item; 0: there is none. */
static int take_returned(struct ring *ring, struct ring_item *ret)
{
	uint64_t hint = atomic_load(&ring->head->returned);

	for (uint64_t i = 0; hint & 1 && i < ring_steps(ring); i++) {
		uint64_t best = 0;
		uint32_t at = 0;

		for (uint32_t j = 0; j < ring->geometry.slots; j++) {
			uint64_t w = atomic_load(&ring->slots[j].word);

			if (slot_state(w) != SLOT_RETURNED)
				continue;
			if (best && position_past(slot_position(w),
					    slot_position(best)) > 0)
				continue;
			best = w;
			at = j;
		}
		if (!best) {
			/* Unless an item was returned since we looked. */
			atomic_compare_exchange_strong(
				&ring->head->returned, &hint, hint & ~1ull);
			return 0;
		}
		if (take(ring, at, best)) {
			int r = check_taken(ring, at, slot_position(best));

			return r < 0 ? r
				     : got(ring, at, slot_position(best), true,
					       ret);
		}
	}
	return 0;
}

bool ring_offers(const struct ring *ring, uint64_t position, uint64_t entry,
	uint64_t *ret_word)
{
	uint32_t slot = entry_slot(entry);

	if (slot >= ring->geometry.slots)
		return false;
	*ret_word = slot_word(SLOT_OFFERED, entry_owner(entry), position);
	return atomic_load(&ring->slots[slot].word) == *ret_word;
}

void ring_skip_received(struct ring *ring)
{
	uint64_t h = atomic_load(&ring->head->head), word;

	for (int i = 0; i < 64; i++) { /* a caller may call again */
		uint64_t entry = atomic_load(ring_entry(ring, h));

		if (!entry_is(entry, h) || entry & ENTRY_CLOSED ||
			ring_offers(ring, h, entry, &word))
			break;
		h = position_add(h, 1);
		ring_raise(&ring->head->head, h);
	}
}

/* We have taken the item at p, and began to look at hint: as placed(). */
static void taken(struct ring *ring, uint64_t p, uint64_t hint)
{
	ring->crowd_in = p != hint || p != ring->cursor;
	ring->cursor = position_add(p, 1);
	if (ring->crowd_in || p % RING_LAZY == 0)
		ring_raise(&ring->head->head, ring->cursor);
}

static uint64_t head_hint(const struct ring *ring)
{
	uint64_t head = atomic_load(&ring->head->head);

	return position_past(ring->cursor, head) > 0 ? ring->cursor : head;
}

/* Takes the item of this entry. If other consumers are likely to have taken it,
 * it is cheaper to look first, otherwise not to. */
static bool take_placed(struct ring *ring, uint64_t position, uint64_t entry)
{
	uint64_t word = slot_word(SLOT_OFFERED, entry_owner(entry), position);

	if (entry_slot(entry) >= ring->geometry.slots)
		return false;
	/* Fetched while we take the slot. */
	ring_fetch_beside(ring, entry_slot(entry), false);
	if (ring->crowd_in && !ring_offers(ring, position, entry, &word))
		return false;
	return take(ring, entry_slot(entry), word);
}

static int receive_queue(struct ring *ring, struct ring_item *ret)
{
	uint64_t h = head_hint(ring), hint = h, entry;
	int r;

	if (atomic_load(&ring->head->returned) & 1) {
		r = take_returned(ring, ret);
		if (r != 0)
			return r;
	}
	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		entry = atomic_load(ring_entry(ring, h)); /* S2 */
		if (!entry_is(entry, h)) {
			if (entry_is(
				    entry, position_add(h,
						   -(int64_t)ring->order_size)))
				return 0;
			h = head_hint(ring); /* a lap behind: we were delayed */
			continue;
		}
		if (entry & ENTRY_CLOSED) {
			ring_mark_closed(ring);
			return ended();
		}
		if (take_placed(ring, h, entry)) {
			taken(ring, h, hint);
			r = check_taken(ring, entry_slot(entry), h);
			return r < 0 ? r
				     : got(ring, entry_slot(entry), h, false,
					       ret);
		}
		h = position_add(h, 1);
		ring_raise(&ring->head->head, h);
	}
	return ring_nonsense(ring, "the search for an item");
}

/* ---- broadcast --------------------------------------------------- */

int ring_receive_broadcast(struct ring *ring, uint32_t *ret_slot)
{
	int half = ring->me >= 32;
	uint32_t bit = 1u << (ring->me & 31);

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		uint64_t p = ring->cursor, entry, word, pending;
		uint32_t slot;

		entry = atomic_load(ring_entry(ring, p)); /* S2 */
		if (!entry_is(entry, p)) {
			uint64_t n = ring->order_size, oldest;

			if (entry_is(entry, position_add(p, -(int64_t)n)))
				return 0;
			/* No item of that lap was for us. */
			oldest = position_add(
				atomic_load(&ring->head->tail), -(int64_t)n);
			if (position_past(oldest, p) <= 0)
				oldest = position_add(p, 1);
			ring->cursor = oldest;
			continue;
		}
		if (entry & ENTRY_CLOSED) {
			ring_mark_closed(ring);
			return ended();
		}
		ring_finish(ring, p, entry);
		slot = entry_slot(entry);
		if (slot < ring->geometry.slots) {
			ring_fetch_beside(ring, slot, false);
			word = slot_word(SLOT_OFFERED, entry_owner(entry), p);
			/* Acquire: pairs with B1, which came after the release
			 * in ring_publish. Our bit keeps the slot as it is. */
			pending = atomic_load(&ring->slots[slot].pending[half]);
			if (pending_is(pending, p) && (uint32_t)pending & bit &&
				atomic_load(&ring->slots[slot].word) == word) {
				*ret_slot = slot;
				return 1;
			}
		}
		ring->cursor = position_add(p, 1);
	}
	return ring_nonsense(ring, "the search for an item");
}

static int receive_broadcast(struct ring *ring, struct ring_item *ret)
{
	uint64_t p;
	uint32_t slot;
	int r;

	if (!(member_kinds(ring->word) & RING_CONSUMER))
		return tarn_fail(EINVAL,
			"ring: participant %u of a broadcast did not join as "
			"a consumer",
			ring->me);
	if (ring->quiet)
		return ended();
	r = ring_receive_broadcast(ring, &slot);
	if (r != 1)
		return r;
	p = ring->cursor;
	ring->cursor = position_add(p, 1);
	return got(ring, slot, p, false, ret);
}

int ring_receive(struct ring *ring, struct ring_item *ret)
{
	if (!ring_is_member(ring))
		return ring_stale(ring);
	if (ring->geometry.mode == RING_QUEUE)
		return receive_queue(ring, ret);
	return receive_broadcast(ring, ret);
}

static int not_read(const struct ring *ring, uint32_t slot)
{
	return tarn_fail(ESTALE, "ring: slot %u is not read by participant %u",
		slot, ring->me);
}

int ring_release(struct ring *ring, const struct ring_item *item)
{
	uint32_t slot = item->slot, bit = 1u << (ring->me & 31);
	uint64_t p = item->position, word, pending;

	if (slot >= ring->geometry.slots || ring->me >= RING_PARTICIPANTS)
		return tarn_fail(EINVAL, "ring: there is no slot %u", slot);
	if (ring->geometry.mode == RING_BROADCAST) {
		word = atomic_load(&ring->slots[slot].word);
		pending = atomic_load(
			&ring->slots[slot].pending[ring->me / 32 & 1]);
		if (ring->me >= RING_BROADCAST_CONSUMERS ||
			slot_position(word) != p || !pending_is(pending, p) ||
			!(pending & bit))
			return not_read(ring, slot);
		ring_seen(ring, slot, word, ring->me);
		return 0;
	}
	/* Our word is checked so that this is not the slot that a successor in
	 * our place reads (T3, T4). Release: pairs with ring_acquire; W1,
	 * R1. */
	if (!ring_is_member(ring) || !ring_swap(&ring->slots[slot].word,
					     slot_owned(ring, SLOT_READING, p),
					     slot_word(SLOT_FREE, 0, p)))
		return not_read(ring, slot);
	ring_count_freed(ring);
	ring_wake(&ring->head->space, false); /* W2 */
	return 0;
}
