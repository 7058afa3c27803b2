/* SPDX-License-Identifier: MIT */
/*
 * Records: the descriptions of an item's tensors, in shared memory where its
 * consumers read them.
 *
 * Each cache line of a record has to travel from one processor to another. So
 * for a tensor in the slot only as many dimensions are written and read as it
 * has; and for one in C order, as nearly all are, no strides, which leaves two
 * lines that are fetched together. The rest holds the data of some earlier
 * item, and is not read.
 *
 * A reader copies a record once, and then checks the copy.
 */
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/channel/channel.h"
#include "lib/layout/layout.h"

#define HEADER offsetof(struct tarn_descriptor, shape)

static_assert(HEADER == 64, "a line, the first sizes in the next one");

static struct tarn_descriptor *place_of(
	const tarn_channel *channel, uint32_t slot, uint32_t i)
{
	const struct channel_map *map = &channel->map;

	return &map->records[(uint64_t)slot * map->geometry.tensors + i];
}

/* The words of a header that differ from record to record. */
enum {
	BASE = offsetof(struct tarn_descriptor, base) / 8,
	KIND = offsetof(struct tarn_descriptor, dtype) / 8
};

static_assert(offsetof(struct tarn_descriptor, dtype) % 8 == 0 &&
		      offsetof(struct tarn_descriptor, ndim) % 8 == 1,
	"the first two bytes of a word");

void record_begin(tarn_channel *channel)
{
	const struct tarn_descriptor template = {
		.magic = TARN_DESCRIPTOR_MAGIC,
		.version = TARN_DESCRIPTOR_VERSION,
		.flags = CHANNEL_RECORD_C,
		.instance = channel->store->instance,
		.pool = TABLE_POOL_OWN,
		.storage = CHANNEL_IN_SLOT,
		.size = channel->map.geometry.ring.slot_bytes,
	};
	const unsigned char kind[8] = {UINT8_MAX, UINT8_MAX};

	memcpy(channel->template, &template, HEADER);
	memcpy(&channel->template_free, kind, sizeof(kind));
}

/* Word by word, which no compiler turns into a slow string instruction; and
 * words that others may write meanwhile are read once. Relaxed: the slot's word
 * orders it. */
static void write_words(int64_t *to, const int64_t *from, int n)
{
	for (int i = 0; i < n; i++)
		__atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
}

static void read_words(int64_t *to, const int64_t *from, int n)
{
	for (int i = 0; i < n; i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void record_put(tarn_channel *channel, uint32_t slot, uint32_t i,
	const struct tarn_descriptor *descriptor)
{
	memcpy(place_of(channel, slot, i), descriptor, sizeof(*descriptor));
}

void record_put_in_slot(tarn_channel *channel, uint32_t slot, uint32_t i,
	uint64_t base, const struct tarn_layout *layout, bool c_order)
{
	struct tarn_descriptor *record = place_of(channel, slot, i);

	record->magic = TARN_DESCRIPTOR_MAGIC;
	record->version = TARN_DESCRIPTOR_VERSION;
	record->flags = c_order ? CHANNEL_RECORD_C : 0;
	record->instance = channel->store->instance;
	record->pool = TABLE_POOL_OWN;
	record->storage = CHANNEL_IN_SLOT;
	record->generation = 0;
	record->base = base;
	record->size = channel->map.geometry.ring.slot_bytes;
	record->offset = layout->offset;
	record->dtype = layout->dtype;
	record->ndim = layout->ndim;
	memset(record->zero, 0, sizeof(record->zero));
	write_words(record->shape, layout->shape, layout->ndim);
	if (!c_order)
		write_words(record->stride, layout->stride, layout->ndim);
}

/* For C order: all fields that were not written follow from the rest. */
static int check_c_order(
	const struct tarn_descriptor *d, struct tarn_layout *ret)
{
	if (d->offset)
		return tarn_fail(EBADMSG,
			"descriptor: offset %lld of a tensor in C order",
			(long long)d->offset);
	if (tarn_layout_contiguous(d->dtype, d->ndim, d->shape, ret) < 0)
		return tarn_fail_prefix(-EBADMSG, "descriptor: ");
	return 0;
}

/* Does a header match the template in all words that are known beforehand?
 * False: check it field by field for errors. */
static bool matches_template(const tarn_channel *channel, const uint64_t *words)
{
	const uint64_t *template = channel->template;
	uint64_t other =
		(words[KIND] ^ template[KIND]) & ~channel->template_free;

#pragma GCC unroll 8
	for (size_t i = 0; i < RECORD_HEADER; i++)
		if (i != BASE && i != KIND)
			other |= words[i] ^ template[i];
	return !other;
}

/* Reads a record with the usual header: in C order, from base on. False: as
 * above. */
static bool template_get(const tarn_channel *channel,
	const struct tarn_descriptor *record, const uint64_t *words,
	uint64_t *ret_base, struct tarn_layout *ret_layout, uint64_t *size)
{
	uint64_t room = channel->map.geometry.ring.slot_bytes;
	int64_t shape[TARN_NDIM_MAX];
	unsigned char kind[8];

	memcpy(kind, &words[KIND], sizeof(kind));
	if (kind[1] > TARN_NDIM_MAX)
		return false;
	read_words(shape, record->shape, kind[1]);
	*ret_base = words[BASE];
	if (!layout_stands(ret_layout, *size, kind[0], kind[1], shape)) {
		*size = 0;
		if (!layout_write_contiguous(
			    kind[0], kind[1], shape, ret_layout, size))
			return false;
	}
	return *ret_base <= room && *size <= room - *ret_base;
}

/* The header's fields about the slot; the others are copied, but not checked
 * yet. */
static int check_slot(
	const tarn_channel *channel, const struct tarn_descriptor *d)
{
	int r = descriptor_check_header(d, channel->store->instance);

	if (r < 0)
		return r;
	if (d->generation)
		return tarn_fail(EBADMSG,
			"descriptor: a slot of generation %llu",
			(unsigned long long)d->generation);
	if (d->ndim > TARN_NDIM_MAX)
		return tarn_fail(EBADMSG, "descriptor: rank %u, %d is the most",
			d->ndim, TARN_NDIM_MAX);
	return 0;
}

static int get_in_slot(const tarn_channel *channel,
	const struct tarn_descriptor *record, struct tarn_descriptor *d,
	uint64_t *ret_base, struct tarn_layout *ret_layout)
{
	/* The table entry that the slot would have if it were a storage. */
	const struct table_storage entry = {.pool = TABLE_POOL_OWN,
		.size = channel->map.geometry.ring.slot_bytes};
	bool c_order = d->flags & CHANNEL_RECORD_C;
	int r;

	d->flags &= (uint16_t)~CHANNEL_RECORD_C;
	r = check_slot(channel, d);
	if (r < 0)
		return r;
	read_words(d->shape, record->shape, d->ndim);
	if (c_order) {
		r = check_c_order(d, ret_layout);
	} else {
		size_t rest = (TARN_NDIM_MAX - d->ndim) * sizeof(d->shape[0]);

		memset(&d->shape[d->ndim], 0, rest);
		read_words(d->stride, record->stride, d->ndim);
		memset(&d->stride[d->ndim], 0, rest);
		r = descriptor_check(d, channel->store->instance, ret_layout);
	}
	return r < 0 ? r : descriptor_fits(d, ret_layout, &entry, ret_base);
}

int record_get(const tarn_channel *channel, uint32_t slot, uint32_t i,
	struct tarn_descriptor *ret, uint64_t *ret_base,
	struct tarn_layout *ret_layout, uint64_t *known_size)
{
	const struct tarn_descriptor *record = place_of(channel, slot, i);
	uint64_t words[RECORD_HEADER];
	int r;

#pragma GCC unroll 8
	for (size_t j = 0; j < RECORD_HEADER; j++)
		words[j] = __atomic_load_n(
			(const uint64_t *)record + j, __ATOMIC_RELAXED);
	if (matches_template(channel, words) &&
		template_get(channel, record, words, ret_base, ret_layout,
			known_size))
		return 1;
	memcpy(ret, words, HEADER);
	if (ret->storage != CHANNEL_IN_SLOT) {
		memcpy((char *)ret + HEADER, (const char *)record + HEADER,
			sizeof(*ret) - HEADER);
		return 0;
	}
	*known_size = 0;
	r = get_in_slot(channel, record, ret, ret_base, ret_layout);
	return r < 0 ? r : 1;
}
