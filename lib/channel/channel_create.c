/* SPDX-License-Identifier: MIT */
/*
 * Making a channel: its memory, allocated before any process uses it (for a
 * sparse one, checked to be available), with an empty ring in it; then one
 * message that publishes it, if the name is free.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/channel/channel.h"
#include "lib/store/message_body.h"
#include "lib/store/own_map.h"
#include "lib/store/publish_plan.h"

/* Picked: batches of images, a few in flight. */
#define SLOTS 8u
#define SLOT_BYTES (4ull << 20)
#define TENSORS 16u

static_assert(TARN_CHANNEL_SLOTS_MAX == RING_SLOTS_MAX, "as shared");
static_assert(TARN_CHANNEL_TENSORS_MAX == CHANNEL_TENSORS_MAX, "as shared");
static_assert(TARN_CHANNEL_TAG_MAX == RING_TAG_MAX, "as shared");
static_assert(TARN_CHANNEL_EPHEMERAL == CHANNEL_EPHEMERAL, "as shared");
static_assert((int)TARN_CHANNEL_QUEUE == (int)RING_QUEUE &&
		      (int)TARN_CHANNEL_BROADCAST == (int)RING_BROADCAST,
	"as shared");

static int geometry_of(const struct tarn_channel_options *options,
	struct channel_geometry *ret)
{
	uint64_t slot_bytes =
		options->slot_bytes ? options->slot_bytes : SLOT_BYTES;

	if (round_up_u64(slot_bytes, CHANNEL_PAGE, &slot_bytes))
		return tarn_fail(EOVERFLOW, "slots of %llu bytes are too large",
			(unsigned long long)options->slot_bytes);
	/* Whether it is sparse is visible in its memory. */
	*ret = (struct channel_geometry) {
		.ring = {.mode = options->mode ? (enum ring_mode)options->mode
					       : RING_QUEUE,
			.slots = options->slots ? options->slots : SLOTS,
			.slot_bytes = slot_bytes},
		.tensors = options->tensors ? options->tensors : TENSORS,
		.flags = options->flags & ~TARN_CHANNEL_SPARSE,
	};
	return 0;
}

/* How many bytes, from the first on, must be allocated. */
static uint64_t needed(const struct channel_geometry *geometry, uint64_t size,
	const struct tarn_channel_options *options)
{
	const struct ring_geometry *g = &geometry->ring;

	if (!(options->flags & TARN_CHANNEL_SPARSE) ||
		g->slot_bytes < CHANNEL_MAP_MIN)
		return size;
	return size - g->slots * g->slot_bytes;
}

static int make_memory(const tarn_store *store,
	const struct channel_geometry *geometry, uint64_t size, uint64_t there,
	int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	void *memory;
	struct own_place place = own_place_of(store);
	int r = own_create_part(size, there, &place, &fd, &memory);

	if (r < 0)
		return r;
	r = channel_init(memory, size, geometry);
	munmap(memory, size);
	if (r < 0)
		return r;
	own_seal(fd, true);
	*ret_fd = fd_steal(&fd);
	return 0;
}

static int write_message(tarn_store *store, struct message_body *b,
	const char *name, uint64_t size)
{
	const struct msg_publish head = {
		.n_sources = 1,
		.n_names = 1,
		.flags = PUBLISH_NEW,
	};
	const struct msg_source source = {.kind = SOURCE_CHANNEL, .size = size};
	const int64_t shape = (int64_t)size;
	struct tarn_layout layout;
	int r = tarn_layout_contiguous(TARN_U8, 1, &shape, &layout);

	if (r < 0)
		return r;
	message_body_put(b, &head, sizeof(head));
	message_body_put(b, &source, sizeof(source));
	r = message_body_put_name(b, name, strlen(name), 0, 0, &layout);
	if (r < 0)
		return r;
	return b->failed ? tarn_fail(ENOMEM, "out of memory") : 0;
}

int channel_create(tarn_store *store, const char *name,
	const struct tarn_channel_options *options)
{
	struct wire_message reply = {0};
	struct channel_geometry geometry;
	_cleanup_fd_ int fd = -1;
	struct message_body body = {0};
	uint64_t size;
	int r = geometry_of(options, &geometry);

	if (r >= 0)
		r = channel_size(&geometry, &size);
	if (r >= 0)
		r = make_memory(store, &geometry, size,
			needed(&geometry, size, options), &fd);
	if (r >= 0)
		r = write_message(store, &body, name, size);
	if (r >= 0)
		r = publish_send(store, &body, &fd, 1, &reply);
	if (r >= 0)
		r = call_expect(&store->connection, &reply, WIRE_PUBLISHED,
			sizeof(struct msg_published));
	wire_message_clear(&reply);
	free(body.p);
	return r;
}
