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
 * Why nothing else is disturbed: a timer that has been stopped sends no signal,
 * and one that it has sent before is handled when the call that stops it
 * returns, at the latest.
 */
#include "daemon/loop/nudge.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/loop/log.h"

/* So long one message may hold the server. Picked: longer than what the kernel
 * takes for any message that does not hold it. */
#define EVERY_NS 5000000

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

void nudge_make(struct nudge *nudge)
{
	/* A log that does not take a line at once goes on with it. */
	const struct sigaction action = {
		.sa_handler = ignore, .sa_flags = SA_RESTART};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

	if (has_plenty())
		return;
	event.sigev_notify_thread_id = gettid();
	nudge->made = sigaction(SIGALRM, &action, NULL) == 0 &&
		      timer_create(CLOCK_MONOTONIC, &event, &nudge->timer) == 0;
	if (!nudge->made)
		log_warning(
			"no_timer", log_text("error", tarn_errno_text(errno)));
}

void nudge_begin(const struct nudge *nudge)
{
	static const struct itimerspec every = {
		.it_value.tv_nsec = EVERY_NS, .it_interval.tv_nsec = EVERY_NS};

	if (nudge->made)
		timer_settime(nudge->timer, 0, &every, NULL);
}

void nudge_end(const struct nudge *nudge)
{
	static const struct itimerspec never;

	if (nudge->made)
		timer_settime(nudge->timer, 0, &never, NULL);
}
