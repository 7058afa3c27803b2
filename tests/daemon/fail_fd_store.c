/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out in the keeper while a tensor is published that keeps its own
 * memory: whatever is denied, a tensor whose publication was answered is still
 * there after the server has died.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/fail.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

enum { MANY = 8, ELEMENTS = 1 << 20 };

static struct daemon server;
static struct fail_page *page;

static void name_of(int i, char name[16])
{
	snprintf(name, 16, "own/%d", i);
}

/* While the keeper's n-th thing is denied. */
static bool publish(tarn_store *store, int n)
{
	const int64_t shape[] = {ELEMENTS};
	struct tarn_publish_item item = {0};
	char name[16];
	int r;

	name_of(n, name);
	item.name = name;
	if (tarn_store_create(store, TARN_I32, 1, shape, 0, &item.tensor) < 0)
		bail("%s", tarn_error_message());
	((int32_t *)tarn_tensor_data(item.tensor))[ELEMENTS - 1] = n;
	fail_arm(page, server.pid, n);
	r = tarn_store_publish(store, &item, 1, NULL, NULL);
	fail_disarm(page);
	if (r < 0)
		diag("%d: %s: %s", n, page->what, tarn_error_message());
	tarn_tensor_unref(item.tensor);
	return r == 0;
}

static bool is_there(tarn_store *store, int n)
{
	tarn_tensor *t = NULL;
	char name[16];
	bool same;

	name_of(n, name);
	if (tarn_store_lookup(store, name, &t) < 0) {
		diag("%s: %s", name, tarn_error_message());
		return false;
	}
	same = ((const int32_t *)tarn_tensor_data(t))[ELEMENTS - 1] == n;
	tarn_tensor_unref(t);
	return same;
}

static void kill_server(tarn_store *store)
{
	struct tarn_report_daemon before, after;

	if (report_daemon(store, &before) < 0)
		bail("%s", tarn_error_message());
	kill(before.server_pid, SIGKILL);
	do {
		if (report_daemon(store, &after) < 0)
			bail("%s", tarn_error_message());
	} while (after.server_pid == before.server_pid);
}

int main(void)
{
	bool published[MANY + 1] = {false};
	int n = 0, lost = 0;
	tarn_store *store;

	if (!fail_open(test_tmpdir(), &page))
		return done(1);
	daemon_start(&server, "sock", NULL);
	unsetenv("LD_PRELOAD");
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	for (int i = 1; i <= MANY; i++)
		n += published[i] = publish(store, i);
	ok(n > 0, "%d of %d publications succeeded", n, MANY);
	kill_server(store);
	tarn_store_unref(store);
	/* The client that had it open has it: another one looks. */
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("%s", tarn_error_message());
	for (int i = 1; i <= MANY; i++)
		lost += published[i] && !is_there(store, i);
	is_int(0, lost, "the next server has all published tensors");
	tarn_store_unref(store);
	fail_close(test_tmpdir());
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(3);
}
