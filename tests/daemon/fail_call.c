/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out while a message is received: by the client, or by the
 * server. That call fails with the reason, or is served all the same; the
 * connection continues, and what it has published, holds and waits for stays.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* Of several frames each way. */
enum { NAMES = 9000, NAME_SIZE = 32 };

static struct fail_page *page;
static char names[NAMES][NAME_SIZE];
static struct tarn_publish_item items[NAMES];

/* With the n-th thing of a process denied; 1: it was. */
static int deny(tarn_store *store, pid_t pid, int n, int *wrong)
{
	int r, hit;

	fail_arm(page, pid, n);
	r = tarn_store_publish(store, items, NAMES, NULL, NULL);
	hit = fail_disarm(page);
	if (r < 0 && (!hit || r != -ENOMEM || !*tarn_error_message()) &&
		++*wrong)
		diag("%d: %s: %d: %s", n, page->what, r, tarn_error_message());
	return hit;
}

/* The same connection: one that ended would take its tensors with it. */
static bool goes_on(tarn_store *store)
{
	struct tarn_report_daemon status;
	tarn_tensor *t = NULL;
	int r = report_daemon(store, &status);

	if (r >= 0)
		r = tarn_store_lookup(store, "first", &t);
	if (r < 0)
		diag("%s", tarn_error_message());
	tarn_tensor_unref(t);
	return r >= 0;
}

static void deny_all(tarn_store *store, const char *who, pid_t pid)
{
	int n = 0, wrong = 0;

	while (wrong < 5 && deny(store, pid, n + 1, &wrong)) {
		n++;
		if (!goes_on(store) && ++wrong)
			diag("%d: %s: it is over", n, page->what);
	}
	diag("%d things", n);
	ok(n >= 3, "resources were denied to the %s, one after the other", who);
	is_int(0, wrong, "each denial ended at most one call");
}

static void make_items(tarn_store *store)
{
	const int64_t shape[] = {4};
	struct tarn_publish_item first = {.name = "first"};
	tarn_tensor *t;

	if (tarn_store_create(store, TARN_F32, 1, shape, 0, &first.tensor) <
			0 ||
		tarn_store_publish(store, &first, 1, NULL, NULL) < 0 ||
		tarn_store_lookup(store, "first", &t) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(first.tensor);
	for (int i = 0; i < NAMES; i++) {
		snprintf(names[i], NAME_SIZE, "many/of/them/%d", i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = t};
	}
}

/* In the process that has the module loaded, too. */
static int live(const char *socket)
{
	struct tarn_report_daemon status;
	tarn_store *store;

	if (tarn_store_open(socket, NULL, &store) < 0 ||
		report_daemon(store, &status) < 0)
		bail("%s", tarn_error_message());
	make_items(store);
	/* What grows once for good has grown. */
	for (int i = 0; i < 2; i++)
		if (tarn_store_publish(store, items, NAMES, NULL, NULL) < 0)
			bail("%s", tarn_error_message());
	deny_all(store, "client", getpid());
	deny_all(store, "server", status.server_pid);
	tarn_tensor_unref(items[0].tensor);
	tarn_store_unref(store);
	return done(4);
}

int main(int argc, char **argv)
{
	struct daemon daemon;
	char folder[4000];
	int status = 0;
	pid_t pid;

	snprintf(folder, sizeof(folder), "%s",
		argc == 3 ? argv[2] : test_tmpdir());
	if (!fail_open(folder, &page))
		return done(1);
	if (argc == 3)
		return live(argv[1]);
	daemon_start(&daemon, "sock", NULL);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", argv[0], daemon.socket, folder, NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	daemon_stop(&daemon);
	fail_close(folder);
	if (WIFSIGNALED(status))
		bail("killed by signal %d, at the %s", WTERMSIG(status),
			page->what);
	return WEXITSTATUS(status);
}
