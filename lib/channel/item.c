/* SPDX-License-Identifier: MIT */
/*
 * A received item.
 *
 * The item is the storage of the tensors in its slot, and the caller's handle
 * is one reference to that; so the slot is given back with the last tensor over
 * it, in whatever order the references are dropped. The producer's record of a
 * tensor is read when the caller asks for the tensor, each time into a private
 * copy.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/channel/channel.h"
#include "lib/store/cow_map.h"

static uint32_t count_of(const tarn_item *item)
{
	return item->item.note.tensors & CHANNEL_NOTE_TENSORS;
}

/* ---- giving back ------------------------------------------------- */

/* Does the caller need a reference to the channel after the lock? If not, the
 * member's reference is enough, also for threads that wait for the lock. */
static bool is_late(const tarn_item *item, bool ours)
{
	return (ours && item->item.note.tensors & CHANNEL_NOTE_HOLDS) ||
	       item->member != item->channel->consumer.member;
}

static void item_release(void *arg)
{
	tarn_item *item = arg;
	tarn_channel *channel = item->channel;
	struct side *side = &channel->consumer;
	uint32_t slot = item->item.slot, tensors = item->item.note.tensors;
	bool ours, gone, late, cached;

	/* Before another item can be in that slot, and have written pages. */
	storage_drop_guard(&item->storage);
	adaptive_lock_take(&side->lock);
	ours = member_is_ours(channel, item->member);
	/* It fails if we were taken for dead: then the slot belongs to
	 * another. */
	if (ours)
		ring_release(&item->member->ring, &item->item);
	late = is_late(item, ours);
	if (late)
		channel_hold(channel);
	gone = member_give(channel, item->member);
	cached = cache_put(side, item);
	adaptive_lock_give(&side->lock);
	if (!cached)
		free(item);
	if (!late)
		return;
	if (ours && tensors & CHANNEL_NOTE_HOLDS)
		item_leases_left(channel, slot, tensors & CHANNEL_NOTE_TENSORS);
	if (gone)
		channel_leave_async(channel);
	channel_release(channel);
}

tarn_item *tarn_item_ref(tarn_item *item)
{
	/* Relaxed: the caller holds a reference. */
	if (item)
		atomic_fetch_add_explicit(
			&item->handles, 1, memory_order_relaxed);
	return item;
}

/* References that no tensor has. Relaxed: one that has just been asked for may
 * count or not. */
static unsigned claims(const tarn_item *item)
{
	return atomic_load_explicit(&item->attached, memory_order_relaxed) ? 1
									   : 2;
}

tarn_item *tarn_item_unref(tarn_item *item)
{
	/* Release pairs with the acquire half in the thread that is last, which
	 * then sees the final value of attached. */
	if (!item || atomic_fetch_sub_explicit(
			     &item->handles, 1, memory_order_acq_rel) != 1)
		return NULL;
	if (storage_drop(&item->storage, claims(item)))
		item_release(item);
	return NULL;
}

/* ---- receiving --------------------------------------------------- */

static int item_map_cow(
	const tarn_storage *storage, struct cow_map *map, void **ret)
{
	const tarn_item *item = (const tarn_item *)storage;

	return channel_map_cow(item->channel, item->item.slot, map, ret);
}

/* Writes to the slot's twin must be gone when the slot has another item. */
static void item_drop_guard(struct storage_guard *guard, tarn_storage *storage)
{
	cow_map_reset(guard->data, storage->size);
}

static int item_make_guard(tarn_storage *storage, struct storage_guard **ret)
{
	tarn_item *item = (tarn_item *)storage;
	void *data;
	int r = channel_map_twin(item->channel, item->item.slot, &data);

	if (r < 0)
		return r;
	/* Relaxed: another thread that is here stores the same value, and the
	 * exchange of guard.c orders it for later threads. */
	atomic_store_explicit(&item->guard.data, data, memory_order_relaxed);
	*ret = &item->guard;
	return 0;
}

static tarn_item *new_item(tarn_channel *channel)
{
	tarn_item *item = malloc(sizeof(*item));

	if (!item)
		return NULL;
	item->channel = channel;
	tarn_storage_init(&item->storage, TARN_STORAGE_SHARED, NULL,
		channel->map.geometry.ring.slot_bytes,
		channel->map.geometry.ring.mode == RING_QUEUE, item_release,
		item);
	item->storage.map_cow = item_map_cow;
	item->storage.make_guard = item_make_guard;
	item->guard.drop = item_drop_guard;
	item->storage.part = true;
	item->first_size = 0;
	return item;
}

struct receiver {
	tarn_channel *channel;
	tarn_item *item;
};

/* With the lock. An item that was received but cannot be handed on would be
 * lost; so the handle is allocated first, and an unused one is kept. */
static int look_for_item(struct member *member, void *arg)
{
	struct receiver *receiver = arg;
	struct side *side = &receiver->channel->consumer;
	tarn_item *item = cache_top(side);
	int r;

	if (!item) {
		item = new_item(receiver->channel);
		if (!item)
			return tarn_fail(ENOMEM, "out of memory");
		cache_add(side, item);
	}
	r = ring_receive(&member->ring, &item->item);
	if (r != 1)
		return r;
	cache_take(side);
	member_take(member);
	item->member = member;
	receiver->item = item;
	return 1;
}

/* Two references: the caller's, and that of first. */
static void begin(tarn_item *item)
{
	const struct channel_map *map = &item->channel->map;

	item->storage.data = map->bytes + item->item.slot * item->storage.size;
	/* No other thread has it yet. */
	atomic_init(&item->storage.refs, 2);
	atomic_init(&item->handles, 1);
	atomic_init(&item->attached, false);
}

int tarn_channel_receive(tarn_channel *channel, int timeout_ms, tarn_item **ret)
{
	struct receiver receiver = {.channel = channel};
	uint32_t most = channel->map.geometry.tensors;
	tarn_item *item;
	int r = side_wait(channel, &channel->consumer, timeout_ms,
		look_for_item, &receiver, "nothing came");

	if (r < 0)
		return r;
	item = receiver.item;
	begin(item);
	if (count_of(item) > most) {
		r = tarn_fail(EBADMSG,
			"an item of %u tensors, where %u are the most",
			count_of(item), most);
		/* The number of held words bounds the number of tensors. */
		item->item.note.tensors = 0;
		tarn_item_unref(item);
		return channel_fail(channel, r);
	}
	*ret = item;
	return 0;
}

/* ---- reading ----------------------------------------------------- */

size_t tarn_item_count(const tarn_item *item)
{
	return count_of(item);
}

bool tarn_item_has_stored(const tarn_item *item)
{
	return item->item.note.tensors & CHANNEL_NOTE_HOLDS;
}

const void *tarn_item_tag(const tarn_item *item, size_t *ret_size)
{
	*ret_size = item->item.note.tag_size;
	return item->item.note.tag;
}

uint64_t tarn_item_position(const tarn_item *item)
{
	return channel_position(item->channel, item->item.position);
}

bool tarn_item_redelivered(const tarn_item *item)
{
	return item->item.redelivered;
}

bool tarn_item_has_tensors(const tarn_item *item)
{
	/* Relaxed: other threads may take and drop some meanwhile. */
	return atomic_load_explicit(&item->storage.refs, memory_order_relaxed) >
	       claims(item);
}

/* The first tensor asked for needs no allocation: most items have one, and it
 * is asked for once. */
static bool lodge(tarn_item *item)
{
	/* Relaxed, here and below: it publishes no data; the thread that sets
	 * it owns the memory of first. */
	if (atomic_load_explicit(&item->attached, memory_order_relaxed))
		return false;
	if (tarn_is_single_threaded()) {
		atomic_store_explicit(
			&item->attached, true, memory_order_relaxed);
		return true;
	}
	return !atomic_exchange_explicit(
		&item->attached, true, memory_order_relaxed);
}

/* 1: it lies in the slot; 0: *d describes it. */
static int in_slot(tarn_item *item, uint32_t i, struct tarn_descriptor *d,
	tarn_tensor **ret)
{
	struct tarn_layout more;
	bool lodges = lodge(item);
	/* Made in its final place. */
	struct tarn_layout *layout = lodges ? &item->first.layout : &more;
	uint64_t none = 0, *known = lodges ? &item->first_size : &none, base;
	int r;

	r = record_get(
		item->channel, item->item.slot, i, d, &base, layout, known);
	if (r > 0 && lodges) {
		tensor_lodge(&item->first, &item->storage, base, layout);
		*ret = &item->first;
	} else if (r > 0) {
		r = tarn_tensor_new_checked(&item->storage, base, layout, ret);
		r = r < 0 ? r : 1;
	} else if (lodges) {
		atomic_store_explicit(
			&item->attached, false, memory_order_relaxed);
	}
	return r;
}

static int tensor_of(tarn_item *item, size_t i, tarn_tensor **ret)
{
	struct tarn_descriptor d;
	int r;

	if (!member_is_ours(item->channel, item->member))
		return tarn_fail(ESTALE,
			"an item of before the fork, which is the parent's");
	if (i >= count_of(item))
		return tarn_fail(ERANGE, "tensor %zu of an item of %u", i,
			count_of(item));
	r = in_slot(item, (uint32_t)i, &d, ret);
	if (r != 0)
		return r;
	/* With its own lease, taken while the item has one: see
	 * item_leases.c. */
	return store_import(item->channel->store, &d, ret);
}

int tarn_item_tensor(tarn_item *item, size_t i, tarn_tensor **ret)
{
	int r = tensor_of(item, i, ret);

	return r < 0 ? channel_fail(item->channel, r) : 0;
}
