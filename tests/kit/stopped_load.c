/* SPDX-License-Identifier: MIT */
/*
 * See stopped_load.h. Server and loader run in turn, never both. The server
 * hands the file to a loader that is stopped; while the server is stopped, the
 * loader reports which file it is, and waits; when it is stopped again, the
 * server asks it to fill.
 */
#include "tests/kit/stopped_load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60.0 /* on a loaded machine */
#define QUIET 20        /* looks, a millisecond apart */

/* R, S, D, T, ...; 0: it is gone. */
static char state_of(pid_t pid)
{
	char path[64], text[512];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fd_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')');
	return p && p[1] ? p[2] : 0;
}

/* A process that runs is stopped only when it comes by. */
static void stop(pid_t pid)
{
	double end = seconds() + PATIENCE_S;

	if (pid <= 0 || (kill(pid, SIGSTOP) < 0 && errno != ESRCH))
		bail("process %d cannot be stopped: %m", (int)pid);
	while (seconds() < end) {
		char state = state_of(pid);

		if (state == 'T' || state == 'Z' || !state)
			return;
		usleep(200);
	}
	bail("process %d does not stop", (int)pid);
}

void stopped_load_let_work(pid_t pid)
{
	double end = seconds() + PATIENCE_S;
	int quiet = 0;

	kill(pid, SIGCONT);
	while (quiet < QUIET && seconds() < end) {
		usleep(1000);
		quiet = state_of(pid) == 'S' ? quiet + 1 : 0;
	}
}

static struct tarn_report_daemon ask(tarn_store *store)
{
	struct tarn_report_daemon s = {0};

	if (report_daemon(store, &s) < 0)
		bail("status: %s", tarn_error_message());
	return s;
}

pid_t stopped_load_begin(const struct daemon *daemon)
{
	pid_t loader = child_named(daemon->pid, "tarn-loader");

	if (loader <= 0)
		bail("there is no loader to stop");
	stop(loader);
	return loader;
}

void stopped_load_await(
	const struct daemon *daemon, tarn_store *store, pid_t loader)
{
	pid_t server = child_named(daemon->pid, "tarn-server");
	double end = seconds() + PATIENCE_S;

	while (!ask(store).loads_active && seconds() < end)
		usleep(1000);
	/* What was said in the turn of the first answer is said. */
	ask(store);
	stop(server);
	stopped_load_let_work(loader);
	stop(loader);
	kill(server, SIGCONT);
}

pid_t stopped_load_next(
	const struct daemon *daemon, tarn_store *store, pid_t loader)
{
	pid_t server = child_named(daemon->pid, "tarn-server"), next = loader;
	double end = seconds() + PATIENCE_S;

	/* The server asks the keeper for another loader, which is stopped
	 * before the server may tell it anything. */
	stop(daemon->pid);
	kill(loader, SIGKILL);
	while (ask(store).loaders && seconds() < end)
		usleep(1000);
	ask(store);
	stop(server);
	kill(daemon->pid, SIGCONT);
	while ((next == loader || next <= 0) && seconds() < end) {
		usleep(1000);
		next = child_named(daemon->pid, "tarn-loader");
	}
	stopped_load_let_work(next);
	stop(next);
	kill(server, SIGCONT);
	while (!ask(store).loaders && seconds() < end)
		usleep(1000);
	stopped_load_await(daemon, store, next);
	return next;
}
