/* SPDX-License-Identifier: MIT */
/*
 * A slot that is being filled.
 *
 * The producer writes bytes and records where the consumer reads them, so
 * publishing is only the ring's step. A slot is a storage, so tensors in it are
 * tensors like any other, and may be dropped after it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/channel/channel.h"
#include "lib/layout/layout.h"

#define ALIGNMENT 64u /* of tensors: a cache line */

/* ---- acquiring --------------------------------------------------- */

/* The last tensor over it was dropped after it had ended. */
static void slot_release(void *arg)
{
	tarn_slot *slot = arg;

	channel_release(slot->channel);
	free(slot);
}

static tarn_slot *new_slot(tarn_channel *channel)
{
	tarn_slot *slot = malloc(sizeof(*slot));

	if (!slot)
		return NULL;
	slot->channel = channel;
	tarn_storage_init(&slot->storage, TARN_STORAGE_SHARED, NULL,
		channel->map.geometry.ring.slot_bytes, true, slot_release,
		slot);
	slot->storage.part = true;
	slot->first_size = 0;
	return slot;
}

static void enlist(struct side *side, tarn_slot *slot)
{
	slot->next = side->slots;
	slot->previous = &side->slots;
	if (slot->next)
		slot->next->previous = &slot->next;
	side->slots = slot;
}

static void delist(tarn_slot *slot)
{
	*slot->previous = slot->next;
	if (slot->next)
		slot->next->previous = slot->previous;
}

struct acquirer {
	tarn_channel *channel;
	tarn_slot *slot;
};

/* Two references: the caller's, and that of first. With the lock, and before it
 * is listed: leaving the channel makes it read-only, for good. */
static void begin(tarn_slot *slot)
{
	const struct channel_map *map = &slot->channel->map;

	slot->holds = false;
	slot->attached = false;
	slot->used = 0;
	slot->note.tensors = 0;
	slot->note.tag_size = 0;
	slot->storage.data = map->bytes + slot->slot * slot->storage.size;
	/* No other thread has it yet. */
	atomic_init(&slot->storage.writable, true);
	atomic_init(&slot->storage.refs, 2);
}

/* With the lock. Memory first: an acquired slot must be handed on. */
static int look_for_slot(struct member *member, void *arg)
{
	struct acquirer *acquirer = arg;
	struct side *side = &acquirer->channel->producer;
	tarn_slot *slot = cache_top(side);
	int r;

	if (!slot) {
		slot = new_slot(acquirer->channel);
		if (!slot)
			return tarn_fail(ENOMEM, "out of memory");
		cache_add(side, slot);
	}
	r = ring_acquire(&member->ring, &slot->slot);
	if (r != 1)
		return r;
	cache_take(side);
	member_take(member);
	slot->member = member;
	begin(slot);
	enlist(side, slot);
	acquirer->slot = slot;
	return 1;
}

int tarn_channel_acquire(tarn_channel *channel, int timeout_ms, tarn_slot **ret)
{
	struct acquirer acquirer = {.channel = channel};
	int r = side_wait(channel, &channel->producer, timeout_ms,
		look_for_slot, &acquirer, "no slot was free");

	if (r < 0)
		return r;
	item_leases_clear(channel, acquirer.slot->slot);
	*ret = acquirer.slot;
	return 0;
}

/* ---- filling ----------------------------------------------------- */

static uint32_t count_of(const tarn_slot *slot)
{
	return slot->note.tensors;
}

static int check_ours(const tarn_slot *slot)
{
	if (!slot->member)
		return tarn_fail(EINVAL, "a slot that has ended");
	if (!member_is_ours(slot->channel, slot->member))
		return tarn_fail(ESTALE,
			"a slot of before the fork, which is the parent's");
	return 0;
}

/* May the caller still fill it? A participant that left has given it away, and
 * another may have it, whose records would be overwritten. */
static int check_filling(const tarn_slot *slot)
{
	int r = check_ours(slot);

	/* Relaxed: for a caller that tests while another thread leaves, either
	 * answer is correct. */
	if (r >= 0 && !atomic_load_explicit(
			      &slot->storage.writable, memory_order_relaxed))
		return tarn_fail(ESTALE,
			"a slot that was abandoned when the channel was left; "
			"acquire another");
	return r;
}

/* May there be one more tensor? */
static int check_room(const tarn_slot *slot)
{
	uint32_t most = slot->channel->map.geometry.tensors;
	int r = check_filling(slot);

	if (r >= 0 && count_of(slot) == most)
		r = tarn_fail(E2BIG,
			"the item has %u tensors, the most that the channel "
			"was made for",
			most);
	return r;
}

/* Writes the next record, of a tensor in this slot. */
static void add_record(tarn_slot *slot, uint64_t base,
	const struct tarn_layout *layout, bool c_order)
{
	record_put_in_slot(slot->channel, slot->slot, count_of(slot), base,
		layout, c_order);
	slot->note.tensors++;
}

/* The first needs no allocation: nearly every slot has one tensor. */
static int new_tensor(tarn_slot *slot, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	if (slot->attached)
		return tarn_tensor_new_checked(
			&slot->storage, base, layout, ret);
	slot->attached = true;
	tensor_lodge(&slot->first, &slot->storage, base, layout);
	*ret = &slot->first;
	return 0;
}

/* Where the next tensor begins; at most the slot's size, which is a multiple of
 * it. */
static uint64_t next_place(const tarn_slot *slot)
{
	return (slot->used + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

uint64_t tarn_slot_room(const tarn_slot *slot)
{
	return slot->storage.size - next_place(slot);
}

static int place_empty(tarn_slot *slot, const struct tarn_layout *layout,
	uint64_t size, tarn_tensor **ret)
{
	uint64_t base = next_place(slot);
	int r;

	if (size > tarn_slot_room(slot))
		return tarn_fail(ENOSPC,
			"a tensor of %llu bytes, and %llu of the slot's %llu "
			"are left",
			(unsigned long long)size,
			(unsigned long long)tarn_slot_room(slot),
			(unsigned long long)slot->storage.size);
	r = slot->channel->mapped
		    ? channel_map_slot(slot->channel, slot->slot, base + size)
		    : 0;
	if (r >= 0)
		r = new_tensor(slot, base, layout, ret);
	if (r < 0)
		return r;
	add_record(slot, base, layout, true);
	slot->used = base + size;
	return 0;
}

/* *size: as layout_stands(), before and after. */
static int make_layout(int dtype, int ndim, const int64_t *shape,
	struct tarn_layout *layout, uint64_t *size)
{
	int r;

	if (layout_stands(layout, *size, dtype, ndim, shape))
		return 0;
	*size = 0;
	if (layout_write_contiguous(dtype, ndim, shape, layout, size))
		return 0;
	r = layout_contiguous("empty", dtype, ndim, shape, layout);
	if (r >= 0)
		*size = (uint64_t)tarn_layout_nbytes(layout);
	return r;
}

int tarn_slot_new_tensor(tarn_slot *slot, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, tarn_tensor **ret)
{
	struct tarn_layout more;
	/* Made in its final place. */
	struct tarn_layout *layout =
		slot->attached ? &more : &slot->first.layout;
	uint64_t none = 0, *size = slot->attached ? &none : &slot->first_size;
	int r = check_room(slot);

	if (r >= 0)
		r = make_layout(dtype, ndim, shape, layout, size);
	if (r >= 0)
		r = place_empty(slot, layout, *size, ret);
	return r < 0 ? channel_fail(slot->channel, r) : 0;
}

/* For a tensor of the store: can other members of the channel find it? */
static int check_place(
	const tarn_slot *slot, const struct shared_storage *shared)
{
	const tarn_store *store = slot->channel->store;

	if (!shared)
		return tarn_fail(ENOTSUP,
			"a tensor that is not in the store's memory; publish "
			"it first, or copy it into the slot");
	if (shared->store->instance != store->instance ||
		shared->store->table.header->domain !=
			store->table.header->domain)
		return tarn_fail(ENOTSUP,
			"a tensor of another pool than the channel's, whose "
			"consumers may not see it; copy it into the slot");
	return 0;
}

static int add_kept(tarn_slot *slot, tarn_tensor *tensor)
{
	const struct shared_storage *shared = store_storage_of(tensor->storage);
	struct tarn_descriptor d;
	int r = check_place(slot, shared);

	if (r >= 0)
		r = tarn_store_export(slot->channel->store, tensor, &d);
	if (r >= 0)
		r = item_leases_install(slot->channel, slot->slot,
			count_of(slot), shared->index, shared->generation);
	if (r < 0)
		return r;
	record_put(slot->channel, slot->slot, count_of(slot), &d);
	slot->note.tensors++;
	slot->holds = true;
	return 0;
}

int tarn_slot_add(tarn_slot *slot, tarn_tensor *tensor)
{
	int r = check_room(slot);

	if (r >= 0 && tensor->storage == &slot->storage)
		add_record(slot, tensor->base, &tensor->layout, false);
	else if (r >= 0)
		r = add_kept(slot, tensor);
	return r < 0 ? channel_fail(slot->channel, r) : 0;
}

static int set_layout(
	tarn_slot *slot, size_t i, const struct tarn_layout *layout)
{
	_cleanup_tensor_ tarn_tensor *checked = NULL;
	struct tarn_layout before;
	struct tarn_descriptor d;
	uint64_t base, known = 0;
	int r;

	if (i >= count_of(slot))
		return tarn_fail(ERANGE, "tensor %zu of %u", i, count_of(slot));
	/* Other participants may write the record; the tensor stays in the
	 * slot. */
	r = record_get(slot->channel, slot->slot, (uint32_t)i, &d, &base,
		&before, &known);
	if (r == 0)
		return tarn_fail(EINVAL,
			"tensor %zu is not in the slot: add the view itself",
			i);
	if (r > 0)
		r = tarn_tensor_new(&slot->storage, base, layout, &checked);
	if (r < 0)
		return r;
	record_put_in_slot(
		slot->channel, slot->slot, (uint32_t)i, base, layout, false);
	return 0;
}

int tarn_slot_set_layout(
	tarn_slot *slot, size_t i, const struct tarn_layout *layout)
{
	int r = check_filling(slot);

	if (r >= 0)
		r = set_layout(slot, i, layout);
	return r < 0 ? channel_fail(slot->channel, r) : 0;
}

int tarn_slot_set_tag(tarn_slot *slot, const void *tag, size_t size)
{
	if (size > TARN_CHANNEL_TAG_MAX)
		return channel_fail(slot->channel,
			tarn_fail(EMSGSIZE,
				"a tag of %zu bytes, %u is the most", size,
				TARN_CHANNEL_TAG_MAX));
	if (size)
		memcpy(slot->note.tag, tag, size);
	slot->note.tag_size = (uint32_t)size;
	return 0;
}

/* ---- ending ------------------------------------------------------ */

static int give_away(tarn_slot *slot, struct member *member, bool publish)
{
	struct ring_note *note = &slot->note;
	int r = check_ours(slot);

	if (r < 0)
		return r;
	if (!publish)
		return ring_abandon(&member->ring, slot->slot);
	note->bytes = slot->used;
	if (slot->holds)
		note->tensors |= CHANNEL_NOTE_HOLDS;
	return ring_publish(&member->ring, slot->slot, note);
}

/* Is there no consumer that will give the slot back? An item of a broadcast may
 * have had no consumer, or all may have left by now: then the producer has
 * freed the slot, or a participant that looked for one. */
static bool is_ours_to_look(
	const tarn_channel *channel, uint32_t slot, bool published)
{
	return !published ||
	       (channel->map.geometry.ring.mode == RING_BROADCAST &&
		       channel_went_by(&channel->map, slot));
}

/* Work for after the lock; all of it is rare. */
struct aftermath {
	int r;
	bool alone; /* there are no tensors over it */
	bool gone;
	bool freed;          /* this thread must free its handle */
	bool holds;          /* a reference to the channel */
	uint32_t slot, look; /* at this many held words */
};

static unsigned references(const tarn_slot *slot)
{
	return slot->attached ? 1 : 2;
}

/* With the lock, of a slot that has a member. */
static void end_locked(tarn_slot *slot, bool publish, struct aftermath *after)
{
	tarn_channel *channel = slot->channel;
	struct side *side = &channel->producer;
	struct member *member = slot->member;
	bool ours = member_is_ours(channel, member);

	after->slot = slot->slot;
	after->look = ours && slot->holds ? count_of(slot) : 0;
	after->r = give_away(slot, member, publish);
	if (ours)
		delist(slot);
	slot->member = NULL;
	/* Acquire: pairs with the release of the thread that dropped the last
	 * one. */
	after->alone = atomic_load_explicit(&slot->storage.refs,
			       memory_order_acquire) == references(slot);
	/* Up to here the member's reference was enough, and it still is for
	 * threads that wait for the lock. */
	after->holds = !after->alone || after->r < 0 || after->look ||
		       member != side->member;
	if (after->holds)
		channel_hold(channel);
	after->gone = member_give(channel, member);
	after->freed = after->alone && !cache_put(side, slot);
}

/* With a reference to the channel, which tensors keep. */
static void end_late(tarn_slot *slot, tarn_channel *channel, bool publish,
	const struct aftermath *after)
{
	if (after->look &&
		is_ours_to_look(channel, after->slot, publish && after->r >= 0))
		item_leases_left(channel, after->slot, after->look);
	if (after->gone)
		channel_leave_async(channel);
	if (after->r < 0)
		channel_fail(channel, after->r);
	if (after->alone)
		channel_release(channel);
	else if (storage_drop(&slot->storage, references(slot)))
		slot_release(slot);
}

static int end(tarn_slot *slot, bool publish)
{
	tarn_channel *channel = slot->channel;
	struct aftermath after;

	if (!slot->member)
		return tarn_fail(EINVAL, "a slot that has ended already");
	/* Relaxed: for a caller that tests at this moment, either answer is
	 * correct. */
	atomic_store_explicit(
		&slot->storage.writable, false, memory_order_relaxed);
	adaptive_lock_take(&channel->producer.lock);
	end_locked(slot, publish, &after);
	adaptive_lock_give(&channel->producer.lock);
	if (after.holds)
		end_late(slot, channel, publish, &after);
	if (after.freed)
		free(slot);
	return after.r;
}

int tarn_slot_publish(tarn_slot *slot)
{
	return end(slot, true);
}

tarn_slot *tarn_slot_abandon(tarn_slot *slot)
{
	if (slot)
		end(slot, false);
	return NULL;
}
