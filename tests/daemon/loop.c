/* SPDX-License-Identifier: MIT */
/*
 * Both loops do the same: level-triggered readiness, hang-ups, changes of
 * mind, deadlines, and callbacks that take away their own watch or one that
 * is ready in the same batch.
 */
#include "daemon/loop/loop.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "tests/kit/tap.h"

#define PAIRS 200 /* more than a batch of either loop */

struct end {
	struct loop *loop;
	struct loop_watch *watch;
	int fd;
	int peer;
	int calls;
	unsigned ready; /* of the last call */
	int stop_after; /* calls, then quit */
	struct end *victim;
};

static struct loop *loop;
static int all_calls;

static void fresh(struct end *end)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		bail("socketpair: %m");
	memset(end, 0, sizeof(*end));
	end->loop = loop;
	end->fd = fds[0];
	end->peer = fds[1];
}

static void drop(struct end *end)
{
	end->watch = loop_unwatch(end->watch);
	close(end->fd);
	if (end->peer >= 0)
		close(end->peer);
}

static void say(struct end *end, const char *text)
{
	if (write(end->peer, text, strlen(text)) != (ssize_t)strlen(text))
		bail("write: %m");
}

struct end_of_run {
	struct deadline deadline;
	uint64_t ns;
	int calls; /* when it was looked at last */
	bool out;
};

/* A process that did not run meanwhile has not called all that is ready: as
 * long as there are calls, it goes on. */
static void timed_out(void *arg)
{
	struct end_of_run *end = arg;

	if (end->calls != all_calls) {
		end->calls = all_calls;
		deadline_set(loop_deadlines(loop), &end->deadline,
			loop_now() + end->ns);
		return;
	}
	end->out = true;
	loop_quit(loop);
}

/* Runs until something quits; true if that was the time-out. */
static bool runs_out(unsigned ms)
{
	struct end_of_run end = {.ns = ms * 1000000ull, .calls = all_calls};

	deadline_call(loop_deadlines(loop), &end.deadline, loop_now() + end.ns,
		timed_out, &end);
	if (loop_run(loop) < 0)
		bail("loop_run: %s", tarn_fail_message());
	deadline_set(loop_deadlines(loop), &end.deadline, 0);
	return end.out;
}

static void note(void *arg, unsigned ready)
{
	struct end *end = arg;

	all_calls++;
	end->calls++;
	end->ready = ready;
	if (end->stop_after && end->calls >= end->stop_after)
		loop_quit(end->loop);
}

static void read_one(void *arg, unsigned ready)
{
	struct end *end = arg;
	char c;

	if (read(end->fd, &c, 1) != 1)
		bail("read: %m");
	note(arg, ready);
}

static void readiness(void)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, LOOP_READ, read_one, &end, &end.watch);
	ok(runs_out(20), "no callback is called without something to read");
	is_int(0, end.calls,
		"a callback without anything to read is not called");
	say(&end, "abc");
	end.stop_after = 3;
	ok(!runs_out(5000), "a callback that leaves something is called again");
	is_int(3, end.calls,
		"a callback that reads a byte a call is called for each");
	is_int(LOOP_READ, end.ready,
		"the callback gets the flag of what is ready");
	ok(runs_out(20), "the loop calls no further callback");
	is_int(3, end.calls, "the callback is not called again");
	drop(&end);
}

static void wishes(void)
{
	struct end end;

	fresh(&end);
	loop_watch(
		loop, end.fd, LOOP_READ | LOOP_WRITE, note, &end, &end.watch);
	end.stop_after = 5;
	ok(!runs_out(5000),
		"a writable socket calls its callback again and again");
	is_int(LOOP_WRITE, end.ready, "writable and not readable");
	say(&end, "x");
	end.stop_after = 6;
	runs_out(5000);
	is_int(LOOP_READ | LOOP_WRITE, end.ready,
		"one callback gets both readiness flags at once");
	is_int(0, loop_change(end.watch, LOOP_READ),
		"a watch is changed to read only");
	end.stop_after = end.calls + 1;
	runs_out(5000);
	is_int(LOOP_READ, end.ready,
		"a change of the watch hides the old readiness");
	loop_change(end.watch, 0);
	end.calls = end.stop_after = 0;
	ok(runs_out(20) && end.calls == 0, "a watch for nothing is not called");
	loop_change(end.watch, LOOP_READ);
	end.stop_after = 1;
	ok(!runs_out(5000),
		"a watch that wants to read again is called at once");
	drop(&end);
}

static void hang_up(void)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, 0, note, &end, &end.watch);
	end.stop_after = 1;
	close(end.peer);
	end.peer = -1;
	ok(!runs_out(5000), "a watch for nothing is called for a hang-up");
	is_int(LOOP_HANGUP, end.ready,
		"the callback gets the flag of a hang-up");
	loop_change(end.watch, LOOP_READ);
	end.stop_after = 2;
	runs_out(5000);
	is_int(LOOP_HANGUP | LOOP_READ, end.ready,
		"the callback reads the end of the stream");
	drop(&end);
}

/* The peer sends no more, but may receive. */
static void half_hang_up(unsigned want)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, want, note, &end, &end.watch);
	end.stop_after = 1;
	shutdown(end.peer, SHUT_WR);
	ok(!runs_out(10000),
		"a peer that sends no more calls a callback that wants %s",
		want ? "to write" : "nothing");
	is_int(LOOP_HANGUP, end.ready & LOOP_HANGUP,
		"a peer that sends no more sets the flag of a hang-up");
	drop(&end);
}

/* Nothing is told, however the peer ends, until something is wanted again. */
static void mute(int how)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, LOOP_READ, note, &end, &end.watch);
	end.stop_after = 1;
	loop_mute(end.watch);
	say(&end, "x");
	shutdown(end.peer, how);
	ok(runs_out(50), "no event reaches a muted callback after shutdown(%d)",
		how);
	is_int(0, end.calls, "the muted callback is not called");
	loop_change(end.watch, LOOP_READ);
	ok(!runs_out(10000),
		"a muted watch is called again when it wants to read");
	is_int(LOOP_HANGUP | LOOP_READ, end.ready,
		"the callback gets the bytes and the hang-up");
	drop(&end);
}

/* By its own callback, of a peer that has hung up: no call follows. */
static void mute_own(void *arg, unsigned ready)
{
	struct end *end = arg;

	note(arg, ready);
	loop_mute(end->watch);
}

static void mute_inside(void)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, 0, mute_own, &end, &end.watch);
	end.stop_after = 2;
	shutdown(end.peer, SHUT_RDWR);
	ok(runs_out(50),
		"a callback that mutes its own watch is not called again");
	is_int(1, end.calls, "the callback that muted itself was called once");
	drop(&end);
}

static void change_own(void *arg, unsigned ready)
{
	struct end *end = arg;

	note(arg, ready);
	loop_change(end->watch, end->calls < 3 ? LOOP_WRITE : 0);
	if (end->calls < 3)
		loop_change(end->watch, LOOP_READ | LOOP_WRITE);
}

static void changes_inside(void)
{
	struct end end;

	fresh(&end);
	loop_watch(loop, end.fd, LOOP_READ | LOOP_WRITE, change_own, &end,
		&end.watch);
	ok(runs_out(50), "a callback changes what its watch wants");
	is_int(3, end.calls, "a callback is called until it wants nothing");
	drop(&end);
}

static void leave(void *arg, unsigned ready)
{
	struct end *end = arg;

	note(arg, ready);
	end->watch = loop_unwatch(end->watch);
	close(end->fd);
	end->fd = -1;
}

/* Unwatched, the number is used again at once by another descriptor: the
 * new watch must see its own events and none of the old one's. */
static void leaving(void)
{
	struct end a, b;

	fresh(&a);
	say(&a, "x");
	loop_watch(loop, a.fd, LOOP_READ, leave, &a, &a.watch);
	ok(runs_out(30), "a callback ends its own watch");
	is_int(1, a.calls, "the callback that ended its watch was called once");
	close(a.peer);

	fresh(&a);
	say(&a, "x");
	loop_watch(loop, a.fd, LOOP_READ, note, &a, &a.watch);
	a.watch = loop_unwatch(a.watch);
	close(a.fd);
	fresh(&b);
	loop_watch(loop, b.fd, LOOP_READ, note, &b, &b.watch);
	is_int(a.fd, b.fd, "a new watch has the ended one's number");
	ok(runs_out(30),
		"an event of the ended watch does not call the new one");
	is_int(0, a.calls + b.calls,
		"no callback is called for the ended watch");
	close(a.peer);
	drop(&b);
}

static void after_unwatch(void)
{
	struct end end;
	char c;

	fresh(&end);
	loop_watch(loop, end.fd, LOOP_READ, note, &end, &end.watch);
	runs_out(10);
	end.watch = loop_unwatch(end.watch);
	close(end.fd);
	is_int(0, recv(end.peer, &c, 1, MSG_DONTWAIT),
		"the peer sees the end when a descriptor is closed after "
		"unwatch");
	close(end.peer);
}

static void kill_victim(void *arg, unsigned ready)
{
	struct end *end = arg;

	read_one(arg, ready);
	if (end->victim->watch) {
		end->victim->watch = loop_unwatch(end->victim->watch);
		end->victim->victim = NULL;
	}
}

/* Two are ready in one batch, and each takes the other away. */
static void duel(void)
{
	struct end a, b;

	fresh(&a);
	fresh(&b);
	a.victim = &b;
	b.victim = &a;
	say(&a, "x");
	say(&b, "x");
	loop_watch(loop, a.fd, LOOP_READ, kill_victim, &a, &a.watch);
	loop_watch(loop, b.fd, LOOP_READ, kill_victim, &b, &b.watch);
	runs_out(30);
	is_int(1, a.calls + b.calls,
		"a watch that a callback of the batch ended is not called");
	drop(&a);
	drop(&b);
}

static void many(void)
{
	static struct end ends[PAIRS];
	int calls = 0;

	for (int i = 0; i < PAIRS; i++) {
		fresh(&ends[i]);
		loop_watch(loop, ends[i].fd, LOOP_READ, read_one, &ends[i],
			&ends[i].watch);
	}
	for (int i = 0; i < PAIRS; i++)
		say(&ends[i], "ab");
	ok(runs_out(200), "%d descriptors are served at once", PAIRS);
	for (int i = 0; i < PAIRS; i++)
		calls += ends[i].calls == 2;
	is_int(PAIRS, calls,
		"each of many descriptors is called for both its bytes");
	for (int i = 0; i < PAIRS; i++)
		drop(&ends[i]);
}

static struct deadline each;
static int times;

static void in_5_ms(void)
{
	deadline_set(loop_deadlines(loop), &each, loop_now() + 5000000);
}

static void again(void *arg)
{
	(void)arg;
	if (++times == 3)
		loop_quit(loop);
	else
		in_5_ms();
}

static void deadlines(void)
{
	uint64_t start = loop_now();

	each.fn = again;
	ok(runs_out(30), "a deadline ends the wait");
	ok(loop_now() - start >= 30000000,
		"the deadline does not come before its time");
	times = 0;
	in_5_ms();
	loop_run(loop);
	is_int(3, times, "a deadline's callback sets it anew");
	times = 0;
	in_5_ms();
	deadline_set(loop_deadlines(loop), &each, 0);
	ok(runs_out(20) && times == 0, "a cancelled deadline does not come");
	start = loop_now();
	ok(runs_out(0), "a deadline in the past comes at once");
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void stop(void *arg)
{
	loop_quit(loop);
}

/* Once for all callbacks of a turn; before the first wait too. */
static void between(void)
{
	int waits = 0;

	loop_between(loop, count, &waits);
	ok(runs_out(5) && waits >= 1,
		"a call of the loop returns before the first wait");
	waits = 0;
	times = 0;
	in_5_ms();
	loop_run(loop);
	ok(waits >= 3,
		"a function before waiting is called for each of three waits");
	loop_between(loop, stop, NULL);
	ok(!runs_out(5000),
		"a function that ends the loop before a wait prevents it");
	loop_between(loop, NULL, NULL);
}

/* A child that inherits a loop lets go of it and changes nothing. */
static void across_fork(void)
{
	struct end end;
	pid_t pid;

	fresh(&end);
	loop_watch(loop, end.fd, LOOP_READ, read_one, &end, &end.watch);
	pid = fork();
	if (pid == 0) {
		loop_free(loop);
		_exit(0);
	}
	if (pid < 0)
		bail("fork: %m");
	say(&end, "x");
	end.stop_after = 1;
	ok(!runs_out(5000), "a forked child that frees the loop does no harm");
	drop(&end);
}

static void all_of_it(const char *kind, const char *name)
{
	setenv("TARN_ENGINE", kind, 1);
	if (loop_new(&loop) < 0) {
		skip(52, "%s: %s", name, tarn_fail_message());
		return;
	}
	diag("%s", name);
	is_str(name, loop_name(loop),
		"the loop has the backend that was asked for");
	readiness();
	wishes();
	hang_up();
	half_hang_up(0);
	half_hang_up(LOOP_WRITE);
	mute(SHUT_WR);
	mute(SHUT_RDWR);
	mute_inside();
	changes_inside();
	leaving();
	after_unwatch();
	duel();
	many();
	deadlines();
	between();
	across_fork();
	loop = loop_free(loop);
}

int main(void)
{
	all_of_it("threads", "epoll");
	all_of_it("io_uring", "io_uring");
	return done(104);
}
