/* SPDX-License-Identifier: MIT */
/*
 * The structs of slots and items are used again after their end, and lend
 * their first tensor its memory. So no two callers may get the same one, in
 * whatever order the parts are dropped and however many there are at once.
 */
#include <errno.h>
#include <pthread.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { MANY = 40, TURNS = 3, ASKED = 2000, LAYOUTS = 600 };

static struct daemon server;

static tarn_channel *opened(tarn_store *store, uint32_t slots)
{
	const struct tarn_channel_options options = {
		.slots = slots, .slot_bytes = 4096};

	return kit_channel_open(store, "handles", &options);
}

static void closed(tarn_store *store, tarn_channel *c)
{
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "handles"));
}

static tarn_tensor *number(tarn_slot *slot, int64_t value)
{
	const int64_t one = 1, zero = 0;
	tarn_tensor *t;

	if (tarn_slot_new_tensor(slot, TARN_I64, 1, &one, &t) < 0)
		bail("%s", tarn_error_message());
	must(tarn_tensor_set_i64(t, &zero, value));
	return t;
}

static int64_t value_of(const tarn_tensor *t)
{
	const int64_t zero = 0;
	int64_t value = -1;

	if (tarn_tensor_get_i64(t, &zero, &value) < 0)
		bail("%s", tarn_error_message());
	return value;
}

/* ---- many at once ----------------------------------------------------- */

/* More than are ever kept, each with a number of its own, ended crosswise. */
static int64_t cross(tarn_channel *c, int64_t turn)
{
	tarn_slot *slots[MANY];
	tarn_item *items[MANY];
	tarn_tensor *tensors[MANY];
	int64_t wrong = 0;

	for (int i = 0; i < MANY; i++) {
		slots[i] = kit_channel_acquire(c);
		tensors[i] = number(slots[i], turn * MANY + i);
	}
	for (int i = 0; i < MANY; i++)
		wrong += value_of(tensors[i]) != turn * MANY + i;
	for (int i = 0; i < MANY; i++) {
		int at = i * 7 % MANY;

		if (at % 2)
			tarn_tensor_unref(tensors[at]);
		if (tarn_slot_publish(slots[at]) < 0)
			bail("%s", tarn_error_message());
		if (at % 2 == 0)
			tarn_tensor_unref(tensors[at]);
	}
	for (int i = 0; i < MANY; i++) {
		items[i] = kit_channel_receive(c);
		tensors[i] = i % 3 ? kit_channel_tensor(items[i], 0) : NULL;
	}
	for (int i = 0; i < MANY; i++) {
		int at = i * 11 % MANY;

		if (at % 2)
			tarn_item_unref(items[at]);
		if (tensors[at])
			wrong += value_of(tensors[at]) !=
				 turn * MANY + at * 7 % MANY;
		tarn_tensor_unref(tensors[at]);
		if (at % 2 == 0)
			tarn_item_unref(items[at]);
	}
	return wrong;
}

static void test_many(tarn_store *store)
{
	tarn_channel *c = opened(store, MANY);
	int64_t wrong = 0;

	for (int64_t turn = 0; turn < TURNS; turn++)
		wrong += cross(c, turn);
	is_int(0, wrong, "each of many at once has its own number");
	is_int(MANY, kit_channel_info(c).free,
		"all of the many slots come back");
	closed(store, c);
}

/* ---- what is dropped first -------------------------------------------- */

/* Three tensors; asked for: the bits of a number; dropped in this order. */
static void drop(tarn_channel *c, unsigned asked, bool item_first)
{
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *t[3] = {NULL};
	tarn_item *item;

	for (int i = 0; i < 3; i++)
		t[i] = number(slot, i);
	for (int i = 0; i < 3 && !item_first; i++)
		t[i] = tarn_tensor_unref(t[i]);
	if (tarn_slot_publish(slot) < 0)
		bail("%s", tarn_error_message());
	for (int i = 2; i >= 0; i--)
		t[i] = tarn_tensor_unref(t[i]);
	item = kit_channel_receive(c);
	for (unsigned i = 0; i < 3; i++)
		t[i] = asked >> i & 1 ? kit_channel_tensor(item, i) : NULL;
	if (item_first)
		item = tarn_item_unref(item);
	for (int i = 0; i < 3; i++)
		tarn_tensor_unref(t[i]);
	tarn_item_unref(item);
}

static void test_dropped(tarn_store *store)
{
	tarn_channel *c = opened(store, 2);
	uint32_t wrong = 0;

	for (unsigned asked = 0; asked < 8; asked++)
		for (int first = 0; first < 2; first++) {
			drop(c, asked, first);
			wrong += kit_channel_info(c).free != 2;
		}
	is_int(0, wrong,
		"the slot comes back in whatever order its parts are dropped");
	closed(store, c);
}

/* What was asked for in vain leaves its place to the next. */
static void test_in_vain(tarn_store *store)
{
	tarn_channel *c = opened(store, 2);
	tarn_tensor *kept = kit_channel_publish(store, "kept", 3), *t, *other;
	tarn_slot *slot = kit_channel_acquire(c);
	const int64_t large = 5000;
	tarn_item *item;

	is_int(-ENOSPC, tarn_slot_new_tensor(slot, TARN_U8, 1, &large, &t),
		"a tensor larger than the slot is refused");
	if (tarn_slot_add(slot, kept) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(number(slot, 5));
	must(tarn_slot_publish(slot));
	item = kit_channel_receive(c);
	other = kit_channel_tensor(item, 0);
	is_int(-ERANGE, tarn_item_tensor(item, 2, &t),
		"one tensor more than the channel allows is refused");
	t = kit_channel_tensor(item, 1);
	is_int(5, value_of(t), "the next tensor of the item is read");
	tarn_item_unref(item);
	is_int(1, kit_channel_info(c).reading,
		"a tensor keeps the slot after its item was released");
	tarn_tensor_unref(t);
	is_int(2, kit_channel_info(c).free,
		"the slot is kept as long as the tensor exists");
	tarn_tensor_unref(other);
	tarn_tensor_unref(kept);
	must(tarn_store_remove(store, "kept"));
	closed(store, c);
}

/* A slot that its producer left behind, and another has: what is done with the
 * old handle does not reach the other's item. */
static void test_left(tarn_store *store)
{
	tarn_channel *c = opened(store, 1), *other = opened(store, 1);
	tarn_tensor *kept = kit_channel_publish(store, "kept", 3), *t;
	tarn_slot *slot = kit_channel_acquire(c), *its;
	const int64_t one = 1;
	tarn_item *item;

	t = number(slot, 5);
	tarn_channel_leave(c, TARN_CHANNEL_PRODUCER);
	its = kit_channel_acquire(other);
	if (tarn_slot_add(its, kept) < 0)
		bail("%s", tarn_error_message());
	is_int(-ESTALE, tarn_slot_new_tensor(slot, TARN_U8, 1, &one, &t),
		"a slot cannot be filled after its producer left");
	is_int(-ESTALE, tarn_slot_add(slot, kept),
		"a tensor cannot be added to a slot after leaving");
	is_int(-ESTALE, tarn_slot_set_layout(slot, 0, tarn_tensor_layout(t)),
		"a tensor of a slot cannot get a layout after leaving");
	tarn_tensor_unref(t);
	tarn_slot_abandon(slot);
	tarn_tensor_unref(kept);
	must(tarn_store_remove(store, "kept"));
	must(tarn_slot_publish(its));
	item = kit_channel_receive(other);
	t = kit_channel_tensor(item, 0);
	is_int(3, tarn_tensor_layout(t)->shape[0],
		"another producer sends its own tensor in that slot");
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	tarn_channel_unref(other);
	closed(store, c);
}

static void test_twice(tarn_store *store)
{
#ifdef __SANITIZE_ADDRESS__
	skip(4, "AddressSanitizer ends who uses what has ended");
	(void)store;
#else
	tarn_channel *c = opened(store, 2);
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *t;
	const int64_t one = 1;

	must(tarn_slot_publish(slot));
	is_int(-EINVAL, tarn_slot_publish(slot),
		"a slot cannot be published twice");
	is_str("a slot that has ended already", tarn_error_message(),
		"the error is 'a slot that has ended already'");
	is_int(-EINVAL, tarn_slot_new_tensor(slot, TARN_U8, 1, &one, &t),
		"a slot that has ended cannot be filled any more");
	is_int(1, kit_channel_info(c).ready, "one item was published");
	closed(store, c);
#endif
}

/* ---- by two threads ------------------------------------------------------ */

static struct race {
	tarn_item *item;
	tarn_tensor *got[2];
	pthread_barrier_t step; /* both threads take each at once */
} race;

static void ask(int who)
{
	race.got[who] = kit_channel_tensor(race.item, 0);
	tarn_tensor_unref(tarn_tensor_ref(race.got[who]));
}

static void *second(void *unused)
{
	(void)unused;
	for (unsigned turn = 1; turn <= ASKED; turn++) {
		pthread_barrier_wait(&race.step);
		ask(1);
		pthread_barrier_wait(&race.step);
		/* The first one looks at both. */
		pthread_barrier_wait(&race.step);
		tarn_tensor_unref(race.got[1]);
		pthread_barrier_wait(&race.step);
	}
	return NULL;
}

static void test_threads(tarn_store *store)
{
	tarn_channel *c = opened(store, 2);
	int64_t same = 0, wrong = 0;
	pthread_t thread;

	pthread_barrier_init(&race.step, NULL, 2);
	if (pthread_create(&thread, NULL, second, NULL) != 0)
		bail("no thread");
	for (unsigned turn = 1; turn <= ASKED; turn++) {
		kit_channel_put(c, 0, turn);
		race.item = kit_channel_receive(c);
		pthread_barrier_wait(&race.step);
		ask(0);
		pthread_barrier_wait(&race.step);
		same += race.got[0] == race.got[1];
		wrong += value_of(race.got[0]) != turn ||
			 value_of(race.got[1]) != turn;
		tarn_item_unref(race.item);
		pthread_barrier_wait(&race.step);
		tarn_tensor_unref(race.got[0]);
		pthread_barrier_wait(&race.step);
		wrong += kit_channel_info(c).free != 2;
	}
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&race.step);
	is_int(0, same, "two threads that ask at once get a tensor each");
	is_int(0, wrong,
		"both tensors have the same bytes, and the slot comes back");
	closed(store, c);
}

/* ---- of one layout after another ----------------------------------------- */

/* Some like the last one in all but one thing, and some that are no tensors. */
static const struct kind {
	int dtype, ndim;
	int64_t shape[3], size; /* -1: there is none of that */
} kinds[] = {
	{TARN_I64, 1, {6}, 48},
	{TARN_I64, 1, {6}, 48},
	{TARN_F32, 1, {6}, 24},
	{TARN_F32, 2, {6, 1}, 24},
	{TARN_F32, 2, {1, 6}, 24},
	{TARN_F32, 0, {0}, 4},
	{TARN_F32, 2, {6, 0}, 0},
	{TARN_F32, 2, {6, 2}, 48},
	{TARN_F32, 2, {6, -2}, -1},
	{TARN_F32, 2, {6, 2}, 48},
	{TARN_F4, 2, {6, 2}, 6},
	{TARN_F4, 2, {6, 3}, -1},
	{TARN_F4, 2, {6, 2}, 6},
	{0, 2, {6, 2}, -1},
	{TARN_U8, 13, {6, 2}, -1},
	{TARN_U8, -1, {6, 2}, -1},
	{TARN_U8, 3, {4096, 1, 1}, 4096},
	{TARN_U8, 3, {4097, 1, 1}, -1},
	{TARN_U8, 3, {4096, 1, 1}, 4096},
};

static bool is_of(const tarn_tensor *t, const struct kind *kind)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	struct tarn_layout wanted;

	if (tarn_layout_contiguous(
		    kind->dtype, kind->ndim, kind->shape, &wanted) < 0)
		bail("%s", tarn_error_message());
	return tarn_layout_equal(l, &wanted) &&
	       tarn_layout_nbytes(l) == kind->size;
}

/* How much of it is wrong. */
static int pass(tarn_channel *c, const struct kind *kind)
{
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *t = NULL;
	tarn_item *item;
	int wrong, r;

	r = tarn_slot_new_tensor(
		slot, kind->dtype, kind->ndim, kind->shape, &t);
	if (r < 0) {
		tarn_slot_abandon(slot);
		return kind->size >= 0;
	}
	wrong = kind->size < 0 || !is_of(t, kind) ||
		tarn_slot_room(slot) !=
			4096 - (((uint64_t)kind->size + 63) & ~63ull);
	tarn_tensor_unref(t);
	if (tarn_slot_publish(slot) < 0)
		bail("%s", tarn_error_message());
	item = kit_channel_receive(c);
	t = kit_channel_tensor(item, 0);
	wrong += !is_of(t, kind);
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	return wrong;
}

/* A handle remembers what its first tensor was like. */
static void test_layouts(tarn_store *store)
{
	const uint32_t n = sizeof(kinds) / sizeof(kinds[0]);
	tarn_channel *c = opened(store, 2);
	uint32_t roll = 1;
	int wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		wrong += pass(c, &kinds[i]);
	is_int(0, wrong, "each tensor of an item has its own layout");
	for (int i = 0; i < LAYOUTS; i++) {
		roll = roll * 1103515245 + 12345;
		wrong += pass(c, &kinds[(roll >> 16) % n]);
	}
	is_int(0, wrong, "tensors of an item are right in any order");
	closed(store, c);
}

int main(void)
{
	tarn_store *store;

	daemon_start(&server, "handles.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_many(store);
	test_dropped(store);
	test_in_vain(store);
	test_left(store);
	test_twice(store);
	test_threads(store);
	test_layouts(store);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(21);
}
