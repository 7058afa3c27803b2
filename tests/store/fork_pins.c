/* SPDX-License-Identifier: MIT */
/*
 * A fork for which no connection can be made: the child reads by its parent's
 * leases. So the parent goes on holding what it had open, whatever it drops,
 * as long as the child or what the child has forked lives; and no longer. It
 * once held it until its own end: a process that forked workers beyond its
 * user's quota of connections filled the memory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/must.h"
#include "tests/kit/store_fork.h"
#include "tests/kit/tap.h"

#define FORKS 30

struct child {
	pid_t pid;
	int go; /* closed: it looks at its tensor, and ends */
};

static int gos[2] = {-1, -1}; /* those that are open */

static int wait_and_look(int go, const tarn_tensor *t)
{
	char byte;

	if (read(go, &byte, 1) != 0)
		return 1;
	return !t || kit_fork_is_right(t) ? 0 : 2;
}

/* forks: the child's own child does it, and the child ends at once. */
static struct child fork_one(tarn_tensor *t, bool connected, bool forks)
{
	struct child child;
	int go[2];

	if (pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	gos[gos[0] >= 0] = go[1];
	fflush(stdout);
	if (!connected)
		kit_fork_hide();
	child.pid = fork();
	if (child.pid == 0) {
		close(gos[0]);
		close(gos[1]);
		if (forks && fork() != 0)
			_exit(0);
		_exit(wait_and_look(go[0], t));
	}
	if (!connected)
		kit_fork_show();
	close(go[0]);
	child.go = go[1];
	return child;
}

static void let_go(const struct child *child)
{
	gos[gos[0] != child->go] = -1;
	close(child->go);
}

static int end(const struct child *child)
{
	let_go(child);
	return kit_fork_finished(child->pid);
}

/* Drops something else, by which the parent comes by, for so many seconds or
 * until there is room: not all children are this process's own. */
static bool room_within(double s)
{
	double end = seconds() + s;
	tarn_tensor *t;
	bool room;

	do {
		must(tarn_store_get_from_file(
			kit_fork_store, kit_fork_small, "b", NULL, &t));
		tarn_tensor_unref(t);
		room = kit_fork_has_room();
		if (!room)
			usleep(10000);
	} while (!room && seconds() < end);
	return room;
}

static bool gets_room(void)
{
	return room_within(60);
}

static bool stays_full(void)
{
	return !room_within(3);
}

static void test_child(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct child child = fork_one(t, false, false);

	tarn_tensor_unref(t);
	ok(!kit_fork_has_room(),
		"what a child reads is held, though its parent has dropped it");
	is_int(0, end(&child), "the child reads the right bytes");
	ok(gets_room(), "it is freed when the child has ended");
}

static void test_parent_holds(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct child child = fork_one(t, false, false);

	is_int(0, end(&child), "a child of a parent that holds on ends");
	ok(stays_full() && kit_fork_is_right(t),
		"what the parent has not dropped is held after that");
	tarn_tensor_unref(t);
	ok(gets_room(), "it is freed when the parent drops it");
}

static void test_two(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct child first = fork_one(t, false, false);
	struct child second = fork_one(t, false, true);

	tarn_tensor_unref(t);
	is_int(0, end(&first), "the first of two children ends");
	is_int(0, kit_fork_finished(second.pid),
		"the second ends when it has forked");
	ok(stays_full(), "what the second's own child reads is held");
	let_go(&second);
	ok(gets_room(), "it is freed when that has ended");
}

/* A connected child has leases of its own, of what its parent has open. That is
 * nothing here: one page of another file would be in the way of the large
 * one. */
static void test_connected(void)
{
	tarn_tensor *t = kit_fork_get_one();
	struct child pinned = fork_one(t, false, false), other;

	tarn_tensor_unref(t);
	other = fork_one(NULL, true, false);
	is_int(2, kit_fork_clients(), "another child has a connection");
	is_int(0, end(&pinned), "a child without a connection ends");
	ok(gets_room(), "a child with one does not hold what that one read");
	is_int(0, end(&other), "the child with a connection ends");
}

static void test_many(void)
{
	tarn_tensor *t = kit_fork_get_one();
	int fds = count_fds(getpid());

	kit_fork_hide();
	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		kit_fork_finished(pid);
	}
	kit_fork_show();
	tarn_tensor_unref(t);
	ok(gets_room(), "nothing is held after %d children", FORKS);
	is_int(fds, count_fds(getpid()), "no descriptor stays open for them");
}

int main(void)
{
	kit_fork_begin();
	test_child();
	test_parent_holds();
	test_two();
	test_connected();
	test_many();
	kit_fork_end();
	return done(17);
}
