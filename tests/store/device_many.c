/* SPDX-License-Identifier: MIT */
/*
 * Thousands of storages on a device, removed at one moment: all of their
 * descriptors are closed, in the keeper and in the server, although the
 * processes that close them come behind.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/restart.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

enum { CALLS = 60, EACH = 64 };

static struct daemon server;
static tarn_store *store;
static char log_path[300];

static void publish(int call)
{
	struct tarn_publish_item items[EACH];
	char names[EACH][32];

	for (int i = 0; i < EACH; i++) {
		snprintf(names[i], sizeof(names[i]), "many/%d/%d", call, i);
		items[i] = (struct tarn_publish_item) {
			.name = names[i], .tensor = kit_device_empty(4096)};
	}
	must(tarn_store_publish(store, items, EACH, NULL, NULL));
	for (int i = 0; i < EACH; i++)
		tarn_tensor_unref(items[i].tensor);
}

/* The server's, which start others and close: they stop, or go on. */
static void tell_closers(int which)
{
	double end = seconds() + 60;
	pid_t launcher, closer;

	do {
		usleep(5000);
		launcher = child_named(server_of(&server), "tarn-closer");
		closer = launcher ? child_named(launcher, "tarn-closer") : 0;
	} while ((!launcher || !closer) && seconds() < end);
	if (!launcher || !closer)
		bail("the server has no process that closes descriptors");
	kill(closer, which);
	kill(launcher, which);
}

/* What keeper and server have open when that no longer changes. */
static void descriptors_settle(int *ret_keeper_fds, int *ret_server_fds)
{
	double end = seconds() + 60;
	pid_t pid = server_of(&server);

	*ret_keeper_fds = *ret_server_fds = -1;
	for (int same = 0; same < 20 && seconds() < end; same++) {
		int keeper_fds = count_fds(server.pid);
		int server_fds = count_fds(pid);

		if (keeper_fds != *ret_keeper_fds ||
			server_fds != *ret_server_fds)
			same = 0;
		*ret_keeper_fds = keeper_fds;
		*ret_server_fds = server_fds;
		usleep(10000);
	}
}

static bool descriptors_become(int keeper_fds, int server_fds)
{
	pid_t pid = server_of(&server);

	for (int ms = 0; ms < 60000; ms += 5) {
		if (count_fds(server.pid) <= keeper_fds &&
			count_fds(pid) <= server_fds)
			return true;
		usleep(5000);
	}
	diag("keeper: %d descriptors, %d at first; server: %d, %d",
		count_fds(server.pid), keeper_fds, count_fds(pid), server_fds);
	return false;
}

int main(void)
{
	const struct tarn_publish_options all = {.replace = "many/"};
	struct tarn_report_daemon d = {0};
	int keeper_first, keeper_fds, server_fds;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
		limit.rlim_cur / 4 < (CALLS + 1) * EACH)
		skip_all("the daemon may have too few descriptors (ulimit -n)");
	kit_device_begin();
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	daemon_start(&server, "many.sock", NULL);
	must(tarn_store_open(server.socket, NULL, &store));
	descriptors_settle(&keeper_first, &server_fds);
	publish(0);
	must(tarn_store_publish(store, NULL, 0, &all, NULL));
	descriptors_settle(&keeper_fds, &server_fds);
	for (int i = 0; i < CALLS; i++)
		publish(i);
	must(report_daemon(store, &d));
	is_int(CALLS * EACH, (int64_t)d.device_storages,
		"thousands of storages on a device are kept");
	/* Not keeper_fds: the first ones may have been closed after it. The keeper
	 * reads what it was sent when it is its turn. */
	for (int ms = 0; ms < 60000 &&
			 count_fds(server.pid) < keeper_first + CALLS * EACH;
		ms += 5)
		usleep(5000);
	ok(count_fds(server.pid) >= keeper_first + CALLS * EACH,
		"each has a descriptor in the keeper");
	tell_closers(SIGSTOP);
	must(tarn_store_publish(store, NULL, 0, &all, NULL));
	/* The server has freed them when the keeper has let go of them. */
	for (int ms = 0; ms < 500 && count_fds(server.pid) > keeper_fds; ms++)
		usleep(1000);
	tell_closers(SIGCONT);
	ok(descriptors_become(keeper_fds, server_fds),
		"all descriptors are closed when the names are removed");
	must(report_daemon(store, &d));
	is_int(0, (int64_t)d.device_storages, "no storage is left");
	is_int(0, daemon_logged(log_path, "close_failed"),
		"none of them is given up");
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	unlink(log_path);
	return done(6);
}
