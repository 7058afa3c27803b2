/* SPDX-License-Identifier: MIT */
/*
 * Channels across fork(): parent and child continue with the same handle as
 * two participants. Slots and items from before the fork belong to the parent
 * alone: nothing that the child does with them, nor its death, releases them.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/channel.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/in_call.h"
#include "tests/kit/must.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"

#define LONG_MS 60000
#define FORKS 30

static struct daemon server;
static tarn_store *store;

static const struct tarn_channel_options small = {
	.slots = 4, .slot_bytes = 4096};

/* The number of the first check that failed in a child; 0: none. */
static int wait_for(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

#define CHECK(n, is)                                                           \
	do                                                                     \
		if (!(is))                                                     \
			_exit(n);                                              \
	while (0)

/* ---- what was in hand -------------------------------------------------- */

static _Noreturn void play_child(
	tarn_channel *c, tarn_slot *slot, tarn_item *item, tarn_tensor *t)
{
	const int64_t one = 1;
	tarn_tensor *u;

	CHECK(1, tarn_slot_new_tensor(slot, TARN_I64, 1, &one, &u) == -ESTALE);
	CHECK(2, strstr(tarn_error_message(), "before the fork"));
	CHECK(3, tarn_slot_add(slot, t) == -ESTALE);
	CHECK(4, tarn_item_tensor(item, 0, &u) == -ESTALE);
	CHECK(5, tarn_slot_publish(slot) == -ESTALE);
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	CHECK(6, kit_channel_info(c).reading == 1 &&
			 kit_channel_info(c).filling == 1);
	CHECK(7, kit_channel_get(c, 0) == 2); /* as a consumer of its own */
	CHECK(8, kit_channel_put(c, 0, 3) == 0);
	CHECK(9, kit_channel_info(c).consumers == 2 &&
			 kit_channel_info(c).producers == 2);
	tarn_channel_unref(c);
	tarn_store_unref(store);
	_exit(0);
}

static void test_in_hand(void)
{
	tarn_channel *c = kit_channel_open(store, "hand", &small);
	struct tarn_channel_info info;
	tarn_item *item;
	tarn_slot *slot;
	tarn_tensor *t;
	pid_t pid;

	kit_channel_put(c, 0, 1);
	kit_channel_put(c, 0, 2);
	item = kit_channel_receive(c);
	t = kit_channel_tensor(item, 0);
	slot = kit_channel_acquire(c);
	pid = fork();
	if (pid == 0)
		play_child(c, slot, item, t);
	is_int(0, wait_for(pid),
		"the child has none of the parent's items and slots");
	info = kit_channel_info(c);
	is_int(1, info.reading, "the parent still has its item");
	is_int(1, info.filling, "the parent's slot is still being filled");
	is_int(1, kit_channel_value(item), "the parent's item keeps its value");
	is_int(0, tarn_slot_publish(slot), "the parent publishes its slot");
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	is_int(3, kit_channel_get(c, 0),
		"an item that the child sent is received");
	tarn_item_unref(kit_channel_receive(c));
	is_int(4, kit_channel_info(c).free,
		"no slot is lost after the child's end");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "hand"));
}

static bool one_participant_each(void *arg)
{
	struct tarn_channel_info info = kit_channel_info(arg);

	return info.producers == 1 && info.consumers == 1;
}

static bool all_free(void *arg)
{
	return kit_channel_info(arg).free == 4;
}

/* A child that is killed with things of its own in hand. */
static void test_killed(void)
{
	tarn_channel *c = kit_channel_open(store, "killed", &small);
	tarn_item *item;
	int status;
	pid_t pid;

	kit_channel_put(c, 0, 1);
	kit_channel_put(c, 0, 2);
	item = kit_channel_receive(c);
	pid = fork();
	if (pid == 0) {
		kit_channel_acquire(c);
		if (kit_channel_value(kit_channel_receive(c)) != 2)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, &status, 0);
	is_int(SIGKILL, WTERMSIG(status), "a child is killed");
	ok(kit_channel_comes_true(one_participant_each, c),
		"the server notices the killed child");
	is_int(1, kit_channel_value(item),
		"the parent keeps its item when the child is killed");
	tarn_item_unref(item);
	is_int(0, tarn_channel_receive(c, LONG_MS, &item),
		"the parent receives the dead child's item");
	ok(tarn_item_redelivered(item),
		"the killed child's item is delivered again");
	is_int(2, kit_channel_value(item),
		"the item that is delivered again keeps its value");
	tarn_item_unref(item);
	/* A dead participant stops counting before its slots are looked at. */
	ok(kit_channel_comes_true(all_free, c),
		"no slot is lost after the child was killed");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "killed"));
}

/* The parent is killed first: the child goes on alone. */
static void test_orphan(void)
{
	tarn_channel *c = kit_channel_open(store, "orphan", &small);
	int told[2], go[2], r = -1;
	char byte = 0;
	pid_t pid;

	kit_channel_put(c, 0, 1);
	kit_channel_put(c, 0, 2);
	if (pipe(told) < 0 || pipe(go) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_item *item = kit_channel_receive(c);

		if (fork() == 0) {
			close(go[1]);
			r = read(go[0], &byte, 1) == 0 ? 0 : 1;
			/* The dead one's comes again, first or last. */
			if (r == 0 &&
				kit_channel_get(c, LONG_MS) +
						kit_channel_get(c, LONG_MS) !=
					3)
				r = 2;
			tarn_item_unref(item);
			tarn_channel_unref(c);
			tarn_store_unref(store);
			if (write(told[1], &r, sizeof(r)) < 0)
				_exit(1);
			_exit(0);
		}
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, NULL, 0);
	close(go[0]);
	close(go[1]);
	close(told[1]);
	if (read(told[0], &r, sizeof(r)) != sizeof(r))
		bail("the orphan died");
	is_int(0, r, "a child whose parent was killed continues");
	close(told[0]);
	is_int(4, kit_channel_info(c).free,
		"no slot is lost after the parent was killed");
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "orphan"));
}

/* ---- forks while other threads hand over ------------------------------- */

static atomic_bool stop;

static void *hand_over(void *arg)
{
	for (int64_t i = 0; !stop; i++) {
		int r = kit_channel_put(arg, 50, i);

		if (r < 0 && r != -ETIMEDOUT)
			bail("%s", tarn_error_message());
	}
	return NULL;
}

static void *take(void *arg)
{
	while (!stop) {
		int64_t r = kit_channel_get(arg, 50);

		if (r < 0 && r != -ETIMEDOUT)
			bail("%s", tarn_error_message());
	}
	return NULL;
}

static void test_busy(void)
{
	tarn_channel *c = kit_channel_open(store, "busy", &small),
		     *child_s = kit_channel_open(store, "quiet", &small);
	pthread_t threads[2];
	int failed = 0;

	pthread_create(&threads[0], NULL, hand_over, c);
	pthread_create(&threads[1], NULL, take, c);
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			CHECK(1, kit_channel_put(child_s, LONG_MS, i) == 0);
			CHECK(2, kit_channel_get(child_s, LONG_MS) == i);
			CHECK(3, kit_channel_put(c, LONG_MS, 0) == 0);
			tarn_channel_unref(c);
			tarn_channel_unref(child_s);
			tarn_store_unref(store);
			_exit(0);
		}
		failed += wait_for(pid) != 0;
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	is_int(0, failed, "%d children of a busy parent send and receive",
		FORKS);
	while (kit_channel_get(c, 0) >= 0)
		continue;
	is_int(4, kit_channel_info(c).free,
		"no slot is lost by the children of a busy parent");
	is_int(4, kit_channel_info(child_s).free,
		"no slot of the other channel is lost");
	tarn_channel_unref(c);
	tarn_channel_unref(child_s);
	must(tarn_store_remove(store, "busy"));
	must(tarn_store_remove(store, "quiet"));
}

/* ---- a fork while another thread asks the server ---------------------- */

static atomic_int asker;
static atomic_bool forked;

static bool is_polling(void *arg)
{
	if (!asker)
		return false;
#ifdef SYS_poll
	if (is_in_call(asker, SYS_poll))
		return true;
#endif
	return is_in_call(asker, SYS_ppoll);
}

/* The first guard of a broadcast's item asks for the channel's memory. */
static void *guard(void *tensor)
{
	void *data;

	asker = gettid();
	return tarn_tensor_guard(tensor, &data) < 0 ? tensor : NULL;
}

/* Once the fork is over, or waits for that thread. */
static void *let_answer(void *stopped)
{
	while (!forked && !is_in_call(getpid(), SYS_futex))
		usleep(1000);
	kill(*(pid_t *)stopped, SIGCONT);
	return NULL;
}

static void test_asking(void)
{
	const struct tarn_channel_options all = {
		.slots = 4, .slot_bytes = 4096, .mode = TARN_CHANNEL_BROADCAST};
	tarn_channel *c = kit_channel_open(store, "asked", &all);
	pid_t stopped = server_of(&server), pid;
	pthread_t threads[2];
	tarn_item *item;
	tarn_tensor *t;
	void *failed;

	must(tarn_channel_join(c, TARN_CHANNEL_CONSUMER));
	kit_channel_put(c, 0, 1);
	item = kit_channel_receive(c);
	t = kit_channel_tensor(item, 0);
	kill(stopped, SIGSTOP);
	pthread_create(&threads[0], NULL, guard, t);
	if (!kit_channel_comes_true(is_polling, NULL))
		bail("a guard asks the server nothing");
	pthread_create(&threads[1], NULL, let_answer, &stopped);
	pid = fork();
	if (pid == 0)
		_exit(0);
	forked = true;
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], &failed);
	is_int(0, wait_for(pid),
		"a process forks while a thread of it waits "
		"for the server's answer about a channel");
	ok(!failed, "that thread gets its answer");
	tarn_tensor_unref(t);
	tarn_item_unref(item);
	tarn_channel_unref(c);
	must(tarn_store_remove(store, "asked"));
}

int main(void)
{
	daemon_start(&server, "fork.sock", (const char *[]) {NULL});
	store = kit_channel_store(server.socket);
	test_in_hand();
	test_killed();
	test_orphan();
	test_busy();
	test_asking();
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(22);
}
