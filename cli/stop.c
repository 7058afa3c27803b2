/* SPDX-License-Identifier: MIT */
/*
 * tarn stop: asks the daemon to end, and waits until it is gone, so that the
 * next command finds none, or starts a new one.
 *
 * The idea: a pidfd, taken before it is asked, cannot mean anybody else. In
 * another pid namespace there is none to take; then the socket must tell.
 */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/store.h"

#define WAIT_MS 10000 /* loads under way are finished first */
#define NAP_MS 20

static bool wait_for_end(int pidfd, int64_t deadline)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r = 0;

	while (r <= 0 && clock_ms() < deadline)
		r = poll(&p, 1, (int)(deadline - clock_ms()));
	return r > 0;
}

static bool wait_for_silence(const char *socket, int64_t deadline)
{
	const struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};

	while (clock_ms() < deadline) {
		tarn_store *store = NULL;
		int r = tarn_store_open(socket, &store);

		if (r == -ENOENT || r == -ECONNREFUSED)
			return true;
		tarn_store_unref(store);
		nanosleep(&nap, NULL);
	}
	return false;
}

static int stop(tarn_store **store)
{
	_cleanup_free_ char *socket = must(strdup(tarn_store_socket(*store)));
	int64_t deadline = clock_ms() + WAIT_MS;
	struct tarn_store_status status;
	bool gone;
	int pidfd;

	if (tarn_store_get_status(*store, &status) < 0)
		return say_error();
	pidfd = (int)syscall(SYS_pidfd_open, status.keeper_pid, 0);
	if (tarn_store_stop(*store) < 0) {
		if (pidfd >= 0)
			close(pidfd);
		return say_error();
	}
	*store = tarn_store_unref(*store);
	gone = pidfd >= 0 ? wait_for_end(pidfd, deadline)
			  : wait_for_silence(socket, deadline);
	if (pidfd >= 0)
		close(pidfd);
	if (gone)
		return EXIT_DONE;
	say_failed("the daemon at %s (pid %d) has not ended within %d s",
		socket, status.keeper_pid, WAIT_MS / 1000);
	say_hint("it finishes %llu loads first; 'tarn stop' waits again",
		(unsigned long long)status.loads_active);
	return EXIT_FAILED;
}

int cmd_stop(int argc, char **argv)
{
	_cleanup_store_ tarn_store *store = NULL;
	const char *socket = NULL;
	const struct option_row rows[] = {OPTION_SOCKET(&socket), {0}};
	const struct usage usage = {.verb = "stop",
		.arguments = "[OPTION]...",
		.about = "Asks the daemon to end and waits until it has. Loads "
			 "under way are finished\nfirst; who has a tensor open "
			 "keeps it.",
		.options = rows};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	return stop(&store);
}
