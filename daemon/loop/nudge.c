/* SPDX-License-Identifier: MIT */
/*
 * A timer of the thread, and a handler that does nothing.
 *
 * Why the wait ends: the kernel closes what it drops on the way out of the
 * call, in this thread. A pending signal is looked at after that, and a socket
 * does not wait for its peer while one is pending. So a signal that comes at
 * any time between the beginning of recvmsg() and the end of the wait ends all
 * waits of that call. One that comes before recvmsg() has been handled by then:
 * the timer goes on, and the next one does it.
 *
 * Why nothing else is disturbed: the handler restarts what sleeps, and what is
 * never restarted, the wait of the loop, begins again by itself.
 *
 * To start and stop a timer takes two system calls, as many as to take a message
 * and to answer it. So it goes on for a while after a message, and is stopped
 * when none has come: a server that is idle is not woken.
 */
#include "daemon/loop/nudge.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/loop/log.h"
#include "daemon/loop/loop.h"

/* So long one message may hold the server. Picked: longer than what the kernel
 * takes for any message that does not hold it. */
#define EVERY_NS 5000000
/* Between two looks whether there was a message. Picked. */
#define IDLE_NS 100000000ull

/* With this many, the descriptors that all clients together may take
 * (keeper_limit_clients), including those for storages and unfinished messages,
 * leave a tenth. The units in systemd/ ask for this number. */
#define PLENTY (1u << 20)

/* Not every libc has a name for it. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static void ignore(int number)
{
	(void)number;
}

static bool has_plenty(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	       limit.rlim_cur >= PLENTY;
}

void nudge_make(struct nudge *nudge, struct deadlines *deadlines)
{
	/* A log that does not take a line at once goes on with it. */
	const struct sigaction action = {
		.sa_handler = ignore, .sa_flags = SA_RESTART};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

	nudge->deadlines = deadlines;
	if (has_plenty())
		return;
	event.sigev_notify_thread_id = gettid();
	nudge->made = sigaction(SIGALRM, &action, NULL) == 0 &&
		      timer_create(CLOCK_MONOTONIC, &event, &nudge->timer) == 0;
	if (!nudge->made)
		log_warning(
			"no_timer", log_text("error", tarn_errno_text(errno)));
}

static void set(const struct nudge *nudge, long every_ns)
{
	const struct itimerspec every = {
		.it_value.tv_nsec = every_ns, .it_interval.tv_nsec = every_ns};

	timer_settime(nudge->timer, 0, &every, NULL);
}

static void stop_when_idle(void *arg);

static void look_later(struct nudge *nudge)
{
	nudge->used = false;
	deadline_call(nudge->deadlines, &nudge->look, loop_now() + IDLE_NS,
		stop_when_idle, nudge);
}

static void stop_when_idle(void *arg)
{
	struct nudge *nudge = arg;

	if (nudge->used)
		look_later(nudge);
	else
		set(nudge, 0);
}

void nudge_begin(struct nudge *nudge)
{
	if (!nudge->made)
		return;
	if (!nudge->look.at) {
		set(nudge, EVERY_NS);
		look_later(nudge);
	}
	nudge->used = true;
}
