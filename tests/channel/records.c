/* SPDX-License-Identifier: MIT */
/*
 * Records that lie: a producer's description of a tensor is accepted only as
 * far as the tensor lies in its slot, whichever word of it is random, in C
 * order or with strides.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "lib/channel/channel.h"
#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define SLOT_BYTES 4096u
#define ROUNDS 20000

static struct daemon server;
static tarn_channel *channel;

/* One item of two tensors, in C order and not; its records and its receiver. */
struct sent {
	tarn_item *item;
	struct tarn_descriptor *records;
	struct tarn_descriptor were[2];
};

static struct sent send(void)
{
	struct tarn_layout turned;
	struct sent sent = {0};
	tarn_tensor *a, *b;
	tarn_slot *slot;
	uint64_t first;

	must(tarn_channel_acquire(channel, 0, &slot));
	must(tarn_slot_new_tensor(slot, TARN_F32, 2, (int64_t[]) {4, 6}, &a));
	must(tarn_slot_new_tensor(slot, TARN_I16, 2, (int64_t[]) {8, 2}, &b));
	must(tarn_layout_transpose(tarn_tensor_layout(b), 0, 1, &turned));
	must(tarn_slot_set_layout(slot, 1, &turned));
	tarn_tensor_unref(a);
	tarn_tensor_unref(b);
	must(tarn_slot_publish(slot));
	must(tarn_channel_receive(channel, 0, &sent.item));
	first = (uint64_t)sent.item->item.slot * channel->map.geometry.tensors;
	sent.records = &channel->map.records[first];
	memcpy(sent.were, sent.records, sizeof(sent.were));
	return sent;
}

static void restore(const struct sent *sent)
{
	memcpy(sent->records, sent->were, sizeof(sent->were));
}

/* Does what was given lie in the slot, to its last byte? */
static bool lies_inside(const struct sent *sent, const tarn_tensor *t)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t first, count, size = tarn_dtype_bits(l->dtype);
	const char *begin = (const char *)channel->map.bytes +
			    (uint64_t)sent->item->item.slot * SLOT_BYTES;
	const char *at = tarn_tensor_data(t);

	tarn_layout_bounds(l, &first, &count);
	if (count == 0 || !at)
		return true;
	at += (first - l->offset) * size / 8;
	return at >= begin && at + (count * size + 7) / 8 <= begin + SLOT_BYTES;
}

/* ---- one word at a time -------------------------------------------- */

static void refuse_as(int error, struct sent *sent, int i, const char *what)
{
	tarn_tensor *t = NULL;

	is_int(error, tarn_item_tensor(sent->item, (uint32_t)i, &t),
		"a wrong record is refused: %s", what);
	ok(!t && *tarn_error_message(),
		"a refused record gives a sentence and no tensor");
	restore(sent);
}

static void refuse(struct sent *sent, int i, const char *what)
{
	refuse_as(-EBADMSG, sent, i, what);
}

static void test_words(void)
{
	struct sent sent = send();
	struct tarn_descriptor *c = &sent.records[0],
			       *turned = &sent.records[1];
	tarn_tensor *t;

	ok(c->flags == CHANNEL_RECORD_C,
		"a record of a contiguous tensor is in C order");
	ok(turned->flags == 0, "a record of a transposed tensor has strides");
	c->magic++;
	refuse(&sent, 0, "no record");
	c->version++;
	refuse(&sent, 0, "a version of tomorrow");
	c->flags |= 0x4000;
	refuse(&sent, 0, "an unknown flag");
	c->instance++;
	refuse_as(-ESTALE, &sent, 0, "another daemon's");
	c->generation = 1;
	refuse(&sent, 0, "a slot of a generation");
	c->dtype = 0;
	refuse(&sent, 0, "no dtype");
	c->dtype = 255;
	refuse(&sent, 0, "a dtype of tomorrow");
	c->ndim = TARN_NDIM_MAX + 1;
	refuse(&sent, 0, "too many dimensions");
	c->ndim = 255;
	refuse(&sent, 0, "far too many");
	c->zero[3] = 1;
	refuse(&sent, 0, "a byte that is 0");
	c->offset = 1;
	refuse(&sent, 0, "C order from elsewhere");
	c->shape[0] = -1;
	refuse(&sent, 0, "a size below 0");
	c->shape[0] = INT64_MAX;
	refuse(&sent, 0, "a size past all memory");
	c->shape[0] = 1000;
	refuse(&sent, 0, "a size past the slot");
	c->base = SLOT_BYTES - 4;
	refuse(&sent, 0, "a place at the slot's end");
	c->base = UINT64_MAX - 3;
	refuse(&sent, 0, "a place round the corner");
	turned->stride[1] = INT64_MAX;
	refuse(&sent, 1, "a stride past all memory");
	turned->stride[0] = -1000;
	refuse(&sent, 1, "a stride before the slot");
	turned->offset = INT64_MIN;
	refuse(&sent, 1, "an offset before all");
	turned->flags = CHANNEL_RECORD_C;
	is_int(0, tarn_item_tensor(sent.item, 1, &t),
		"a record that changes strides to C order is another view");
	ok(lies_inside(&sent, t), "the other view lies inside the slot");
	tarn_tensor_unref(t);
	restore(&sent);
	is_int(0, tarn_item_tensor(sent.item, 0, &t),
		"the restored record is accepted");
	tarn_tensor_unref(t);
	tarn_item_unref(sent.item);
}

/* What an item before has left past the rank is not looked at. */
static void test_left_over(void)
{
	struct sent sent = send();
	tarn_tensor *t;

	for (int i = 2; i < TARN_NDIM_MAX; i++)
		sent.records[0].shape[i] = sent.records[1].stride[i] = -77;
	memset(sent.records[0].stride, 0x55, sizeof(sent.were[0].stride));
	for (uint32_t i = 0; i < 2; i++) {
		is_int(0, tarn_item_tensor(sent.item, i, &t),
			"random bytes past the rank of tensor %u are accepted",
			i);
		is_int(2, tarn_tensor_layout(t)->ndim,
			"bytes past the rank do not change the tensor");
		tarn_tensor_unref(t);
	}
	tarn_item_unref(sent.item);
}

/* ---- many at once -------------------------------------------------- */

static uint64_t seed = 20;

static uint64_t roll(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Numbers near those that matter, or any. */
static uint64_t number(void)
{
	static const uint64_t near[] = {0, 1, 2, 8, 63, SLOT_BYTES - 1,
		SLOT_BYTES, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX};

	return roll() % 3 ? near[roll() % (sizeof(near) / sizeof(*near))]
			  : roll() >> roll() % 64;
}

static void spoil(struct tarn_descriptor *d)
{
	/* storage stays CHANNEL_IN_SLOT, magic, version and instance ours:
	 * what they do was seen, and here it would end each round. */
	switch (roll() % 7) {
	case 0:
		d->flags = roll() % 2 ? CHANNEL_RECORD_C : 0;
		break;
	case 1:
		d->dtype = (uint8_t)(roll() % (TARN_DTYPE_MAX + 2));
		break;
	case 2:
		d->ndim = (uint8_t)(roll() % (TARN_NDIM_MAX + 2));
		break;
	case 3:
		d->base = number();
		break;
	case 4:
		d->offset = (int64_t)number();
		break;
	case 5:
		d->shape[roll() % TARN_NDIM_MAX] = (int64_t)number();
		break;
	default:
		d->stride[roll() % TARN_NDIM_MAX] = (int64_t)number();
	}
}

static void test_many(void)
{
	struct sent sent = send();
	int given = 0, outside = 0, mute = 0;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t which = i % 2;
		tarn_tensor *t;
		int r;

		restore(&sent);
		for (uint64_t n = 1 + roll() % 4; n > 0; n--)
			spoil(&sent.records[which]);
		r = tarn_item_tensor(sent.item, which, &t);
		if (r < 0) {
			mute += !*tarn_error_message();
			continue;
		}
		given++;
		outside += !lies_inside(&sent, t);
		tarn_tensor_unref(t);
	}
	diag("%d of %d were tensors", given, ROUNDS);
	ok(given > ROUNDS / 100, "some random records are accepted");
	ok(given < ROUNDS, "some of the spoilt records are refused");
	is_int(0, outside, "no accepted record reaches out of its slot");
	is_int(0, mute, "each refused record has a sentence");
	restore(&sent);
	tarn_item_unref(sent.item);
}

int main(void)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = SLOT_BYTES, .tensors = 2};
	tarn_store *store;

	daemon_start(&server, "records.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	channel = kit_channel_open(store, "records", &options);
	test_words();
	test_left_over();
	test_many();
	is_int(2, kit_channel_info(channel).free,
		"all slots are free after the random records");
	tarn_channel_unref(channel);
	must(tarn_store_remove(store, "records"));
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(53);
}
