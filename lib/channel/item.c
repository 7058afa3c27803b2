/* SPDX-License-Identifier: MIT */
/*
 * An item in the hands of who received it.
 *
 * The idea: the item is the storage of what lies in its slot, and the caller's
 * item one reference to that; so the slot is given back with the last tensor
 * over it, whatever was dropped first. What the producer says of a tensor is
 * looked at when it is asked for, each time in a copy of its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/channel/channel.h"

static uint32_t count_of(const tarn_item *item)
{
	return item->item.note.tensors & CHANNEL_NOTE_TENSORS;
}

/* ---- giving back
 * --------------------------------------------------------------- */

/* Whether the channel is needed after the lock; else the member's reference to
 * it was enough, and goes on being so for who waits for the lock. */
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
	bool ours, gone, late, kept;

	brief_lock(&side->lock);
	ours = member_is_ours(channel, item->member);
	/* It fails if we were taken for dead: then it is somebody else's. */
	if (ours)
		ring_release(&item->member->ring, &item->item);
	late = is_late(item, ours);
	if (late)
		channel_hold(channel);
	gone = member_give(channel, item->member);
	kept = kept_put(side, item);
	brief_unlock(&side->lock);
	if (!kept)
		free(item);
	if (!late)
		return;
	if (ours && tensors & CHANNEL_NOTE_HOLDS)
		held_left(channel, slot, tensors & CHANNEL_NOTE_TENSORS);
	if (gone)
		channel_left_in_passing(channel);
	channel_release(channel);
}

tarn_item *tarn_item_unref(tarn_item *item)
{
	unsigned n;

	if (!item)
		return NULL;
	/* Relaxed: nobody asks it for a tensor any more. */
	n = atomic_load_explicit(&item->lodged, memory_order_relaxed) ? 1 : 2;
	if (storage_drop(&item->storage, n))
		item_release(item);
	return NULL;
}

/* ---- receiving
 * ----------------------------------------------------------------- */

static int item_map_private(
	const tarn_storage *storage, struct private_map *map, void **ret)
{
	const tarn_item *item = (const tarn_item *)storage;

	return channel_map_private(item->channel, item->item.slot, map, ret);
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
	item->storage.map_private = item_map_private;
	item->storage.part = true;
	item->first_size = 0;
	return item;
}

struct receiver {
	tarn_channel *channel;
	tarn_item *item;
};

/* With the lock. What was received and could not be handed on would be lost;
 * so the memory for it comes first, and what was not needed is kept. */
static int look_for_item(struct member *member, void *arg)
{
	struct receiver *receiver = arg;
	struct side *side = &receiver->channel->consumer;
	tarn_item *item = kept_top(side);
	int r;

	if (!item) {
		item = new_item(receiver->channel);
		if (!item)
			return tarn_fail(ENOMEM, "out of memory");
		kept_add(side, item);
	}
	r = ring_receive(&member->ring, &item->item);
	if (r != 1)
		return r;
	kept_take(side);
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
	/* Nobody else has it yet. */
	atomic_init(&item->storage.refs, 2);
	atomic_init(&item->lodged, false);
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
		/* What is held is said by no more words than there are. */
		item->item.note.tensors = 0;
		tarn_item_unref(item);
		return channel_fail(channel, r);
	}
	*ret = item;
	return 0;
}

/* ---- reading
 * -------------------------------------------------------------------- */

uint32_t tarn_item_count(const tarn_item *item)
{
	return count_of(item);
}

bool tarn_item_holds(const tarn_item *item)
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

/* The first that is asked for is no memory of its own: of most items there is
 * one, asked for once. */
static bool lodge(tarn_item *item)
{
	/* Relaxed, here and below: it hands nothing over; who sets it has the
	 * place. */
	if (atomic_load_explicit(&item->lodged, memory_order_relaxed))
		return false;
	if (tarn_is_alone()) {
		atomic_store_explicit(
			&item->lodged, true, memory_order_relaxed);
		return true;
	}
	return !atomic_exchange_explicit(
		&item->lodged, true, memory_order_relaxed);
}

/* 1: it lies in the slot; 0: it is what *d says. */
static int in_slot(tarn_item *item, uint32_t i, struct tarn_descriptor *d,
	tarn_tensor **ret)
{
	struct tarn_layout more;
	bool lodges = lodge(item);
	/* Made where it will stay. */
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
			&item->lodged, false, memory_order_relaxed);
	}
	return r;
}

static int tensor_of(tarn_item *item, uint32_t i, tarn_tensor **ret)
{
	struct tarn_descriptor d;
	int r;

	if (!member_is_ours(item->channel, item->member))
		return tarn_fail(ESTALE,
			"an item of before the fork, which is the parent's");
	if (i >= count_of(item))
		return tarn_fail(ERANGE, "tensor %u of an item of %u", i,
			count_of(item));
	r = in_slot(item, i, &d, ret);
	if (r != 0)
		return r;
	/* With a lease of its own, taken while the item has one: see held.c. */
	return store_import(item->channel->store, &d, ret);
}

int tarn_item_tensor(tarn_item *item, uint32_t i, tarn_tensor **ret)
{
	int r = tensor_of(item, i, ret);

	return r < 0 ? channel_fail(item->channel, r) : 0;
}
