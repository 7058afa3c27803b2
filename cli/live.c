/* SPDX-License-Identifier: MIT */
/*
 * Ends and naps. A signal that arrives between a look at its flag and the sleep
 * would be slept through, so the signals are blocked there, and ppoll lets them
 * in and sleeps in one step; elsewhere they may arrive at any time.
 */
#include "cli/live.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/ending.h"

#define NS 1000000000

static volatile sig_atomic_t ended, resized;
static void (*volatile restore_terminal)(void);

static void on_end(int signal)
{
	if (restore_terminal)
		restore_terminal();
	if (ending_is_first(signal))
		ended = 1;
}

static void on_resize(int signal)
{
	(void)signal;
	resized = 1;
}

/* The library's system calls are restarted: only naps are cut short. */
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

void live_on_end(void (*restore)(void))
{
	const struct sigaction action = {
		.sa_handler = on_resize, .sa_flags = SA_RESTART};

	restore_terminal = restore;
	sigaction(SIGWINCH, &action, NULL);
}

/* Sleeps until a signal, a key, the end of ns, or until the reader of the
 * output has gone. True: a key was pressed. */
static bool nap(int64_t ns, int keys)
{
	struct timespec t = {.tv_sec = ns / NS, .tv_nsec = ns % NS};
	/* poll() reports POLLERR and POLLHUP unasked. */
	struct pollfd p[] = {
		{.fd = STDOUT_FILENO}, {.fd = keys, .events = POLLIN}};
	sigset_t these, before;

	sigemptyset(&these);
	sigaddset(&these, SIGINT);
	sigaddset(&these, SIGTERM);
	sigaddset(&these, SIGWINCH);
	sigprocmask(SIG_BLOCK, &these, &before);
	if (!ended && !resized && ppoll(p, 2, &t, &before) > 0 && p[0].revents)
		ended = 1;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return p[1].revents;
}

bool live_ended(void)
{
	nap(0, -1);
	return ended;
}

int live_wait(double seconds, int keys)
{
	int64_t end = live_now() + (int64_t)(seconds * NS), now;
	unsigned char key;

	while (!ended && !resized && (now = live_now()) < end) {
		if (!nap(end - now, keys))
			continue;
		/* A terminal that hung up ends it, too. */
		if (read(keys, &key, 1) == 1)
			return key;
		ended = 1;
	}
	if (ended)
		return LIVE_ENDED;
	now = resized ? LIVE_RESIZED : LIVE_TIME;
	resized = 0;
	return (int)now;
}

bool live_nap(double seconds)
{
	return live_wait(seconds, -1) != LIVE_ENDED;
}

int64_t live_now(void)
{
	return (int64_t)clock_ns(CLOCK_MONOTONIC);
}
