/* SPDX-License-Identifier: MIT */
/*
 * Channels as a program uses them: filled and read in place, given back in any
 * order, left, closed; and what is said where it cannot be. Their names are
 * channel_names.c's.
 */
#include <errno.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/channel_kit.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

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

	is_int(4096, (int64_t)tarn_slot_room(slot), "a slot is empty");
	is_int(0, tarn_slot_empty(slot, TARN_F32, 2, a, &t), "a tensor in it");
	is_int(4096 - 64, (int64_t)tarn_slot_room(slot),
		"takes room, by the cache line");
	is_int(0, (int64_t)((uintptr_t)tarn_tensor_data(t) & 63), "aligned");
	ok(tarn_storage_writable(tarn_tensor_storage(t)), "to be written");
	fill(t, 0);
	tarn_tensor_set_f64(t, (int64_t[]) {2, 4}, 24.5);
	is_int(0, tarn_slot_empty(slot, TARN_U8, 1, b, &u), "and another");
	fill(u, 9);
	is_int(-ENOSPC, tarn_slot_empty(slot, TARN_U8, 1, big, &none),
		"more than is left");
	is_str("channel 'tensors': a tensor of 4096 bytes, and 3968 of the "
	       "slot's 4096 are left",
		tarn_error_message(), "says how much that is");
	*ret_t = t;
	*ret_u = u;
}

/* A view of the first takes its place, and is the third, too. */
static tarn_tensor *add_view(tarn_slot *slot, tarn_tensor *t)
{
	const int64_t b[] = {7};
	tarn_tensor *view, *none;

	if (tarn_tensor_view(t, ".transpose(0, 1)[1:]", &view) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_slot_set(slot, 0, tarn_tensor_layout(view)),
		"it may be sent as a view");
	is_int(-ERANGE, tarn_slot_set(slot, 2, tarn_tensor_layout(view)),
		"but not what is not there");
	is_int(0, tarn_slot_add(slot, view), "a view of this slot is added");
	is_int(-E2BIG, tarn_slot_empty(slot, TARN_U8, 1, b, &none),
		"a fourth is too many");
	has_str("3 tensors", tarn_error_message(), "of three");
	return view;
}

/* The one that is seen in another way. */
static void check_view(tarn_item *item, uint32_t i)
{
	tarn_tensor *t = kit_tensor(item, i);
	double value = 0;

	is_int(4, tarn_tensor_layout(t)->shape[0], "%u: as the view", i);
	is_int(3, tarn_tensor_layout(t)->shape[1], "%u: that it was", i);
	tarn_tensor_get_f64(t, (int64_t[]) {3, 2}, &value);
	ok(value == 24.5, "%u: with its value", i);
	ok(tarn_storage_writable(tarn_tensor_storage(t)),
		"%u: a queue's item is the consumer's", i);
	tarn_tensor_unref(t);
}

static void check_tensors(tarn_item *item)
{
	tarn_tensor *t;
	const void *tag;
	size_t size;

	is_int(3, tarn_item_count(item), "three tensors come");
	tag = tarn_item_tag(item, &size);
	is_int(5, (int64_t)size, "the tag's size");
	is_mem("hello", tag, 5, "and the tag");
	ok(!tarn_item_redelivered(item), "for the first time");
	ok(!tarn_item_holds(item), "with nothing of the store's");
	check_view(item, 0);
	check_view(item, 2);
	t = kit_tensor(item, 1);
	is_mem("\t\t\t\t\t\t\t", tarn_tensor_data(t), 7, "the other's bytes");
	tarn_tensor_unref(t);
	is_int(-ERANGE, tarn_item_tensor(item, 3, &t), "there is no fourth");
}

static void test_tensors(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .tensors = 3};
	const char big[65] = "";
	tarn_channel *c = kit_open(store, "tensors", &options);
	tarn_slot *slot = kit_acquire(c);
	tarn_tensor *t, *u, *view;
	tarn_item *item;

	fill_two(slot, &t, &u);
	view = add_view(slot, t);
	is_int(-EMSGSIZE, tarn_slot_tag(slot, big, 65), "a tag is small");
	is_int(0, tarn_slot_tag(slot, "hello", 5), "and goes with it");
	is_int(0, tarn_slot_publish(slot), "published");
	ok(!tarn_storage_writable(tarn_tensor_storage(view)),
		"what the producer keeps is read-only");
	is_int(-EROFS, tarn_tensor_set_f64(t, (int64_t[]) {0, 0}, 1), "truly");
	tarn_tensor_unref(t);
	tarn_tensor_unref(u);
	tarn_tensor_unref(view);

	item = kit_receive(c);
	check_tensors(item);
	tarn_item_unref(item);
	is_int(2, kit_info(c).free, "all slots are free again");
	tarn_channel_unref(c);
	tarn_store_remove(store, "tensors");
}

static void test_elsewhere(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	const int64_t n = 4;
	tarn_channel *c = kit_open(store, "elsewhere", &options);
	tarn_slot *slot = kit_acquire(c), *other = kit_acquire(c);
	tarn_item *item;
	tarn_tensor *t;

	if (tarn_tensor_zeros(TARN_F32, 1, &n, &t) < 0)
		bail("%s", tarn_error_message());
	is_int(-ENOTSUP, tarn_slot_add(slot, t), "private memory is not sent");
	has_str("publish it first", tarn_error_message(), "says what to do");
	tarn_tensor_unref(t);
	is_int(0, tarn_slot_empty(other, TARN_F32, 1, &n, &t), "another slot");
	is_int(-ENOTSUP, tarn_slot_add(slot, t), "is elsewhere, too");
	tarn_tensor_unref(t);
	ok(!tarn_slot_abandon(other), "abandoned");
	ok(!tarn_slot_abandon(NULL), "nothing is abandoned");
	is_int(0, tarn_slot_publish(slot), "an item of no tensors");
	is_int(1, kit_info(c).free, "counts");
	item = kit_receive(c);
	is_int(0, tarn_item_count(item), "and comes");
	ok(!tarn_item_unref(item), "and goes");
	ok(!tarn_item_unref(NULL), "nothing goes, too");
	tarn_channel_unref(c);
	tarn_store_remove(store, "elsewhere");
}

/* ---- order, and what outlives what ------------------------------------- */

static void test_order(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 4, .slot_bytes = 4096};
	tarn_channel *c = kit_open(store, "order", &options);
	tarn_slot *slot;
	tarn_item *items[4], *item;

	for (int64_t i = 0; i < 4; i++)
		is_int(0, kit_put(c, 0, i), "item %d", (int)i);
	is_int(-ETIMEDOUT, kit_put(c, 0, 4), "a fifth has no slot");
	is_str("no slot was free", tarn_error_message(), "which is said");
	is_int(-ETIMEDOUT, tarn_channel_acquire(c, 30, &slot),
		"nor in a while");
	is_str("channel 'order': no slot was free within 30 ms",
		tarn_error_message(), "which is said, too");
	for (int i = 0; i < 4; i++) {
		items[i] = kit_receive(c);
		is_int(i, kit_value(items[i]), "they come in order");
	}
	is_int(0, (int64_t)tarn_item_position(items[0]), "positions count");
	is_int(1, (int64_t)tarn_item_position(items[1]), "from 0 on");
	is_int(-ETIMEDOUT, tarn_channel_receive(c, 0, &item), "no more");
	is_str("nothing came", tarn_error_message(), "which is said");
	is_int(-ETIMEDOUT, tarn_channel_receive(c, 30, &item), "nor later");
	/* Given back from the middle: that slot is filled anew. */
	tarn_item_unref(items[2]);
	is_int(1, kit_info(c).free, "one is given back");
	is_int(0, kit_put(c, 0, 40), "and used");
	is_int(0, kit_value(items[0]), "the others' bytes stay");
	is_int(3, kit_value(items[3]), "as they were");
	is_int(40, kit_get(c, 0), "and what came since comes");
	for (int i = 0; i < 4; i++)
		if (i != 2)
			tarn_item_unref(items[i]);
	is_int(4, kit_info(c).free, "all are free");
	is_int(5, (int64_t)kit_info(c).published, "five were published");
	is_int(5, (int64_t)kit_info(c).received, "and received");
	tarn_channel_unref(c);
	tarn_store_remove(store, "order");
}

static void test_outlive(tarn_store *unused)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_store *store = kit_store(server.socket);
	tarn_channel *c = kit_open(store, "outlive", &options),
		     *watcher = kit_open(unused, "outlive", NULL);
	const int64_t zero = 0;
	tarn_tensor *t, *view;
	int64_t value = 0;
	tarn_item *item;

	kit_put(c, 0, 77);
	item = kit_receive(c);
	t = kit_tensor(item, 0);
	if (tarn_tensor_view(t, "[0:1]", &view) < 0)
		bail("%s", tarn_error_message());
	tarn_item_unref(item);
	tarn_tensor_unref(t);
	is_int(1, kit_info(watcher).reading, "a view alone keeps the slot");
	tarn_channel_unref(c);
	is_int(1, kit_info(watcher).reading, "also after the handle");
	is_int(0, kit_info(watcher).producers, "which produces no more");
	tarn_store_unref(store);
	is_int(1, kit_info(watcher).reading, "and after the store");
	tarn_tensor_get_i64(view, &zero, &value);
	is_int(77, value, "with its bytes");
	tarn_tensor_unref(view);
	is_int(2, kit_info(watcher).free, "and gives it back at last");
	tarn_channel_unref(watcher);
	tarn_store_remove(unused, "outlive");
}

static void test_slot_outlives(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096};
	tarn_channel *c = kit_open(store, "filling", &options),
		     *watcher = kit_open(store, "filling", NULL);
	tarn_slot *slot = kit_acquire(c);

	tarn_channel_unref(c);
	is_int(1, kit_info(watcher).filling, "a slot outlives its handle");
	is_int(0, tarn_slot_publish(slot), "and is published");
	is_int(0, kit_info(watcher).producers, "by one who is gone then");
	tarn_item_unref(kit_receive(watcher));
	is_int(2, kit_info(watcher).free, "all are free");
	tarn_channel_unref(watcher);
	tarn_store_remove(store, "filling");
}

/* ---- the end ----------------------------------------------------------- */

static void test_leave(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 3, .slot_bytes = 4096};
	const int64_t one = 1;
	tarn_channel *c = kit_open(store, "leave", &options);
	tarn_slot *slot = kit_acquire(c);
	tarn_item *item;
	tarn_tensor *t;

	is_int(-EINVAL, tarn_channel_leave(c, 4), "no such role");
	is_int(-EINVAL, tarn_channel_join(c, 0), "nor none");
	is_int(0, tarn_slot_empty(slot, TARN_I64, 1, &one, &t), "filling");
	is_int(1, kit_info(c).producers, "a producer");
	is_int(0, tarn_channel_leave(c, TARN_CHANNEL_PRODUCER), "leaves");
	is_int(0, kit_info(c).producers, "and is none");
	is_int(3, kit_info(c).free, "what it was filling is abandoned");
	ok(!tarn_storage_writable(tarn_tensor_storage(t)), "and read-only");
	is_int(-ESTALE, tarn_slot_publish(slot), "and is not published");
	tarn_tensor_unref(t);
	is_int(0, kit_put(c, 0, 5), "it comes back when it has to");
	is_int(0, kit_put(c, 0, 6), "and stays");
	item = kit_receive(c);
	is_int(0, tarn_channel_leave(c, TARN_CHANNEL_CONSUMER), "it leaves");
	is_int(1, kit_info(c).reading, "what it reads stays its own");
	is_int(6, kit_get(c, 0), "another life begins");
	is_int(5, kit_value(item), "the other goes on");
	tarn_item_unref(item);
	is_int(3, kit_info(c).free, "and ends");
	is_int(1, kit_info(c).consumers, "one is left");
	is_int(0, tarn_channel_leave(c, 3), "both at once");
	is_int(0, kit_info(c).consumers + kit_info(c).producers, "nobody");
	is_int(0, tarn_channel_join(c, 3), "and back");
	is_int(2, kit_info(c).consumers + kit_info(c).producers, "both");
	tarn_channel_unref(c);
	tarn_store_remove(store, "leave");
}

static void test_close(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 3, .slot_bytes = 4096};
	tarn_channel *c = kit_open(store, "close", &options), *next, *late;
	tarn_slot *slot;

	kit_put(c, 0, 1);
	kit_put(c, 0, 2);
	slot = kit_acquire(c);
	is_int(0, tarn_channel_close(c), "closed");
	is_int(0, tarn_channel_close(c), "twice");
	is_int(1, (int64_t)kit_info(c).closed, "which is known");
	is_int(-EPIPE, tarn_slot_publish(slot), "what was being filled is not");
	is_int(-EPIPE, kit_put(c, 0, 3), "and nothing else");
	has_str("closed", tarn_error_message(), "since it is closed");
	is_int(1, kit_get(c, 0), "what was published comes");
	late = kit_open(store, "close", NULL);
	is_int(-EEXIST, tarn_channel_open(store, "close", &options, &next),
		"no other takes its name while something is left in it");
	is_int(2, kit_get(late, 0), "late consumers drain it");
	next = kit_open(store, "close", &options);
	is_int(0, (int64_t)kit_info(next).closed,
		"a new one takes the name of one that is closed and empty");
	is_int(0, kit_put(next, 0, 30), "and works");
	is_int(-EPIPE, kit_get(late, 0), "the old one is at its end");
	is_int(-EPIPE, kit_get(c, 0), "all of them");
	is_int(30, kit_get(next, 0), "and the new one goes on");
	tarn_channel_unref(c);
	tarn_channel_unref(late);
	tarn_channel_unref(next);
	tarn_store_remove(store, "close");
}

/* ---- broadcast --------------------------------------------------------- */

static void test_broadcast(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .mode = TARN_CHANNEL_BROADCAST};
	tarn_channel *out = kit_open(store, "cast", &options),
		     *a = kit_open(store, "cast", NULL),
		     *b = kit_open(store, "cast", NULL);
	tarn_item *item, *kept;
	tarn_tensor *t;

	is_int(0, kit_put(out, 0, 1), "nobody hears");
	is_int(0, tarn_channel_join(a, TARN_CHANNEL_CONSUMER), "one joins");
	is_int(0, kit_put(out, 0, 2), "one hears");
	is_int(0, tarn_channel_join(b, TARN_CHANNEL_CONSUMER), "another");
	is_int(0, kit_put(out, 0, 3), "both hear");
	is_int(-ETIMEDOUT, kit_put(out, 0, 4), "the slots are full");
	kept = kit_receive(a);
	is_int(2, kit_value(kept), "the first hears all since it joined");
	item = kit_receive(b);
	is_int(3, kit_value(item), "so does the second");
	t = kit_tensor(item, 0);
	ok(!tarn_storage_writable(tarn_tensor_storage(t)), "read-only");
	is_int(-EROFS, tarn_tensor_set_i64(t, (int64_t[]) {0}, 1), "truly");
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	is_int(-ETIMEDOUT, kit_put(out, 0, 4), "each is waited for");
	is_int(3, kit_get(a, 0), "until all have seen it");
	is_int(0, kit_put(out, 0, 5), "then it goes on");
	is_int(-ETIMEDOUT, kit_put(out, 0, 6), "one slot is still read");
	/* Leaving with an item in hand holds nobody up. */
	is_int(0, tarn_channel_leave(a, TARN_CHANNEL_CONSUMER), "it leaves");
	is_int(5, kit_get(b, 0), "one is left");
	is_int(0, kit_put(out, 0, 7), "who is the only one waited for");
	is_int(7, kit_get(b, 0), "and hears");
	is_int(0, kit_put(out, 0, 8), "and again");
	is_int(8, kit_get(b, 0), "and again");
	is_int(2, kit_value(kept), "what was kept is as it was");
	is_int(1, kit_info(out).free, "and keeps its slot");
	is_int(1, kit_info(out).consumers, "though nobody hears it");
	tarn_item_unref(kept);
	is_int(2, kit_info(out).free, "until it is dropped");
	is_int(-ETIMEDOUT, kit_get(a, 0), "who comes back hears from then on");
	is_int(0, kit_put(out, 0, 9), "what is said");
	is_int(9, kit_get(a, 0), "by the one");
	is_int(9, kit_get(b, 0), "and the other");
	tarn_channel_unref(out);
	tarn_channel_unref(a);
	tarn_channel_unref(b);
	tarn_store_remove(store, "cast");
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "channel.sock", (const char *[]) {NULL});
	store = kit_store(server.socket);
	test_tensors(store);
	test_elsewhere(store);
	test_order(store);
	test_outlive(store);
	test_slot_outlives(store);
	test_leave(store);
	test_close(store);
	test_broadcast(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done();
}
