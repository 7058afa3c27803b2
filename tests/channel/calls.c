/* SPDX-License-Identifier: MIT */
/*
 * Channels as a program uses them: slots are filled and items read in place,
 * released in any order, left and closed; and the errors of calls that are not
 * possible. Names of channels are in names.c, broadcasts in broadcast.c.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

static struct daemon server;

/* ---- one item ---------------------------------------------------------- */

static void fill(tarn_tensor *t, unsigned char with)
{
	memset(tarn_tensor_data(t), with,
		(size_t)tarn_layout_nbytes(tarn_tensor_layout(t)));
}

/* Two tensors fill a slot, until it is full. */
static void fill_two(tarn_slot *slot, tarn_tensor **ret_t, tarn_tensor **ret_u)
{
	const int64_t a[] = {3, 5}, b[] = {7}, big[] = {4096};
	tarn_tensor *t, *u, *none;

	is_int(4096, (int64_t)tarn_slot_room(slot),
		"an empty slot has all its room");
	is_int(0, tarn_slot_new_tensor(slot, TARN_F32, 2, a, &t),
		"a tensor is made in a slot");
	is_int(4096 - 64, (int64_t)tarn_slot_room(slot),
		"a tensor takes room in whole cache lines");
	is_int(0, (int64_t)((uintptr_t)tarn_tensor_data(t) & 63),
		"a tensor in a slot is aligned to a cache line");
	ok(tarn_storage_writable(tarn_tensor_storage(t)),
		"a tensor in a slot is writable");
	fill(t, 0);
	must(tarn_tensor_set_f64(t, (int64_t[]) {2, 4}, 24.5));
	is_int(0, tarn_slot_new_tensor(slot, TARN_U8, 1, b, &u),
		"a second tensor is made in the slot");
	fill(u, 9);
	is_int(-ENOSPC, tarn_slot_new_tensor(slot, TARN_U8, 1, big, &none),
		"a tensor larger than the room that is left is refused");
	is_str("channel 'tensors': a tensor of 4096 bytes, and 3968 of the "
	       "slot's 4096 are left",
		tarn_error_message(), "the error says how much room is left");
	*ret_t = t;
	*ret_u = u;
}

/* A view of the first takes its place, and is the third, too. */
static tarn_tensor *add_view(tarn_slot *slot, tarn_tensor *t)
{
	const int64_t b[] = {7};
	tarn_tensor *view, *none;

	if (tarn_tensor_eval(t, ".transpose(0, 1)[1:]", &view) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_slot_set_layout(slot, 0, tarn_tensor_layout(view)),
		"a tensor in a slot is sent as a view of itself");
	is_int(-ERANGE, tarn_slot_set_layout(slot, 2, tarn_tensor_layout(view)),
		"a tensor that the slot does not have gets no layout");
	is_int(0, tarn_slot_add(slot, view),
		"a view of a tensor in the slot is added");
	is_int(-E2BIG, tarn_slot_new_tensor(slot, TARN_U8, 1, b, &none),
		"a fourth tensor is beyond the channel's limit");
	has_str("3 tensors", tarn_error_message(),
		"the error counts the slot's three tensors");
	return view;
}

/* The one that is seen in another way. */
static void check_view(tarn_item *item, uint32_t i)
{
	tarn_tensor *t = kit_channel_tensor(item, i);
	double value = 0;

	is_int(4, tarn_tensor_layout(t)->shape[0],
		"%u: the item has the view's first size", i);
	is_int(3, tarn_tensor_layout(t)->shape[1],
		"%u: the item has the view's second size", i);
	must(tarn_tensor_get_f64(t, (int64_t[]) {3, 2}, &value));
	ok(value == 24.5, "%u: the item has the tensor's value", i);
	ok(tarn_storage_writable(tarn_tensor_storage(t)),
		"%u: a consumer of a queue may write the item", i);
	tarn_tensor_unref(t);
}

static void check_tensors(tarn_item *item)
{
	tarn_tensor *t;
	const void *tag;
	size_t size;

	is_int(3, tarn_item_count(item), "the item has three tensors");
	tag = tarn_item_tag(item, &size);
	is_int(5, (int64_t)size, "the item has the tag's size");
	is_mem("hello", tag, 5, "the consumer reads the tag");
	ok(!tarn_item_redelivered(item),
		"the item is delivered for the first time");
	ok(!tarn_item_has_stored(item),
		"the item holds no tensor of the store");
	check_view(item, 0);
	check_view(item, 2);
	ok(!tarn_item_has_tensors(item), "nobody has a tensor of it");
	t = kit_channel_tensor(item, 1);
	ok(tarn_item_has_tensors(item), "there is one of it");
	is_mem("\t\t\t\t\t\t\t", tarn_tensor_data(t), 7,
		"the second tensor has its bytes");
	tarn_tensor_unref(t);
	is_int(-ERANGE, tarn_item_tensor(item, 3, &t),
		"the item has no fourth tensor");
}

static void test_tensors(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .tensors = 3};
	const char big[65] = "";
	tarn_channel *c = kit_channel_open(store, "tensors", &options);
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *t, *u, *view;
	tarn_item *item;

	fill_two(slot, &t, &u);
	view = add_view(slot, t);
	is_int(-EMSGSIZE, tarn_slot_set_tag(slot, big, 65),
		"a tag of 65 bytes is refused");
	is_int(0, tarn_slot_set_tag(slot, "hello", 5),
		"a small tag is set on the item");
	is_int(0, tarn_slot_publish(slot), "the slot is published");
	ok(!tarn_storage_writable(tarn_tensor_storage(view)),
		"a tensor that the producer keeps is read-only");
	is_int(-EROFS, tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 1),
		"a tensor that the producer keeps cannot be set");
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	tarn_tensor_unref(view);

	item = kit_channel_receive(c);
	tarn_item_unref(tarn_item_ref(item));
	is_int(1, kit_channel_info(c).free,
		"an item keeps its slot while it has a reference");
	check_tensors(item);
	tarn_item_unref(item);
	is_int(2, kit_channel_info(c).free, "all slots are free again");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "tensors"));
}

static void test_elsewhere(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	const int64_t n = 4;
	tarn_channel *c = kit_channel_open(store, "elsewhere", &options);
	tarn_slot *slot = kit_channel_acquire(c),
		  *other = kit_channel_acquire(c);
	tarn_item *item;
	tarn_tensor *t;

	if (tarn_tensor_zeros(TARN_F32, 1, &n, &t) < 0)
		bail("%s", tarn_error_message());
	is_int(-ENOTSUP, tarn_slot_add(slot, t),
		"private memory cannot be added to a slot");
	has_str("publish it first", tarn_error_message(),
		"the error suggests to publish the tensor first");
	tarn_tensor_unref(t);
	is_int(0, tarn_slot_new_tensor(other, TARN_F32, 1, &n, &t),
		"a tensor is made in another slot");
	is_int(-ENOTSUP, tarn_slot_add(slot, t),
		"a tensor of another slot cannot be added");
	tarn_tensor_unref(t);
	ok(!tarn_slot_abandon(other), "abandoning a slot returns NULL");
	ok(!tarn_slot_abandon(NULL), "abandoning NULL returns NULL");
	is_int(0, tarn_slot_publish(slot),
		"an item without tensors is published");
	is_int(1, kit_channel_info(c).free,
		"an item without tensors occupies a slot");
	item = kit_channel_receive(c);
	is_int(0, tarn_item_count(item), "an item without tensors is received");
	ok(!tarn_item_unref(item), "an item without tensors is released");
	ok(!tarn_item_unref(NULL),
		"releasing an item that is NULL returns NULL");
	ok(!tarn_item_ref(NULL) && !tarn_channel_ref(NULL) &&
			!tarn_store_ref(NULL),
		"tarn_item_ref, tarn_channel_ref and tarn_store_ref take NULL");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "elsewhere"));
}

/* ---- order, and what outlives what ------------------------------------- */

static void test_order(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 4, .slot_bytes = 4096};
	tarn_channel *c = kit_channel_open(store, "order", &options);
	tarn_slot *slot;
	tarn_item *items[4], *item;

	for (int64_t i = 0; i < 4; i++)
		is_int(0, kit_channel_put(c, 0, i),
			"item %d of four is published", (int)i);
	is_int(-ETIMEDOUT, kit_channel_put(c, 0, 4),
		"a fifth item finds no free slot");
	is_str("no slot was free", tarn_error_message(),
		"the error is 'no slot was free'");
	is_int(-ETIMEDOUT, tarn_channel_acquire(c, 30, &slot),
		"no slot becomes free within 30 ms");
	is_str("channel 'order': no slot was free within 30 ms",
		tarn_error_message(), "the error is the expected sentence");
	for (int i = 0; i < 4; i++) {
		items[i] = kit_channel_receive(c);
		is_int(i, kit_channel_value(items[i]),
			"items are received in the order of publication");
	}
	is_int(0, (int64_t)tarn_item_position(items[0]),
		"the first item has position 0");
	is_int(1, (int64_t)tarn_item_position(items[1]),
		"the second item has position 1");
	is_int(-ETIMEDOUT, tarn_channel_receive(c, 0, &item),
		"no fifth item is received");
	is_str("nothing came", tarn_error_message(),
		"the error is 'nothing came'");
	is_int(-ETIMEDOUT, tarn_channel_receive(c, 30, &item),
		"no item comes within 30 ms");
	/* Given back from the middle: that slot is filled anew. */
	tarn_item_unref(items[2]);
	is_int(1, kit_channel_info(c).free, "one of the items is released");
	is_int(0, kit_channel_put(c, 0, 40),
		"the slot that was given back is filled again");
	is_int(0, kit_channel_value(items[0]),
		"items that are still held keep their bytes");
	is_int(3, kit_channel_value(items[3]),
		"the last item keeps its value, too");
	is_int(40, kit_channel_get(c, 0),
		"items published meanwhile are received next");
	for (int i = 0; i < 4; i++)
		if (i != 2)
			tarn_item_unref(items[i]);
	is_int(4, kit_channel_info(c).free,
		"all slots are free after all releases");
	is_int(5, (int64_t)kit_channel_info(c).published,
		"the channel counts five published items");
	is_int(5, (int64_t)kit_channel_info(c).received,
		"five items are counted as received");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "order"));
}

static void test_outlive(tarn_store *unused)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_store *store = kit_channel_store(server.socket);
	tarn_channel *c = kit_channel_open(store, "outlive", &options),
		     *watcher = kit_channel_open(unused, "outlive", NULL);
	const int64_t zero = 0;
	tarn_tensor *t, *view;
	int64_t value = 0;
	tarn_item *item;

	kit_channel_put(c, 0, 77);
	item = kit_channel_receive(c);
	t = kit_channel_tensor(item, 0);
	if (tarn_tensor_eval(t, "[0:1]", &view) < 0)
		bail("%s", tarn_error_message());
	tarn_item_unref(item);
	tarn_tensor_unref(t);
	is_int(1, kit_channel_info(watcher).reading,
		"a view alone keeps the slot");
	tarn_channel_unref(c);
	is_int(1, kit_channel_info(watcher).reading,
		"a view keeps the slot after its handle is closed");
	is_int(0, kit_channel_info(watcher).producers,
		"a closed handle is no producer any more");
	tarn_store_unref(store);
	is_int(1, kit_channel_info(watcher).reading,
		"a view keeps the slot after the store is closed");
	must(tarn_tensor_get_i64(view, &zero, &value));
	is_int(77, value, "the view has its bytes after the store is closed");
	tarn_tensor_unref(view);
	is_int(2, kit_channel_info(watcher).free,
		"dropping the last view frees the slot");
	tarn_channel_unref(watcher);
	must(tarn_store_remove(unused, "outlive"));
}

static void test_slot_outlives(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_channel *c = kit_channel_open(store, "filling", &options),
		     *watcher = kit_channel_open(store, "filling", NULL);
	tarn_slot *slot = kit_channel_acquire(c);

	tarn_channel_unref(c);
	is_int(1, kit_channel_info(watcher).filling,
		"a slot outlives its handle");
	is_int(0, tarn_slot_publish(slot),
		"a slot is published after its channel's handle is closed");
	is_int(0, kit_channel_info(watcher).producers,
		"an item of a producer that has gone is received");
	tarn_item_unref(kit_channel_receive(watcher));
	is_int(2, kit_channel_info(watcher).free,
		"all slots are free after that item");
	tarn_channel_unref(watcher);
	must(tarn_store_remove(store, "filling"));
}

/* ---- the end ----------------------------------------------------------- */

static void test_leave(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 3, .slot_bytes = 4096};
	const int64_t one = 1;
	tarn_channel *c = kit_channel_open(store, "leave", &options);
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_item *item;
	tarn_tensor *t;

	is_int(-EINVAL, tarn_channel_leave(c, 4),
		"leaving an unknown role is invalid");
	is_int(-EINVAL, tarn_channel_join(c, 0),
		"joining without a role is invalid");
	is_int(0, tarn_slot_new_tensor(slot, TARN_I64, 1, &one, &t),
		"a tensor is made in a slot that will be abandoned");
	is_int(1, kit_channel_info(c).producers, "the producer is counted");
	is_int(0, tarn_channel_leave(c, TARN_CHANNEL_PRODUCER),
		"the producer leaves");
	is_int(0, kit_channel_info(c).producers,
		"a producer that left is not counted");
	is_int(3, kit_channel_info(c).free,
		"the slot that the producer was filling is free");
	ok(!tarn_storage_writable(tarn_tensor_storage(t)),
		"a tensor of an abandoned slot is read-only");
	is_int(-ESTALE, tarn_slot_publish(slot),
		"an abandoned slot cannot be published");
	tarn_tensor_unref(t);
	is_int(0, kit_channel_put(c, 0, 5),
		"a producer that left joins again by acquiring a slot");
	is_int(0, kit_channel_put(c, 0, 6),
		"the producer that came back publishes again");
	item = kit_channel_receive(c);
	is_int(0, tarn_channel_leave(c, TARN_CHANNEL_CONSUMER),
		"the consumer leaves with an item in hand");
	is_int(1, kit_channel_info(c).reading,
		"the item of a consumer that left keeps its value");
	is_int(6, kit_channel_get(c, 0),
		"a consumer that joins again receives the next item");
	is_int(5, kit_channel_value(item),
		"the item from before keeps its value");
	tarn_item_unref(item);
	is_int(3, kit_channel_info(c).free,
		"the item received before leaving is given back");
	is_int(1, kit_channel_info(c).consumers,
		"one consumer is counted after the release");
	is_int(0, tarn_channel_leave(c, 3),
		"one handle leaves both roles in one call");
	is_int(0, kit_channel_info(c).consumers + kit_channel_info(c).producers,
		"no participant is counted after both roles are left");
	is_int(0, tarn_channel_join(c, 3),
		"one handle joins both roles in one call");
	is_int(2, kit_channel_info(c).consumers + kit_channel_info(c).producers,
		"both roles of the handle are counted");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "leave"));
}

static void test_close(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 3, .slot_bytes = 4096};
	tarn_channel *c = kit_channel_open(store, "close", &options), *next,
		     *late;
	tarn_slot *slot;

	kit_channel_put(c, 0, 1);
	kit_channel_put(c, 0, 2);
	slot = kit_channel_acquire(c);
	is_int(0, tarn_channel_close(c), "the channel is closed");
	is_int(0, tarn_channel_close(c), "closing a channel twice is no error");
	is_int(1, (int64_t)kit_channel_info(c).closed,
		"a closed channel is counted as closed");
	is_int(-EPIPE, tarn_slot_publish(slot),
		"a slot that is filled during the close cannot be published");
	is_int(-EPIPE, kit_channel_put(c, 0, 3),
		"nothing is published after the channel was closed");
	has_str("closed", tarn_error_message(),
		"the error says that the channel is closed");
	is_int(1, kit_channel_get(c, 0),
		"an item from before the close is received");
	late = kit_channel_open(store, "close", NULL);
	is_int(-EEXIST, tarn_channel_open(store, "close", &options, &next),
		"a closed channel keeps its name while it has items");
	is_int(2, kit_channel_get(late, 0),
		"a late consumer receives the rest");
	next = kit_channel_open(store, "close", &options);
	is_int(0, (int64_t)kit_channel_info(next).closed,
		"a new channel takes the name of one that is closed and empty");
	is_int(0, kit_channel_put(next, 0, 30),
		"an item is sent through the new channel of that name");
	is_int(-EPIPE, kit_channel_get(late, 0),
		"the old channel is at its end");
	is_int(-EPIPE, kit_channel_get(c, 0),
		"the old channel's other handle is at its end, too");
	is_int(30, kit_channel_get(next, 0),
		"the new channel's item is received");
	tarn_channel_unref(c);
	tarn_channel_unref(late);
	tarn_channel_unref(next);
	must(tarn_store_remove(store, "close"));
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "channel.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_tensors(store);
	test_elsewhere(store);
	test_order(store);
	test_outlive(store);
	test_slot_outlives(store);
	test_leave(store);
	test_close(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(120);
}
