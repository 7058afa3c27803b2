/* SPDX-License-Identifier: MIT */
/* See loop.h. */
#include "tests/kit/loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "tests/kit/tap.h"

struct loop *kit_loop;
static int all_calls;

void kit_loop_fresh(struct kit_loop_end *end)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		bail("socketpair: %m");
	memset(end, 0, sizeof(*end));
	end->fd = fds[0];
	end->peer = fds[1];
}

void kit_loop_drop(struct kit_loop_end *end)
{
	end->watch = loop_unwatch(end->watch);
	close(end->fd);
	if (end->peer >= 0)
		close(end->peer);
}

void kit_loop_send(struct kit_loop_end *end, const char *text)
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
		deadline_set(loop_deadlines(kit_loop), &end->deadline,
			loop_now() + end->ns);
		return;
	}
	end->out = true;
	loop_quit(kit_loop);
}

bool kit_loop_runs_out(unsigned ms)
{
	struct end_of_run end = {.ns = ms * 1000000ull, .calls = all_calls};

	deadline_call(loop_deadlines(kit_loop), &end.deadline,
		loop_now() + end.ns, timed_out, &end);
	if (loop_run(kit_loop) < 0)
		bail("loop_run: %s", tarn_fail_message());
	deadline_set(loop_deadlines(kit_loop), &end.deadline, 0);
	return end.out;
}

void kit_loop_note(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;

	all_calls++;
	end->calls++;
	end->ready = ready;
	if (end->stop_after && end->calls >= end->stop_after)
		loop_quit(kit_loop);
}

void kit_loop_read_one(void *arg, unsigned ready)
{
	struct kit_loop_end *end = arg;
	char c;

	if (read(end->fd, &c, 1) != 1)
		bail("read: %m");
	kit_loop_note(arg, ready);
}

static void with(const char *kind, const char *name, void (*test)(void), int n)
{
	setenv("TARN_ENGINE", kind, 1);
	if (loop_new(&kit_loop) < 0) {
		skip(n + 1, "%s: %s", name, tarn_fail_message());
		return;
	}
	diag("%s", name);
	is_str(name, loop_name(kit_loop),
		"the loop has the backend that was asked for");
	test();
	kit_loop = loop_free(kit_loop);
}

void kit_loop_with_each(void (*test)(void), int n)
{
	with("threads", "epoll", test, n);
	with("io_uring", "io_uring", test, n);
}
