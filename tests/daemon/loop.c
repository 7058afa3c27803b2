/* SPDX-License-Identifier: MIT */
/*
 * Both loops do the same: level-triggered readiness, changes of mind,
 * deadlines, and callbacks that take away their own watch or one that is ready
 * in the same batch. Hang-ups are in loop_hang_up.c.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/kit/loop.h"
#include "tests/kit/tap.h"

#define PAIRS 200 /* more than a batch of either loop */

static void readiness(void)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, LOOP_READ, kit_loop_read_one, &end,
		&end.watch);
	ok(kit_loop_runs_out(20),
		"no callback is called without something to read");
	is_int(0, end.calls,
		"a callback without anything to read is not called");
	kit_loop_send(&end, "abc");
	end.stop_after = 3;
	ok(!kit_loop_runs_out(5000),
		"a callback that leaves something is called again");
	is_int(3, end.calls,
		"a callback that reads a byte a call is called for each");
	is_int(LOOP_READ, end.ready,
		"the callback gets the flag of what is ready");
	ok(kit_loop_runs_out(20), "the loop calls no further callback");
	is_int(3, end.calls, "the callback is not called again");
	kit_loop_drop(&end);
}

static void wishes(void)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, LOOP_READ | LOOP_WRITE, kit_loop_note,
		&end, &end.watch);
	end.stop_after = 5;
	ok(!kit_loop_runs_out(5000),
		"a writable socket calls its callback again and again");
	is_int(LOOP_WRITE, end.ready, "writable and not readable");
	kit_loop_send(&end, "x");
	end.stop_after = 6;
	kit_loop_runs_out(5000);
	is_int(LOOP_READ | LOOP_WRITE, end.ready,
		"one callback gets both readiness flags at once");
	is_int(0, loop_change(end.watch, LOOP_READ),
		"a watch is changed to read only");
	end.stop_after = end.calls + 1;
	kit_loop_runs_out(5000);
	is_int(LOOP_READ, end.ready,
		"a change of the watch hides the old readiness");
	loop_change(end.watch, 0);
	end.calls = end.stop_after = 0;
	ok(kit_loop_runs_out(20) && end.calls == 0,
		"a watch for nothing is not called");
	loop_change(end.watch, LOOP_READ);
	end.stop_after = 1;
	ok(!kit_loop_runs_out(5000),
		"a watch that wants to read again is called at once");
	kit_loop_drop(&end);
}

static void change_own(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;

	kit_loop_note(arg, ready);
	loop_change(end->watch, end->calls < 3 ? LOOP_WRITE : 0);
	if (end->calls < 3)
		loop_change(end->watch, LOOP_READ | LOOP_WRITE);
}

static void changes_inside(void)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, LOOP_READ | LOOP_WRITE, change_own, &end,
		&end.watch);
	ok(kit_loop_runs_out(50), "a callback changes what its watch wants");
	is_int(3, end.calls, "a callback is called until it wants nothing");
	kit_loop_drop(&end);
}

static void leave(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;

	kit_loop_note(arg, ready);
	end->watch = loop_unwatch(end->watch);
	close(end->fd);
	end->fd = -1;
}

/* Unwatched, the number is used again at once by another descriptor: the
 * new watch must see its own events and none of the old one's. */
static void leaving(void)
{
	struct kit_loop_end a, b;

	kit_loop_fresh(&a);
	kit_loop_send(&a, "x");
	loop_watch(kit_loop, a.fd, LOOP_READ, leave, &a, &a.watch);
	ok(kit_loop_runs_out(30), "a callback ends its own watch");
	is_int(1, a.calls, "the callback that ended its watch was called once");
	close(a.peer);

	kit_loop_fresh(&a);
	kit_loop_send(&a, "x");
	loop_watch(kit_loop, a.fd, LOOP_READ, kit_loop_note, &a, &a.watch);
	a.watch = loop_unwatch(a.watch);
	close(a.fd);
	kit_loop_fresh(&b);
	loop_watch(kit_loop, b.fd, LOOP_READ, kit_loop_note, &b, &b.watch);
	is_int(a.fd, b.fd, "a new watch has the ended one's number");
	ok(kit_loop_runs_out(30),
		"an event of the ended watch does not call the new one");
	is_int(0, a.calls + b.calls,
		"no callback is called for the ended watch");
	close(a.peer);
	kit_loop_drop(&b);
}

static void after_unwatch(void)
{
	struct kit_loop_end end;
	char c;

	kit_loop_fresh(&end);
	loop_watch(
		kit_loop, end.fd, LOOP_READ, kit_loop_note, &end, &end.watch);
	kit_loop_runs_out(10);
	end.watch = loop_unwatch(end.watch);
	close(end.fd);
	is_int(0, recv(end.peer, &c, 1, MSG_DONTWAIT),
		"the peer sees the end when a descriptor is closed after "
		"unwatch");
	close(end.peer);
}

static void kill_victim(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;

	kit_loop_read_one(arg, ready);
	if (end->victim->watch) {
		end->victim->watch = loop_unwatch(end->victim->watch);
		end->victim->victim = NULL;
	}
}

/* Two are ready in one batch, and each takes the other away. */
static void duel(void)
{
	struct kit_loop_end a, b;

	kit_loop_fresh(&a);
	kit_loop_fresh(&b);
	a.victim = &b;
	b.victim = &a;
	kit_loop_send(&a, "x");
	kit_loop_send(&b, "x");
	loop_watch(kit_loop, a.fd, LOOP_READ, kill_victim, &a, &a.watch);
	loop_watch(kit_loop, b.fd, LOOP_READ, kill_victim, &b, &b.watch);
	kit_loop_runs_out(30);
	is_int(1, a.calls + b.calls,
		"a watch that a callback of the batch ended is not called");
	kit_loop_drop(&a);
	kit_loop_drop(&b);
}

static void many(void)
{
	static struct kit_loop_end ends[PAIRS];
	int calls = 0;

	for (int i = 0; i < PAIRS; i++) {
		kit_loop_fresh(&ends[i]);
		loop_watch(kit_loop, ends[i].fd, LOOP_READ, kit_loop_read_one,
			&ends[i], &ends[i].watch);
	}
	for (int i = 0; i < PAIRS; i++)
		kit_loop_send(&ends[i], "ab");
	ok(kit_loop_runs_out(200), "%d descriptors are served at once", PAIRS);
	for (int i = 0; i < PAIRS; i++)
		calls += ends[i].calls == 2;
	is_int(PAIRS, calls,
		"each of many descriptors is called for both its bytes");
	for (int i = 0; i < PAIRS; i++)
		kit_loop_drop(&ends[i]);
}

static struct deadline each;
static int times;

static void in_5_ms(void)
{
	deadline_set(loop_deadlines(kit_loop), &each, loop_now() + 5000000);
}

static void again(void *arg)
{
	(void)arg;
	if (++times == 3)
		loop_quit(kit_loop);
	else
		in_5_ms();
}

static void deadlines(void)
{
	uint64_t start = loop_now();

	each.fn = again;
	ok(kit_loop_runs_out(30), "a deadline ends the wait");
	ok(loop_now() - start >= 30000000,
		"the deadline does not come before its time");
	times = 0;
	in_5_ms();
	loop_run(kit_loop);
	is_int(3, times, "a deadline's callback sets it anew");
	times = 0;
	in_5_ms();
	deadline_set(loop_deadlines(kit_loop), &each, 0);
	ok(kit_loop_runs_out(20) && times == 0,
		"a cancelled deadline does not come");
	start = loop_now();
	ok(kit_loop_runs_out(0), "a deadline in the past comes at once");
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void stop(void *arg)
{
	loop_quit(kit_loop);
}

/* Once for all callbacks of a turn; before the first wait too. */
static void between(void)
{
	int waits = 0;

	loop_between(kit_loop, count, &waits);
	ok(kit_loop_runs_out(5) && waits >= 1,
		"a call of the loop returns before the first wait");
	waits = 0;
	times = 0;
	in_5_ms();
	loop_run(kit_loop);
	ok(waits >= 3,
		"a function before waiting is called for each of three waits");
	loop_between(kit_loop, stop, NULL);
	ok(!kit_loop_runs_out(5000),
		"a function that ends the loop before a wait prevents it");
	loop_between(kit_loop, NULL, NULL);
}

/* A child that inherits a loop lets go of it and changes nothing. */
static void across_fork(void)
{
	struct kit_loop_end end;
	pid_t pid;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, LOOP_READ, kit_loop_read_one, &end,
		&end.watch);
	pid = fork();
	if (pid == 0) {
		loop_free(kit_loop);
		_exit(0);
	}
	if (pid < 0)
		bail("fork: %m");
	kit_loop_send(&end, "x");
	end.stop_after = 1;
	ok(!kit_loop_runs_out(5000),
		"a forked child that frees the loop does no harm");
	kit_loop_drop(&end);
}

static void test_all(void)
{
	readiness();
	wishes();
	changes_inside();
	leaving();
	after_unwatch();
	duel();
	many();
	deadlines();
	between();
	across_fork();
}

int main(void)
{
	kit_loop_with_each(test_all, 34);
	return done(70);
}
