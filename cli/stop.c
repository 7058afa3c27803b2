/* SPDX-License-Identifier: MIT */
/*
 * tarn stop: asks the daemon to end, and waits until it is gone, so that the
 * next command finds none, or starts a new one.
 *
 * The daemon's last act is to end its clients' connections, when path, lock and
 * memory are free. So the end of this connection shows that the daemon has
 * ended, in any pid namespace; a pid would mean another process there.
 */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include <tarn/report.h>

#include "base/clock.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/store.h"

#define WAIT_MS 10000 /* loads under way are finished first */
#define NAP_MS 20

/* Asks again and again until the connection has ended. A daemon that is ending
 * answers as long as its server lives. */
static bool wait_for_end(tarn_store *store, uint64_t *ret_loads)
{
	const struct timespec nap = {.tv_nsec = NAP_MS * 1000000L};
	int64_t deadline = clock_ms() + WAIT_MS;
	struct tarn_report *report = NULL;

	while (clock_ms() < deadline) {
		int r = tarn_store_report(store, &report);

		if (r == -ECONNRESET || r == -EPIPE)
			return true;
		if (r >= 0)
			*ret_loads = report->daemon.loads_active;
		report = r >= 0 ? tarn_report_free(report) : NULL;
		nanosleep(&nap, NULL);
	}
	return false;
}

static int stop(tarn_store *store)
{
	uint64_t loads = 0;

	if (tarn_store_stop(store) < 0)
		return print_error();
	if (wait_for_end(store, &loads))
		return EXIT_DONE;
	print_failure("the daemon at %s has not ended within %d s",
		tarn_store_socket(store), WAIT_MS / 1000);
	print_hint("it finishes %" PRIu64
		   " loads first; 'tarn stop' waits again",
		loads);
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
			 "under way are finished\nfirst; processes that have a "
			 "tensor open keep it.",
		.options = rows};
	char **args;
	int n, r;

	r = options_parse(&usage, argc, argv, &n, &args);
	if (r != OPTIONS_DONE)
		return r;
	r = cli_store_need(socket, &store);
	if (r != EXIT_DONE)
		return r;
	return stop(store);
}
