/* SPDX-License-Identifier: MIT */
/* Information about channels, without taking part. */
#include "lib/channel/channel.h"

bool channel_is_unlinked(const tarn_channel *channel)
{
	struct table_storage entry;
	enum storage_state state;

	/* It is leased, so it stands in the table. */
	if (table_storage_get(&channel->store->table, channel->index,
		    channel->generation, &entry) < 0)
		return false;
	/* Relaxed: a snapshot on which nothing depends. */
	state = storage_word_state(
		atomic_load_explicit(&entry.word, memory_order_relaxed));
	return state == STORAGE_UNNAMED || state == STORAGE_FREEING;
}

static uint64_t held(tarn_channel *channel)
{
	struct side *side = &channel->consumer;
	uint64_t n;

	adaptive_lock_take(&side->lock);
	n = side->member && member_is_ours(channel, side->member)
		    ? side->member->out
		    : 0;
	adaptive_lock_give(&side->lock);
	return n;
}

int tarn_channel_info(tarn_channel *channel, struct tarn_channel_info *ret)
{
	const struct channel_geometry *g = &channel->map.geometry;
	struct ring_stat stat;

	ring_stat(&channel->ring, &stat);
	*ret = (struct tarn_channel_info) {
		.mode = (enum tarn_channel_mode)g->ring.mode,
		.slots = g->ring.slots,
		.tensors = g->tensors,
		.slot_bytes = g->ring.slot_bytes,
		.free = stat.free,
		.filling = stat.filling,
		/* A returned item will be received once more. */
		.ready = stat.ready + stat.returned,
		.reading = stat.reading,
		.producers = stat.producers,
		.consumers = stat.consumers,
		.closed = stat.closed,
		.unlinked = channel_is_unlinked(channel),
		.published = stat.published,
		.received = stat.received,
		.bytes_published = stat.bytes,
		.held = held(channel),
	};
	return 0;
}

struct lister {
	int (*fn)(void *arg, const char *name);
	void *arg;
};

static int list_one(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	const struct lister *lister = arg;

	(void)descriptor;
	(void)version;
	return lister->fn(lister->arg, name);
}

int tarn_channel_list(tarn_store *store, const char *prefix,
	int (*fn)(void *arg, const char *name), void *arg)
{
	struct lister lister = {.fn = fn, .arg = arg};

	return store_list(store, true, prefix, list_one, &lister);
}
