/* SPDX-License-Identifier: MIT */
/*
 * Both loops tell a callback that its peer has hung up, in full or by half,
 * even if the watch wants nothing; and tell a muted one nothing until it wants
 * something again.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/kit/loop.h"
#include "tests/kit/tap.h"

static void hang_up(void)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, 0, kit_loop_note, &end, &end.watch);
	end.stop_after = 1;
	close(end.peer);
	end.peer = -1;
	ok(!kit_loop_runs_out(5000),
		"a watch for nothing is called for a hang-up");
	is_int(LOOP_HANGUP, end.ready,
		"the callback gets the flag of a hang-up");
	loop_change(end.watch, LOOP_READ);
	end.stop_after = 2;
	kit_loop_runs_out(5000);
	is_int(LOOP_HANGUP | LOOP_READ, end.ready,
		"the callback reads the end of the stream");
	kit_loop_drop(&end);
}

/* The peer sends no more, but may receive. */
static void half_hang_up(unsigned want)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, want, kit_loop_note, &end, &end.watch);
	end.stop_after = 1;
	shutdown(end.peer, SHUT_WR);
	ok(!kit_loop_runs_out(10000),
		"a peer that sends no more calls a callback that wants %s",
		want ? "to write" : "nothing");
	is_int(LOOP_HANGUP, end.ready & LOOP_HANGUP,
		"a peer that sends no more sets the flag of a hang-up");
	kit_loop_drop(&end);
}

/* Nothing is told, however the peer ends, until something is wanted again. */
static void mute(int how)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(
		kit_loop, end.fd, LOOP_READ, kit_loop_note, &end, &end.watch);
	end.stop_after = 1;
	loop_mute(end.watch);
	kit_loop_send(&end, "x");
	shutdown(end.peer, how);
	ok(kit_loop_runs_out(50),
		"no event reaches a muted callback after shutdown(%d)", how);
	is_int(0, end.calls, "the muted callback is not called");
	loop_change(end.watch, LOOP_READ);
	ok(!kit_loop_runs_out(10000),
		"a muted watch is called again when it wants to read");
	is_int(LOOP_HANGUP | LOOP_READ, end.ready,
		"the callback gets the bytes and the hang-up");
	kit_loop_drop(&end);
}

/* By its own callback, of a peer that has hung up: no call follows. */
static void mute_own(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;

	kit_loop_note(arg, ready);
	loop_mute(end->watch);
}

static void mute_inside(void)
{
	struct kit_loop_end end;

	kit_loop_fresh(&end);
	loop_watch(kit_loop, end.fd, 0, mute_own, &end, &end.watch);
	end.stop_after = 2;
	shutdown(end.peer, SHUT_RDWR);
	ok(kit_loop_runs_out(50),
		"a callback that mutes its own watch is not called again");
	is_int(1, end.calls, "the callback that muted itself was called once");
	kit_loop_drop(&end);
}

static void test_all(void)
{
	hang_up();
	half_hang_up(0);
	half_hang_up(LOOP_WRITE);
	mute(SHUT_WR);
	mute(SHUT_RDWR);
	mute_inside();
}

int main(void)
{
	kit_loop_with_each(test_all, 17);
	return done(36);
}
