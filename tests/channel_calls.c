/* SPDX-License-Identifier: MIT */
/*
 * Channels as a program uses them: made and found by name, filled and read in
 * place, given back in any order, closed; and what is said where it cannot be.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/tarn.h>

#include "tests/channel_kit.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

static struct daemon server;

/* ---- making and finding -------------------------------------------------- */

static void test_open(tarn_store *store)
{
	const struct tarn_channel_options
		none = {0},
		odd = {.slots = 3, .slot_bytes = 5000, .tensors = 2},
		cast = {.mode = TARN_CHANNEL_BROADCAST};
	struct tarn_channel_info info;
	tarn_channel *c, *again;

	is_int(-ENOENT, tarn_channel_open(store, "none", NULL, &c),
		"without options it has to be there");
	is_str("channel 'none': there is none of that name",
		tarn_error_message(), "which is said");
	c = kit_open(store, "defaults", &none);
	info = kit_info(c);
	is_int(TARN_CHANNEL_QUEUE, info.mode, "the default is a queue");
	is_int(8, info.slots, "of 8 slots");
	is_int(4 << 20, (int64_t)info.slot_bytes, "of 4 MiB each");
	is_int(16, info.tensors, "for 16 tensors");
	is_int(8, info.free, "all of them free");
	is_str("defaults", tarn_channel_name(c), "it knows its name");
	again = kit_open(store, "defaults", &odd);
	info = kit_info(again);
	is_int(8, info.slots, "one that is there keeps its geometry");
	tarn_channel_unref(again);
	is_int(-EEXIST, tarn_channel_open(store, "defaults", &cast, &again),
		"another mode is refused");
	is_str("channel 'defaults': it is there, and is a queue, not a "
	       "broadcast",
		tarn_error_message(), "with both");
	tarn_channel_unref(c);
	c = kit_open(store, "odd", &odd);
	is_int(8192, (int64_t)kit_info(c).slot_bytes, "slots are whole pages");
	tarn_channel_unref(c);
	is_int(0, tarn_store_remove(store, "odd"), "a name goes as any other");
	is_int(0, tarn_store_remove(store, "defaults"), "whoever made it");
	is_int(-ENOENT, tarn_channel_open(store, "odd", NULL, &c), "for good");
}

static void test_refused(tarn_store *store)
{
	const struct tarn_channel_options many = {.slots = 70000},
					  tensors = {.tensors = 1025},
					  mode = {.mode = 7},
					  large = {.slot_bytes = UINT64_MAX},
					  huge = {.slot_bytes = 1ull << 50,
						  .slots = 2},
					  flags = {.flags = 8}, none = {0};
	int64_t n = 3;
	struct tarn_publish_item item = {.name = "tensor"};
	tarn_channel *c;
	tarn_tensor *t;

	is_int(-EINVAL, tarn_channel_open(store, "x", &many, &c),
		"too many slots");
	has_str("65536", tarn_error_message(), "and how many may be");
	is_int(-EINVAL, tarn_channel_open(store, "x", &tensors, &c),
		"too many tensors");
	is_int(-EINVAL, tarn_channel_open(store, "x", &mode, &c),
		"no such mode");
	is_int(-EINVAL, tarn_channel_open(store, "x", &flags, &c),
		"no such flags");
	is_int(-EOVERFLOW, tarn_channel_open(store, "x", &large, &c),
		"no such size");
	ok(tarn_channel_open(store, "x", &huge, &c) < 0,
		"more than there is: %s", tarn_error_message());
	is_int(-EINVAL, tarn_channel_open(store, "", &none, &c),
		"no such name");
	if (tarn_store_create(store, TARN_I64, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(-EINVAL, tarn_channel_open(store, "tensor", &none, &c),
		"a tensor is no channel");
	has_str("channel 'tensor': ", tarn_error_message(), "says which");
	tarn_tensor_unref(item.tensor);
	tarn_store_remove(store, "tensor");
	c = kit_open(store, "channel", &none);
	is_int(-EINVAL, tarn_store_lookup(store, "channel", &t),
		"a channel is no tensor");
	has_str("tarn_channel_open", tarn_error_message(), "says how");
	tarn_channel_unref(c);
	tarn_store_remove(store, "channel");
}

static int count_names(void *arg, const char *name)
{
	int *n = arg;

	*n += strcmp(name, "a/1") == 0 ? 1 : strcmp(name, "b") == 0 ? 10 : 100;
	return 0;
}

static int count_tensors(void *arg, const char *name,
	const struct tarn_descriptor *descriptor, uint64_t version)
{
	int *n = arg;

	(void)descriptor;
	(void)version;
	*n += strcmp(name, "a/t") == 0 ? 1 : 100;
	return 0;
}

static int stop_at_once(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return 7;
}

static void test_list(tarn_store *store)
{
	const struct tarn_channel_options small = {
		.slots = 1, .slot_bytes = 4096};
	int64_t n = 1;
	struct tarn_publish_item item = {.name = "a/t"};
	tarn_channel *a = kit_open(store, "a/1", &small),
		     *b = kit_open(store, "b", &small);
	int seen = 0;

	if (tarn_store_create(store, TARN_I64, 1, &n, 0, &item.tensor) < 0 ||
		tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_channel_list(store, NULL, count_names, &seen), "listed");
	is_int(11, seen, "all channels, and nothing else");
	seen = 0;
	is_int(0, tarn_channel_list(store, "a/", count_names, &seen),
		"by prefix");
	is_int(1, seen, "the one");
	seen = 0;
	is_int(0, tarn_store_list(store, NULL, count_tensors, &seen),
		"tensors are listed");
	is_int(1, seen, "and no channel among them");
	is_int(7, tarn_channel_list(store, NULL, stop_at_once, NULL),
		"until it is said to stop");
	tarn_tensor_unref(item.tensor);
	tarn_channel_unref(a);
	tarn_channel_unref(b);
	tarn_store_remove(store, "a/1");
	tarn_store_remove(store, "a/t");
	tarn_store_remove(store, "b");
}

/* ---- one item --------------------------------------------------------------
 */

static void fill(tarn_tensor *t, unsigned char with)
{
	memset(tarn_tensor_data(t), with,
		(size_t)tarn_layout_nbytes(tarn_tensor_layout(t)));
}

static void test_tensors(tarn_store *store)
{
	const struct tarn_channel_options options = {
		.slots = 2, .slot_bytes = 4096, .tensors = 3};
	const int64_t a[] = {3, 5}, b[] = {7}, big[] = {4096};
	tarn_channel *c = kit_open(store, "tensors", &options);
	tarn_slot *slot = kit_acquire(c);
	tarn_tensor *t, *u, *view;
	tarn_item *item;
	const void *tag;
	size_t size;

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
	is_int(-ENOSPC, tarn_slot_empty(slot, TARN_U8, 1, big, &view),
		"more than is left");
	is_str("channel 'tensors': a tensor of 4096 bytes, and 3968 of the "
	       "slot's 4096 are left",
		tarn_error_message(), "says how much that is");
	if (tarn_tensor_view(t, ".transpose(0, 1)[1:]", &view) < 0)
		bail("%s", tarn_error_message());
	is_int(0, tarn_slot_set(slot, 0, tarn_tensor_layout(view)),
		"it may be sent as a view");
	is_int(-ERANGE, tarn_slot_set(slot, 2, tarn_tensor_layout(view)),
		"but not what is not there");
	is_int(0, tarn_slot_add(slot, view), "a view of this slot is added");
	is_int(-E2BIG, tarn_slot_empty(slot, TARN_U8, 1, b, &t),
		"a fourth is too many");
	has_str("3 tensors", tarn_error_message(), "of three");
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
	is_int(3, tarn_item_count(item), "three tensors come");
	tag = tarn_item_tag(item, &size);
	is_int(5, (int64_t)size, "the tag's size");
	is_mem("hello", tag, 5, "and the tag");
	ok(!tarn_item_redelivered(item), "for the first time");
	for (uint32_t i = 0; i < 3; i += 2) {
		double value = 0;

		t = kit_tensor(item, i);
		is_int(4, tarn_tensor_layout(t)->shape[0], "%u: as the view",
			i);
		is_int(3, tarn_tensor_layout(t)->shape[1], "%u: that it was",
			i);
		tarn_tensor_get_f64(t, (int64_t[]) {3, 2}, &value);
		ok(value == 24.5, "%u: with its value", i);
		ok(tarn_storage_writable(tarn_tensor_storage(t)),
			"%u: a queue's item is the consumer's", i);
		tarn_tensor_unref(t);
	}
	t = kit_tensor(item, 1);
	is_mem("\t\t\t\t\t\t\t", tarn_tensor_data(t), 7, "the other's bytes");
	tarn_tensor_unref(t);
	is_int(-ERANGE, tarn_item_tensor(item, 3, &t), "there is no fourth");
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

/* ---- order, waiting, the end
 * ------------------------------------------------- */

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
	next = kit_open(store, "close", &options);
	is_int(0, (int64_t)kit_info(next).closed,
		"a new one takes the name of one that is closed");
	is_int(0, kit_put(next, 0, 30), "and works");
	is_int(2, kit_get(late, 0), "late consumers drain the old one");
	is_int(-EPIPE, kit_get(late, 0), "to its end");
	is_int(-EPIPE, kit_get(c, 0), "all of them");
	is_int(30, kit_get(next, 0), "and the new one goes on");
	tarn_channel_unref(c);
	tarn_channel_unref(late);
	tarn_channel_unref(next);
	tarn_store_remove(store, "close");
}

/* ---- broadcast
 * ---------------------------------------------------------------- */

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

/* Made for a while: its name goes with the last. */
static void test_ephemeral(tarn_store *store)
{
	const struct tarn_channel_options options = {.slots = 2,
		.slot_bytes = 4096,
		.flags = TARN_CHANNEL_EPHEMERAL};
	tarn_channel *c = kit_open(store, "ephemeral", &options),
		     *again = kit_open(store, "ephemeral", NULL);

	tarn_channel_unref(again);
	again = kit_open(store, "ephemeral", NULL);
	ok(true, "who has not joined does not leave");
	kit_put(c, 0, 1);
	is_int(1, kit_get(again, 0), "it works");
	tarn_channel_unref(c);
	c = kit_open(store, "ephemeral", NULL);
	tarn_channel_unref(c);
	tarn_channel_unref(again);
	is_int(-ENOENT, tarn_channel_open(store, "ephemeral", NULL, &c),
		"its name goes with the last who took part");
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "channel.sock", (const char *[]) {NULL});
	store = kit_store(server.socket);
	test_open(store);
	test_refused(store);
	test_list(store);
	test_tensors(store);
	test_elsewhere(store);
	test_order(store);
	test_outlive(store);
	test_slot_outlives(store);
	test_leave(store);
	test_close(store);
	test_broadcast(store);
	test_ephemeral(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends");
	return done();
}
