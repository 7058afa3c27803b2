/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out in the daemon: each thing that its keeper or its server
 * takes while it serves a client is denied once. That client gets an error
 * and a sentence, or is served all the same; another one is served all the
 * while; nothing dies, and the books are what they were.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

/* More than all of it takes on a busy machine. */
#define HANG_S 60

static struct daemon server;
static struct fail_page *page;
static char folder[4000], path[4096];

static bool serves(tarn_store *witness)
{
	tarn_tensor *t = NULL;
	int r = tarn_store_lookup(witness, "witness", &t);

	tarn_tensor_unref(t);
	return r >= 0;
}

/* False when there is no n-th. */
static bool deny(pid_t pid, int n, int *wrong)
{
	time_t begun = time(NULL);
	bool hit;
	int r;

	scenario_prepare(path);
	alarm(300);
	fail_arm(page, pid, n);
	r = scenario(server.socket, path);
	hit = fail_disarm(page);
	/* A call that is not answered says so after ten seconds. */
	if ((r == -ETIMEDOUT || time(NULL) - begun > HANG_S) && ++*wrong)
		diag("%d: %s: it hung for %d s (%d)", n, page->what,
			(int)(time(NULL) - begun), r);
	if (!hit && r < 0)
		bail("the %d-th: %s", n, tarn_error_message());
	if (r < 0 && !*tarn_error_message() && ++*wrong)
		diag("%d: %s: no sentence for %d", n, page->what, r);
	return hit;
}

static void deny_all(tarn_store *witness, const char *who, pid_t pid)
{
	struct tarn_report_daemon before;
	int n = 0, wrong = 0;

	scenario_settle(witness, &before);
	while (deny(pid, n + 1, &wrong)) {
		n++;
		if ((!serves(witness) || !scenario_tidy(witness, &before)) &&
			++wrong)
			diag("%d: %s", n, page->what);
		if (wrong > 10)
			break;
	}
	diag("%d things", n);
	/* In the keeper, four or five are seen. */
	ok(n >= 4, "resources were denied to the %s, one after the other", who);
	is_int(0, wrong, "each denial ended in an error or an answer");
}

static void make_witness(tarn_store *witness)
{
	const int64_t shape[] = {4};
	struct tarn_publish_item item = {.name = "witness"};

	if (tarn_store_create(witness, TARN_F32, 1, shape, 0, &item.tensor) <
			0 ||
		tarn_store_publish(witness, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

int main(void)
{
	struct tarn_report_daemon status;
	tarn_store *witness;

	snprintf(folder, sizeof(folder), "%s", test_tmpdir());
	snprintf(path, sizeof(path), "%s/f.safetensors", folder);
	if (!fail_open(folder, &page))
		return done(1);
	daemon_start(&server, "sock", NULL);
	unsetenv("LD_PRELOAD");
	if (tarn_store_open(server.socket, NULL, &witness) < 0)
		bail("%s", tarn_error_message());
	make_witness(witness);
	scenario_prepare(path);
	if (scenario(server.socket, path) < 0)
		bail("%s", tarn_error_message());
	report_daemon(witness, &status);
	deny_all(witness, "server", status.server_pid);
	deny_all(witness, "keeper", status.keeper_pid);
	tarn_store_unref(witness);
	unlink(path);
	fail_close(folder);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(5);
}
