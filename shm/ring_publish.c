/* SPDX-License-Identifier: MIT */
/*
 * The producer's side of a ring: a filled slot gets the next position in the
 * order.
 *
 * The producer writes the position into the slot first, and then the slot into
 * the position's entry. So a participant that finds only the first knows that
 * the item is not published, and one that finds both knows that it is, even if
 * the producer is dead.
 */
#include <string.h>

#include "base/fail.h"
#include "shm/ring_internal.h"

int ring_stale(const struct ring *ring)
{
	if (ring->me >= RING_PARTICIPANTS)
		return tarn_fail(ESTALE, "ring: join it first");
	return tarn_fail(ESTALE,
		"ring: participant %u was taken for dead; join again",
		ring->me);
}

void ring_mark_closed(struct ring *ring)
{
	atomic_store(&ring->head->closed, 1);
}

static int closed(void)
{
	return tarn_fail(EPIPE, "it is closed");
}

static int not_ours(const struct ring *ring, uint32_t slot)
{
	return tarn_fail(ESTALE, "ring: slot %u is not held by participant %u",
		slot, ring->me);
}

/* Makes the slot FREE at c, and wakes one waiting producer. */
static void give_back(
	struct ring *ring, uint32_t slot, uint64_t word, uint64_t c)
{
	/* R1 */
	if (!ring_swap(
		    &ring->slots[slot].word, word, slot_word(SLOT_FREE, 0, c)))
		return;
	ring_count_freed(ring);
	ring_wake(&ring->head->space, false);
}

int ring_acquire(struct ring *ring, uint32_t *ret_slot)
{
	uint32_t n = ring->geometry.slots, slot = ring->hint;

	ring_fetch(&ring->slots[slot]);
	ring_fetch_beside(ring, slot, true);
	if (!ring_is_member(ring))
		return ring_stale(ring);
	if (atomic_load(&ring->head->closed))
		return closed();
	if (ring->in_vain && ring_is_still_full(ring))
		return 0;
	for (uint32_t i = 0; i < n; i++, slot++) {
		uint64_t word, mine;

		if (slot >= n)
			slot = 0;
		word = atomic_load(&ring->slots[slot].word); /* Q2 */
		if (ring->geometry.mode == RING_BROADCAST &&
			slot_state(word) == SLOT_OFFERED &&
			ring_free_seen(ring, slot, word))
			word = atomic_load(&ring->slots[slot].word);
		if (slot_state(word) != SLOT_FREE)
			continue;
		mine = slot_owned(ring, SLOT_FILLING, slot_position(word));
		/* T1; acquire: pairs with the swap that made it FREE, so that
		 * all reads of the bytes come before our writes. */
		if (!ring_swap(&ring->slots[slot].word, word, mine))
			continue;
		/* T2: pairs with M1 in ring_reap. */
		if (!ring_is_member(ring)) {
			give_back(ring, slot, mine, slot_position(mine));
			return ring_stale(ring);
		}
		if (ring->in_vain)
			ring_note_found(ring);
		if (ring->geometry.slot_bytes < RING_LARGE)
			ring->hint = slot + 1 < n ? slot + 1 : 0;
		*ret_slot = slot;
		return 1;
	}
	/* The last item may have no consumer, and its producer be slow to
	 * finish it; then the next look finds the slot free. */
	if (ring->geometry.mode == RING_BROADCAST) {
		uint64_t end;
		int r = ring_find_end(ring, &end);

		if (r < 0)
			return r;
	}
	ring_note_full(ring);
	return 0;
}

/*
 * The word of a slot that we fill; but not if another joined in our place since
 * we were taken for dead, and fills the very slot. The slot's word
 * distinguishes only the next few members of the place (T4), so our own word is
 * read (T3), and after the slot's: as long as it stands no other is in our
 * place.
 */
static bool filling(const struct ring *ring, uint32_t slot, uint64_t *ret)
{
	if (slot >= ring->geometry.slots)
		return false;
	*ret = atomic_load(&ring->slots[slot].word);
	return slot_is_owned(ring, SLOT_FILLING, *ret) && ring_is_member(ring);
}

int ring_abandon(struct ring *ring, uint32_t slot)
{
	uint64_t word;

	if (!filling(ring, slot, &word))
		return not_ours(ring, slot);
	give_back(ring, slot, word, slot_position(word));
	return 0;
}

/* May the entry of the lap before p be overwritten? head only rises, so the
 * value that we saw is good until it is not enough. */
static bool has_room(struct ring *ring, uint64_t p)
{
	if (position_past(p, ring->head_seen) < (int64_t)ring->order_size)
		return true;
	ring->head_seen = atomic_load(&ring->head->head);
	return position_past(p, ring->head_seen) < (int64_t)ring->order_size;
}

/* Where to look for the end: it is not before this. */
static uint64_t end_hint(const struct ring *ring)
{
	uint64_t tail = atomic_load(&ring->head->tail);

	return position_past(ring->end, tail) > 0 ? ring->end : tail;
}

/* We have placed at p, and began to look at hint. A producer that is alone
 * raises tail only now and then, which makes it cheap; with others it does at
 * once. */
static void placed(struct ring *ring, uint64_t p, uint64_t hint)
{
	ring->crowd_out = p != hint || p != ring->end;
	ring->end = position_add(p, 1);
	if (ring->crowd_out || p % RING_LAZY == 0)
		ring_raise(&ring->head->tail, ring->end);
}

/*
 * Is there room for position p, and what is in its entry? 1: the slot may be
 * placed there, 0: p was set to the next position to try, -EPIPE.
 */
static int look_at(struct ring *ring, uint64_t *p, uint64_t *ret_entry)
{
	struct ring_head *head = ring->head;
	uint64_t entry = atomic_load(ring_entry(ring, *p));

	if (entry_is(entry, *p)) {
		if (entry & ENTRY_CLOSED) {
			ring_mark_closed(ring);
			return -EPIPE;
		}
		ring_finish(ring, *p, entry);
		*p = position_add(*p, 1);
		ring_raise(&head->tail, *p);
		return 0;
	}
	if (!entry_is(entry, position_add(*p, -(int64_t)ring->order_size))) {
		/* A lap behind: we were delayed. */
		*p = atomic_load(&head->tail);
		return 0;
	}
	if (ring->geometry.mode == RING_QUEUE && !has_room(ring, *p)) {
		/* The item there was received, or a peer is hostile. */
		ring_skip_received(ring);
		return 0;
	}
	*ret_entry = entry;
	return 1;
}

int ring_find_end(struct ring *ring, uint64_t *ret)
{
	uint64_t p = atomic_load(&ring->head->tail), entry;

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		int r = look_at(ring, &p, &entry);

		if (r != 0) { /* the end, or the closing entry */
			*ret = p;
			return 0;
		}
	}
	return ring_nonsense(ring, "the search for its end");
}

/* Broadcast: a tag that old must not be taken for this one. */
static void forget_tag(struct ring_slot *s, uint64_t p)
{
	/* Relaxed: the slot is ours. */
	for (int i = 0; i < 2; i++)
		if (pending_is(atomic_load_explicit(
				       &s->pending[i], memory_order_relaxed),
			    p))
			atomic_store(&s->pending[i], pending_word(p - 1, 0));
}

/* Offers the slot at p, and at the next position if another producer is faster.
 * *word is the slot's word as we last wrote it. */
static int place(struct ring *ring, uint32_t slot, uint64_t *word)
{
	struct ring_slot *s = &ring->slots[slot];
	uint64_t p = end_hint(ring), hint = p, entry;
	uint64_t after = position_add(slot_position(*word), 1);

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		uint64_t offered;
		int r;

		if (position_past(after, p) > 0)
			p = after;
		r = look_at(ring, &p, &entry);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		offered = slot_word(SLOT_OFFERED, ring->me, p);
		if (ring->geometry.mode == RING_BROADCAST)
			forget_tag(s, p);
		/* N2: after all of the note: pairs with N3. */
		atomic_store_explicit(
			&s->note_position, p, memory_order_release);
		/* Release: pairs with the participant that receives it, or
		 * finishes it. */
		if (!ring_swap(&s->word, *word, offered))
			return -ESTALE;
		*word = offered;
		/* W1: now it is published. */
		if (ring_swap(ring_entry(ring, p), entry,
			    entry_word(p, ring->me, slot))) {
			if (ring->geometry.mode == RING_BROADCAST)
				ring_finish(
					ring, p, entry_word(p, ring->me, slot));
			placed(ring, p, hint);
			return 0;
		}
	}
	return ring_nonsense(ring, "the search for a place");
}

/* Writes the note of a slot that we fill. */
static void publish_note(struct ring_slot *s, const struct ring_note *note)
{
	uint64_t tag[RING_TAG_MAX / 8];
	uint32_t words = (note->tag_size + 7) / 8;

	if (words) {
		tag[words - 1] = 0;
		memcpy(tag, note->tag, note->tag_size);
	}
	/* N1: before each of the following: pairs with N4. */
	atomic_store_explicit(&s->note_position, 0, memory_order_relaxed);
	atomic_store_explicit(&s->bytes, note->bytes, memory_order_release);
	atomic_store_explicit(&s->tensors, note->tensors, memory_order_release);
	atomic_store_explicit(
		&s->tag_size, note->tag_size, memory_order_release);
	for (uint32_t i = 0; i < words; i++)
		atomic_store_explicit(&s->tag[i], tag[i], memory_order_release);
}

/* Relaxed: our own counts. */
static void count(struct ring *ring, uint64_t bytes)
{
	struct ring_member *m = &ring->members[ring->me];

	atomic_store_explicit(&m->published,
		atomic_load_explicit(&m->published, memory_order_relaxed) + 1,
		memory_order_relaxed);
	atomic_store_explicit(&m->bytes,
		atomic_load_explicit(&m->bytes, memory_order_relaxed) + bytes,
		memory_order_relaxed);
}

int ring_publish(struct ring *ring, uint32_t slot, const struct ring_note *note)
{
	uint64_t word, c;
	int r;

	/* First of all, so that it is ours when the slot is offered: the line
	 * comes from a participant that polls it, the farthest any line can
	 * come from. */
	ring_fetch(ring_entry(ring, ring->end));
	if (!filling(ring, slot, &word))
		return not_ours(ring, slot);
	c = slot_position(word);
	if (note->tag_size > RING_TAG_MAX ||
		note->bytes > ring->geometry.slot_bytes) {
		give_back(ring, slot, word, c);
		return tarn_fail(EINVAL,
			"ring: %llu bytes with a tag of %u, where a slot has "
			"%llu and a tag at most %u",
			(unsigned long long)note->bytes, note->tag_size,
			(unsigned long long)ring->geometry.slot_bytes,
			RING_TAG_MAX);
	}
	publish_note(&ring->slots[slot], note);
	r = place(ring, slot, &word);
	if (r == -ESTALE)
		return ring_stale(ring);
	if (r < 0) {
		give_back(ring, slot, word, c);
		return r == -EPIPE ? closed() : r;
	}
	count(ring, note->bytes);
	/* W2: pairs with S1 in ring_wait.c */
	ring_wake(&ring->head->items, ring->geometry.mode == RING_BROADCAST);
	/* Where we shall look next: the line is in the cache of the participant
	 * that released it. */
	ring_fetch(&ring->slots[ring->hint]);
	ring_fetch_beside(ring, ring->hint, true);
	return 0;
}

void ring_finish_close(struct ring *ring)
{
	uint64_t end;

	/* ring_find_end marks it as closed when it finds the entry. */
	if (ring_find_end(ring, &end) < 0 || !atomic_load(&ring->head->closed))
		return;
	/* The participant that closed it may have taken the sleepers' bits, and
	 * died before it woke them. */
	ring_wake_everybody(ring);
}

int ring_close(struct ring *ring)
{
	uint64_t p = atomic_load(&ring->head->tail), entry;

	for (uint64_t i = 0; i < ring_steps(ring); i++) {
		int r = look_at(ring, &p, &entry);

		if (r > 0 && ring_swap(ring_entry(ring, p), entry,
				     entry_word(p, 0, 0) | ENTRY_CLOSED))
			r = -EPIPE;
		if (r < 0) {
			ring_mark_closed(ring);
			ring_wake_everybody(ring);
			return 0;
		}
	}
	return ring_nonsense(ring, "the search for its end");
}
