/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out in a daemon without clients so far: the first growth of a
 * pool, the start of a loader, and a user's region are among what is denied.
 * In each case that call ends, and the next client is served. A message
 * between keeper and server that was lost for want of memory was once waited
 * for for ever.
 *
 * Each time with another daemon, since it is the first time that counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* More than a busy machine takes; what is looked for would take for ever, or
 * until the client has waited enough. */
#define HANG_S 60

/* No other process here has this uid; only root can take it. */
#define STRANGER 12345

static struct fail_page *page;
static char folder[4000], path[4096], module[4096];

/* What a call came to. */
struct came {
	int r, took; /* in seconds */
	char why[200];
};

/* ---- the first load and the first publication ---------------------------- */

static struct came use(const struct daemon *daemon)
{
	time_t begun = time(NULL);
	struct came came;

	scenario_prepare(path);
	came.r = scenario(daemon->socket, path);
	came.took = (int)(time(NULL) - begun);
	snprintf(came.why, sizeof(came.why), "%.199s", tarn_error_message());
	return came;
}

/* ---- the first client of a user ------------------------------------------ */

static _Noreturn void come(int to)
{
	time_t begun = time(NULL);
	tarn_store *store = NULL;
	struct came came;

	alarm(2 * HANG_S);
	/* The stranger may not search the folders above it. */
	if (chdir(folder) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(STRANGER, STRANGER, STRANGER) < 0 ||
		setresuid(STRANGER, STRANGER, STRANGER) < 0)
		_exit(1);
	came.r = tarn_store_open("sock", NULL, &store);
	came.took = (int)(time(NULL) - begun);
	snprintf(came.why, sizeof(came.why), "%.199s", tarn_error_message());
	_exit(write(to, &came, sizeof(came)) != sizeof(came));
}

static struct came be_new(const struct daemon *daemon)
{
	struct came came = {.took = 2 * HANG_S};
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		come(ends[1]);
	close(ends[1]);
	if (read(ends[0], &came, sizeof(came)) != sizeof(came))
		diag("who came said nothing");
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return came;
}

/* ---- each thing once ----------------------------------------------- */

struct way {
	const char *what;
	struct came (*run)(const struct daemon *daemon);
	bool keeper; /* it is denied to; else to the server */
};

static bool hung(const struct came *came)
{
	return came->took > HANG_S || came->r == -ETIMEDOUT;
}

/* False when there is no n-th. */
static bool deny(const struct way *way, int n, int *wrong)
{
	static const char *const args[] = {"--mode", "0666", NULL};
	struct tarn_report_daemon status;
	struct daemon daemon;
	struct came came;
	tarn_store *store;
	bool hit;

	setenv("LD_PRELOAD", module, 1);
	daemon_start(&daemon, "sock", args);
	unsetenv("LD_PRELOAD");
	if (tarn_store_open(daemon.socket, NULL, &store) < 0 ||
		report_daemon(store, &status) < 0)
		bail("%s", tarn_error_message());
	fail_arm(page, way->keeper ? status.keeper_pid : status.server_pid, n);
	came = way->run(&daemon);
	hit = fail_disarm(page);
	if (hung(&came) && ++*wrong)
		diag("%d: %s: it took %d s", n, page->what, came.took);
	if (came.r < 0 && (!hit || !*came.why) && ++*wrong)
		diag("%d: %s: it failed, %d: %s", n, page->what, came.r,
			came.why);
	/* What could not be done for the first one is done soon. */
	for (int i = 0; i < 3000; i++) {
		came = way->run(&daemon);
		if (came.r >= 0 || hung(&came))
			break;
		usleep(20000);
	}
	if ((came.r < 0 || hung(&came)) && ++*wrong)
		diag("%d: %s: the next one took %d s, %d: %s", n, page->what,
			came.took, came.r, came.why);
	tarn_store_unref(store);
	if (daemon_stop(&daemon) != 0 && ++*wrong)
		diag("%d: %s: it does not end well", n, page->what);
	return hit;
}

static void deny_all(const struct way *way)
{
	int n = 0, wrong = 0;

	while (wrong < 3 && deny(way, n + 1, &wrong))
		n++;
	diag("%d things", n);
	ok(n >= 5, "resources were denied, one after the other: %s", way->what);
	is_int(0, wrong, "each denial ended at most that call: %s", way->what);
}

int main(void)
{
	static const struct way ways[] = {
		{"to the keeper, at first use", use, true},
		{"to the server, at first use", use, false},
		{"to the keeper, when a user is new", be_new, true},
		{"to the server, when a user is new", be_new, false},
	};

	snprintf(folder, sizeof(folder), "%s", test_tmpdir());
	snprintf(path, sizeof(path), "%s/f.safetensors", folder);
	if (!fail_open(folder, &page))
		return done(1);
	snprintf(module, sizeof(module), "%s", getenv("LD_PRELOAD"));
	if (chmod(folder, 0711) < 0)
		bail("%s: %m", folder);
	for (int i = 0; i < 4; i++)
		if (i < 2 || geteuid() == 0)
			deny_all(&ways[i]);
		else
			skip(2, "only root can be two users");
	unlink(path);
	fail_close(folder);
	return done(8);
}
