/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out while the daemon becomes another program: each allocation
 * fails once, those of the old program and those of the new one. The upgrade
 * succeeds or is refused; published tensors stay in either case.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/tap.h"

#define ALLOCATIONS 40 /* more than both programs make until they serve */
#define CLIENTS 8      /* for each there is a record, which takes memory */
#define PATIENCE_S 60.0

static struct daemon server;
static struct fail_page *page;
static char log_path[300];

static uint32_t upgrades(tarn_store *store)
{
	struct tarn_report *r;
	uint32_t n;

	if (tarn_store_report(store, &r) < 0)
		bail("report: %s", tarn_error_message());
	n = r->daemon.upgrades;
	tarn_report_free(r);
	return n;
}

static unsigned refusals(void)
{
	return daemon_logged(log_path, "upgrade_refused") +
	       daemon_logged(log_path, "upgrade_failed");
}

/* False: neither came. */
static bool upgrade(tarn_store *store, int n, bool *ret_done)
{
	uint32_t before = upgrades(store);
	unsigned refused = refusals();
	double end = seconds() + PATIENCE_S;

	fail_arm(page, server.pid, n);
	kill(server.pid, SIGUSR2);
	while (seconds() < end) {
		*ret_done = upgrades(store) > before;
		if (*ret_done || refusals() > refused)
			return true;
		usleep(5000);
	}
	return false;
}

static void publish(tarn_store *store)
{
	const int64_t shape[] = {1 << 20};
	struct tarn_publish_item item = {.name = "kept"};

	if (tarn_store_create(store, TARN_I32, 1, shape, 0, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	((int32_t *)tarn_tensor_data(item.tensor))[5] = 7;
	if (tarn_store_publish(store, &item, 1, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(item.tensor);
}

static bool is_there(const char *socket)
{
	tarn_store *store;
	tarn_tensor *t = NULL;
	bool there;

	if (tarn_store_open(socket, NULL, &store) < 0)
		return false;
	there = tarn_store_lookup(store, "kept", &t) >= 0 &&
		((const int32_t *)tarn_tensor_data(t))[5] == 7;
	if (t)
		tarn_tensor_unref(t);
	tarn_store_unref(store);
	return there;
}

int main(void)
{
	int done_ones = 0, hits = 0, ended = 0, lost = 0;
	tarn_store *store, *others[CLIENTS];

	if (!fail_open(test_tmpdir(), &page))
		return done(1);
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	daemon_start(&server, "sock", NULL);
	unsetenv("LD_PRELOAD");
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	publish(store);
	for (int i = 0; i < CLIENTS; i++)
		if (tarn_store_open(server.socket, NULL, &others[i]) < 0)
			bail("%s", tarn_error_message());
	for (int n = 1; n <= ALLOCATIONS; n++) {
		bool came = false;

		ended += !upgrade(store, n, &came);
		if (fail_disarm(page))
			diag("allocation %d, %s, failed: the upgrade %s", n,
				page->what, came ? "came" : "was refused");
		hits += page->hits > 0;
		done_ones += came;
		lost += !is_there(server.socket);
	}
	ok(hits > CLIENTS, "%d allocations failed, each in its own upgrade",
		hits);
	ok(done_ones > ALLOCATIONS / 2, "%d upgrades succeeded", done_ones);
	is_int(0, ended, "all other upgrades were refused, and none hangs");
	is_int(0, lost, "what was published is there after each upgrade");
	for (int i = 0; i < CLIENTS; i++)
		tarn_store_unref(others[i]);
	tarn_store_unref(store);
	fail_close(test_tmpdir());
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	unlink(log_path);
	return done(5);
}
