/* SPDX-License-Identifier: MIT */
/* Looking at channels without taking part. */
#include "lib/channel/channel.h"

int tarn_channel_get_info(tarn_channel *channel, struct tarn_channel_info *ret)
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
		/* What was returned is to be received once more. */
		.ready = stat.ready + stat.returned,
		.reading = stat.reading,
		.producers = stat.producers,
		.consumers = stat.consumers,
		.closed = stat.closed,
		.published = stat.published,
		.received = stat.received,
		.bytes_published = stat.bytes,
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
