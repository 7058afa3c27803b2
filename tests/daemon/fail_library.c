/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out in a client: each resource that it takes in its life is
 * denied once. The call fails with a sentence, or succeeds all the same; the
 * client gives back what it had taken, and the daemon is unaffected.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/tap.h"

static struct fail_page *page;
static char folder[4000], path[4096];

/* One life in which the n-th thing is denied: false when there is no n-th. */
static bool deny(const char *socket, int n, int *wrong)
{
	int fds = count_fds(getpid()), r;
	int64_t blocks;
	bool hit;

	scenario_prepare(path);
	alarm(300);
	fail_arm(page, getpid(), n);
	r = scenario(socket, path);
	blocks = atomic_load(&page->blocks);
	hit = fail_disarm(page);
	if (!hit && r < 0)
		bail("the %d-th: %s", n, tarn_error_message());
	if (r < 0 && !*tarn_error_message() && ++*wrong)
		diag("%d: %s: no sentence for %d", n, page->what, r);
	if (blocks && ++*wrong)
		diag("%d: %s: %lld blocks are left (%d)", n, page->what,
			(long long)blocks, r);
	if (count_fds(getpid()) != fds && ++*wrong)
		diag("%d: %s: %d descriptors are left (%d)", n, page->what,
			count_fds(getpid()) - fds, r);
	return hit;
}

/* In the process that has the module loaded. */
static int live(const char *socket)
{
	struct tarn_report_daemon before;
	int n = 0, wrong = 0;
	tarn_store *witness;

	if (tarn_store_open(socket, NULL, &witness) < 0)
		bail("%s", tarn_error_message());
	/* What is taken once for good is taken now. */
	scenario_prepare(path);
	if (scenario(socket, path) < 0)
		bail("%s", tarn_error_message());
	/* What was removed goes when the server has seen that nobody holds it,
	 * some time after its client has left. */
	do
		scenario_settle(witness, &before);
	while (before.names || before.storages || before.used);
	while (deny(socket, n + 1, &wrong)) {
		n++;
		if (!scenario_tidy(witness, &before) && ++wrong)
			diag("%d: %s", n, page->what);
		if (wrong > 10)
			break;
	}
	diag("%d things", n);
	ok(n > 50, "resources were denied to the client, one after the other");
	is_int(0, wrong, "each denial ended in an error or a success");
	tarn_store_unref(witness);
	return done(2);
}

/* This program once more, with the module; how it ended. */
static int run_again(const char *program, const char *socket)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/proc/self/exe", program, socket, folder, NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		;
	return status;
}

int main(int argc, char **argv)
{
	struct daemon daemon;
	int status;

	snprintf(folder, sizeof(folder), "%s",
		argc == 3 ? argv[2] : test_tmpdir());
	snprintf(path, sizeof(path), "%s/f.safetensors", folder);
	if (argc == 3)
		return fail_open(folder, &page) ? live(argv[1]) : done(1);
	daemon_start(&daemon, "sock", NULL);
	if (!fail_open(folder, &page)) {
		daemon_stop(&daemon);
		return done(1);
	}
	status = run_again(argv[0], daemon.socket);
	daemon_stop(&daemon);
	unlink(path);
	fail_close(folder);
	if (WIFSIGNALED(status))
		bail("killed by signal %d, at the %s", WTERMSIG(status),
			page->what);
	return WEXITSTATUS(status);
}
