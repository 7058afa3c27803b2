/* SPDX-License-Identifier: MIT */
/*
 * Tensors of the pool that are sent as they are. The item keeps them: whatever
 * becomes of the name, of the sender and of its process, the receiver has the
 * bytes; and the memory is given back as soon as no consumer can receive it
 * any more.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define SMALL 1000l   /* numbers: in a pool */
#define LARGE 400000l /* a memfd of its own */

static struct daemon server;
static tarn_store *store;

static uint64_t used(void)
{
	struct tarn_report_daemon s;

	if (report_daemon(store, &s) < 0)
		bail("%s", tarn_error_message());
	return s.used;
}

static bool is_used(void *arg)
{
	return used() == *(const uint64_t *)arg;
}

static bool used_becomes(uint64_t wanted)
{
	return kit_channel_comes_true(is_used, &wanted);
}

/* What a test has removed may still be on its way out. */
static void settle(void)
{
	if (!used_becomes(0))
		bail("%llu bytes are left", (unsigned long long)used());
}

/* An item of that tensor and of one number in its slot. */
static tarn_slot *filled(tarn_channel *c, tarn_tensor *t)
{
	const int64_t one = 1;
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_tensor *number;

	if (tarn_slot_new_tensor(slot, TARN_I64, 1, &one, &number) < 0 ||
		tarn_slot_add(slot, t) < 0)
		bail("%s", tarn_error_message());
	must(tarn_tensor_set_i64(number, (int64_t[]) {0}, 5));
	tarn_tensor_unref(number);
	return slot;
}

static void send(tarn_channel *c, tarn_tensor *t)
{
	if (tarn_slot_publish(filled(c, t)) < 0)
		bail("%s", tarn_error_message());
}

static bool is_whole(tarn_tensor *t, int64_t n)
{
	const int64_t *p = tarn_tensor_data(t);

	if (tarn_tensor_layout(t)->shape[0] != n)
		return false;
	for (int64_t i = 0; i < n; i++)
		if (p[i] != i)
			return false;
	return true;
}

static const struct tarn_channel_options small = {
	.slots = 3, .slot_bytes = 4096, .tensors = 4};

/* ---- in flight --------------------------------------------------------- */

static void test_kept(int64_t n)
{
	tarn_channel *c = kit_channel_open(store, "kept", &small);
	uint64_t before = used(), with;
	tarn_tensor *t = kit_channel_publish(store, "t", n);
	tarn_item *item;

	with = used();
	ok(with > before, "%ld: a tensor takes memory of the pool", (long)n);
	send(c, t);
	tarn_tensor_unref(t);
	is_int(0, tarn_store_remove(store, "t"),
		"%ld: the tensor's name is removed", (long)n);
	is_int(0, report_daemon(store, &(struct tarn_report_daemon) {0}),
		"%ld: the server has looked for references", (long)n);
	is_int((int64_t)with, (int64_t)used(),
		"%ld: an item keeps the tensor without a name", (long)n);
	item = kit_channel_receive(c);
	is_int(2, tarn_item_count(item),
		"%ld: both tensors of the item are received", (long)n);
	ok(tarn_item_has_stored(item), "%ld: one of the tensors is the store's",
		(long)n);
	is_int(5, kit_channel_value(item),
		"%ld: the tensor in the slot is read", (long)n);
	t = kit_channel_tensor(item, 1);
	ok(is_whole(t, n), "%ld: the tensor of the pool is read", (long)n);
	tarn_item_unref(item);
	is_int(3, kit_channel_info(c).free,
		"%ld: the tensor of the pool does not keep the slot", (long)n);
	is_int((int64_t)with, (int64_t)used(),
		"%ld: the tensor of the pool does not need the slot", (long)n);
	ok(is_whole(t, n), "%ld: the tensor of the pool keeps its bytes",
		(long)n);
	tarn_tensor_unref(t);
	ok(used_becomes(before), "%ld: the tensor is freed when it is dropped",
		(long)n);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "kept"));
}

static void test_view(void)
{
	tarn_channel *c = kit_channel_open(store, "views", &small);
	tarn_tensor *t = kit_channel_publish(store, "t", SMALL), *view, *got;
	tarn_item *item;
	int64_t value = -1;

	if (tarn_tensor_eval(t, "[10:100:3]", &view) < 0)
		bail("%s", tarn_error_message());
	send(c, view);
	item = kit_channel_receive(c);
	got = kit_channel_tensor(item, 1);
	is_int(30, tarn_tensor_layout(got)->shape[0],
		"a view of a tensor is sent as a view");
	must(tarn_tensor_get_i64(got, (int64_t[]) {29}, &value));
	is_int(97, value, "the received view has its elements");
	ok(tarn_tensor_same_storage(got, t),
		"the received view has the tensor's storage");
	tarn_item_unref(item);
	tarn_tensor_unref(got);
	tarn_tensor_unref(view);
	tarn_tensor_unref(t);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "views"));
	must(tarn_store_remove(store, "t"));
}

/* ---- what is never received -------------------------------------------- */

static void test_not_sent(void)
{
	tarn_channel *c = kit_channel_open(store, "not", &small);
	uint64_t before = used();
	tarn_tensor *t = kit_channel_publish(store, "t", LARGE);
	tarn_slot *slot = filled(c, t);

	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "t"));
	ok(used() > before, "a slot keeps a tensor while it is filled");
	tarn_slot_abandon(slot);
	ok(used_becomes(before), "an abandoned slot does not keep the tensor");
	t = kit_channel_publish(store, "t", LARGE);
	slot = filled(c, t);
	must(tarn_channel_close(c));
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "t"));
	is_int(-EPIPE, tarn_slot_publish(slot),
		"an item of a closed channel is refused");
	ok(used_becomes(before), "a refused item keeps no tensor");
	tarn_channel_unref(c);
	may_fail(tarn_store_remove(store, "not"));
}

static void test_channel_goes(void)
{
	uint64_t before = used();
	tarn_channel *c = kit_channel_open(store, "goes", &small);
	tarn_tensor *t = kit_channel_publish(store, "t", LARGE);

	send(c, t);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "t"));
	tarn_channel_unref(c);
	ok(used() > before,
		"an item that no one has received keeps the tensor");
	must(tarn_store_remove(store, "goes"));
	ok(used_becomes(before), "the tensor is freed with the channel");
}

static void test_broadcast(void)
{
	struct tarn_channel_options cast = small;
	tarn_channel *out, *in[2];
	uint64_t before;
	tarn_tensor *t;

	cast.mode = TARN_CHANNEL_BROADCAST;
	out = kit_channel_open(store, "cast", &cast);
	for (int i = 0; i < 2; i++) {
		in[i] = kit_channel_open(store, "cast", NULL);
		must(tarn_channel_join(in[i], TARN_CHANNEL_CONSUMER));
	}
	before = used();
	for (int round = 0; round < 2; round++) {
		t = kit_channel_publish(store, "t", LARGE);
		send(out, t);
		tarn_tensor_unref(t);
		must(tarn_store_remove(store, "t"));
		is_int(5, kit_channel_get(in[0], 0),
			"the first of two consumers receives the item");
		ok(used() > before,
			"the item keeps the tensor until the second has "
			"received it");
		/* The second has seen it, or leaves, which is the same. */
		if (round)
			tarn_channel_unref(in[1]);
		else
			is_int(5, kit_channel_get(in[1], 0),
				"the second consumer receives the item as "
				"well");
		ok(used_becomes(before),
			"the tensor is freed when both consumers are done");
	}
	tarn_channel_unref(out);
	tarn_channel_unref(in[0]);
	must(tarn_store_remove(store, "cast"));
}

/* Sent to nobody: there is none who would release it. */
static void test_unheard(void)
{
	struct tarn_channel_options cast = small;
	tarn_channel *c;
	uint64_t before;
	tarn_slot *slot;
	tarn_tensor *t;

	cast.mode = TARN_CHANNEL_BROADCAST;
	c = kit_channel_open(store, "unheard", &cast);
	before = used();
	t = kit_channel_publish(store, "t", LARGE);
	slot = filled(c, t);
	tarn_tensor_unref(t);
	must(tarn_store_remove(store, "t"));
	is_int(0, report_daemon(store, &(struct tarn_report_daemon) {0}),
		"the server answers after it has looked");
	ok(used() > before, "a slot that is filled keeps a tensor");
	is_int(0, tarn_slot_publish(slot),
		"an item is broadcast without consumers");
	is_int(3, kit_channel_info(c).free,
		"an item without consumers frees its slot");
	ok(used_becomes(before), "an item without consumers keeps no tensor");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "unheard"));
}

/* ---- the dead ---------------------------------------------------------- */

/* A child with a channel of its own, that does so much and is killed. */
static void die_with(int step)
{
	tarn_store *own = kit_channel_store(server.socket);
	tarn_channel *c = kit_channel_open(own, "dead", NULL);
	tarn_tensor *t;
	tarn_item *item;

	if (tarn_store_lookup(own, "t", &t) < 0)
		_exit(1);
	if (step == 0)
		filled(c, t);
	else if (step == 1)
		send(c, t);
	else if (tarn_channel_receive(c, 0, &item) < 0)
		_exit(2);
	kill(getpid(), SIGKILL);
}

static void test_dead(void)
{
	tarn_channel *c = kit_channel_open(store, "dead", &small);
	uint64_t before = used();
	struct tarn_channel_info info;
	tarn_item *item;
	tarn_tensor *t;
	int status;

	for (int step = 0; step < 3; step++) {
		pid_t pid;

		t = kit_channel_publish(store, "t", LARGE);
		if (step == 2)
			send(c, t);
		pid = fork();
		if (pid == 0)
			die_with(step);
		waitpid(pid, &status, 0);
		is_int(SIGKILL, WTERMSIG(status), "%d: the child was killed",
			step);
		tarn_tensor_unref(t);
		must(tarn_store_remove(store, "t"));
		if (step == 0) {
			ok(used_becomes(before),
				"a slot of a killed producer keeps no tensor");
			continue;
		}
		is_int(0, tarn_channel_receive(c, 60000, &item),
			"%d: an item from before the kill is received", step);
		is_int(step == 2, tarn_item_redelivered(item),
			"%d: the item is marked if the dead consumer had it",
			step);
		t = kit_channel_tensor(item, 1);
		ok(is_whole(t, LARGE), "%d: the item's tensor has its bytes",
			step);
		info = kit_channel_info(c);
		is_int(1, (int64_t)info.held, "%d: the item is held", step);
		tarn_tensor_unref(t);
		tarn_item_unref(item);
		info = kit_channel_info(c);
		is_int(0, (int64_t)info.held, "%d: no item is held", step);
		ok(used_becomes(before),
			"%d: the tensor is freed after the item", step);
	}
	info = kit_channel_info(c);
	is_int(3, info.free, "no slot is lost by the killed children");
	is_int(1, info.producers + info.consumers - 1,
		"dead participants are not counted");
	/* What the dead have left in free slots is nothing to who fills
	 * them. */
	for (int64_t i = 0; i < 6; i++)
		if (kit_channel_put(c, 0, i) < 0 || kit_channel_get(c, 0) != i)
			bail("%s", tarn_error_message());
	ok(used_becomes(before), "storages of dead participants stay free");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "dead"));
}

/* ---- elsewhere --------------------------------------------------------- */

static void test_elsewhere(void)
{
	struct daemon other;
	tarn_channel *c = kit_channel_open(store, "near", &small);
	tarn_slot *slot = kit_channel_acquire(c);
	tarn_store *far;
	tarn_tensor *t;

	daemon_start(&other, "far.sock", (const char *[]) {NULL});
	far = kit_channel_store(other.socket);
	t = kit_channel_publish(far, "t", SMALL);
	is_int(-ENOTSUP, tarn_slot_add(slot, t),
		"a tensor of another daemon cannot be sent");
	has_str("another pool", tarn_error_message(),
		"the error says that the tensor is in another pool");
	tarn_tensor_unref(t);
	tarn_store_unref(far);
	daemon_stop(&other);
	tarn_slot_abandon(slot);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "near"));
}

int main(void)
{
	struct tarn_check *check;

	daemon_start(&server, "send.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_kept(SMALL);
	settle();
	test_kept(LARGE);
	settle();
	test_view();
	settle();
	test_not_sent();
	settle();
	test_channel_goes();
	settle();
	test_broadcast();
	settle();
	test_unheard();
	settle();
	test_dead();
	settle();
	test_elsewhere();
	settle();
	if (tarn_store_check(store, &check) < 0)
		bail("%s", tarn_error_message());
	is_int(0, check->n_faults, "tarn check finds no fault after all");
	tarn_check_free(check);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(68);
}
