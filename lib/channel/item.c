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

static void give_back(tarn_channel *channel, struct member *member,
	const struct ring_item *item)
{
	struct side *side = &channel->consumer;
	bool ours, gone;

	brief_lock(&side->lock);
	ours = member_is_ours(channel, member);
	/* It fails if we were taken for dead: then it is somebody else's. */
	if (ours)
		ring_release(&member->ring, item);
	gone = member_give(channel, member);
	brief_unlock(&side->lock);
	if (ours && item->note.tensors & CHANNEL_NOTE_HOLDS)
		held_left(channel, item->slot,
			item->note.tensors & CHANNEL_NOTE_TENSORS);
	if (gone)
		channel_left(channel);
}

static void item_release(void *arg)
{
	tarn_item *item = arg;

	give_back(item->channel, item->member, &item->item);
	channel_release(item->channel);
}

tarn_item *tarn_item_unref(tarn_item *item)
{
	if (item)
		tarn_storage_unref(&item->storage);
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

/* With the lock. What was received and could not be handed on would be lost;
 * so the memory for it comes first, and what was not needed waits for the next
 * try. */
static int look_for_item(struct member *member, void *arg)
{
	struct side *side = arg;
	tarn_item *item = side->spare;
	int r;

	if (!item)
		item = side->spare = malloc(sizeof(*item));
	if (!item)
		return tarn_fail(ENOMEM, "out of memory");
	r = ring_receive(&member->ring, &item->item);
	if (r == 1) {
		member_take(member);
		item->member = member;
	}
	return r;
}

struct receiver {
	struct side *side;
	tarn_item *item;
};

static int look_and_take(struct member *member, void *arg)
{
	struct receiver *receiver = arg;
	int r = look_for_item(member, receiver->side);

	if (r == 1)
		receiver->item = STEAL(receiver->side->spare);
	return r;
}

int tarn_channel_receive(tarn_channel *channel, int timeout_ms, tarn_item **ret)
{
	const struct channel_map *map = &channel->map;
	uint64_t size = map->geometry.ring.slot_bytes;
	struct receiver receiver = {.side = &channel->consumer};
	tarn_item *item;
	int r = side_wait(channel, &channel->consumer, timeout_ms,
		look_and_take, &receiver, "nothing came");

	if (r < 0)
		return r;
	item = receiver.item;
	item->channel = channel;
	tarn_storage_init(&item->storage, TARN_STORAGE_SHARED,
		map->bytes + item->item.slot * size, size,
		map->geometry.ring.mode == RING_QUEUE, item_release, item);
	atomic_init(&item->storage.refs, 1);
	atomic_flag_clear_explicit(&item->lodged, memory_order_relaxed);
	item->storage.map_private = item_map_private;
	channel_hold(channel);
	if (count_of(item) > map->geometry.tensors) {
		r = tarn_fail(EBADMSG,
			"an item of %u tensors, where %u are the most",
			count_of(item), map->geometry.tensors);
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
static int new_tensor(tarn_item *item, uint64_t base,
	const struct tarn_layout *layout, tarn_tensor **ret)
{
	/* Relaxed: it hands nothing over; who set it has the place. */
	if (atomic_flag_test_and_set_explicit(
		    &item->lodged, memory_order_relaxed))
		return tarn_tensor_new_checked(
			&item->storage, base, layout, ret);
	tensor_lodge(&item->first, &item->storage, base, layout);
	*ret = &item->first;
	return 0;
}

static int tensor_of(tarn_item *item, uint32_t i, tarn_tensor **ret)
{
	struct tarn_layout layout;
	struct tarn_descriptor d;
	uint64_t base;
	int r;

	if (!member_is_ours(item->channel, item->member))
		return tarn_fail(ESTALE,
			"an item of before the fork, which is the parent's");
	if (i >= count_of(item))
		return tarn_fail(ERANGE, "tensor %u of an item of %u", i,
			count_of(item));
	r = record_get(
		item->channel, item->item.slot, i, &d, &base, &layout);
	if (r < 0)
		return r;
	if (r > 0)
		return new_tensor(item, base, &layout, ret);
	/* With a lease of its own, taken while the item has one: see held.c. */
	return store_import(item->channel->store, &d, ret);
}

int tarn_item_tensor(tarn_item *item, uint32_t i, tarn_tensor **ret)
{
	int r = tensor_of(item, i, ret);

	return r < 0 ? channel_fail(item->channel, r) : 0;
}
