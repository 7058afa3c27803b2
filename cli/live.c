/* SPDX-License-Identifier: MIT */
/*
 * Ends and naps. A signal that comes between a look at the flag and the sleep
 * would be slept through, so both signals are let in by ppoll alone, which
 * does it and sleeps in one step; elsewhere they are welcome at any time.
 */
#include "cli/live.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ending.h"

#define NS 1000000000

static volatile sig_atomic_t ended;

static void on_end(int signal)
{
	if (ending_is_first(signal))
		ended = 1;
}

/* What the library is in the middle of goes on: only naps are cut short. */
static void take(int signal)
{
	struct sigaction old,
		new = {.sa_handler = on_end, .sa_flags = SA_RESTART};

	if (sigaction(signal, NULL, &old) < 0 || old.sa_handler == SIG_IGN)
		return;
	sigaction(signal, &new, NULL);
}

void live_begin(void)
{
	take(SIGINT);
	take(SIGTERM);
}

/* Sleeps until a signal, the end of ns, or that of who reads the output. */
static void nap(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / NS, .tv_nsec = ns % NS};
	/* Events that are not asked for: an error is told all the same. */
	struct pollfd output = {.fd = STDOUT_FILENO};
	sigset_t both, before;

	sigemptyset(&both);
	sigaddset(&both, SIGINT);
	sigaddset(&both, SIGTERM);
	sigprocmask(SIG_BLOCK, &both, &before);
	if (!ended && ppoll(&output, 1, &t, &before) > 0)
		ended = 1;
	sigprocmask(SIG_SETMASK, &before, NULL);
}

bool live_ended(void)
{
	nap(0);
	return ended;
}

bool live_nap(double seconds)
{
	int64_t end = live_now() + (int64_t)(seconds * NS), now;

	while (!ended && (now = live_now()) < end)
		nap(end - now);
	return !ended;
}

int64_t live_now(void)
{
	return (int64_t)clock_ns(CLOCK_MONOTONIC);
}
