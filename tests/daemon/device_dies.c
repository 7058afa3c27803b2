/* SPDX-License-Identifier: MIT */
/*
 * Memory of devices while everything dies. The server is killed at any time
 * while a client publishes without pause: each call succeeds, each raises the
 * version by one. Publishers are killed at any time: a name leads to all of the
 * bytes that were published, or to the version before. The daemon is upgraded.
 * In the end no byte of a device is counted, and no descriptor is left in the
 * keeper or in the server.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/device.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"
#include "tests/kit/witness.h"

enum { SIZE = 20000, KILLS = 4, PUBLISHERS = 40, EACH = 50 };

static _Atomic long *published; /* of all processes */

static int publish(
	tarn_store *by, const char *name, unsigned seed, uint64_t *ret_version)
{
	tarn_tensor *t = kit_device_tensor(SIZE, seed);
	int r = tarn_store_publish_one(by, name, t, NULL, ret_version);

	tarn_tensor_unref(t);
	return r;
}

/* 1 it has the bytes of some publication; 0 it is not there; -1 others. */
static int has_some(const char *name)
{
	tarn_tensor *t;
	int r = CALL_AGAIN(tarn_store_lookup(store, name, &t));

	if (r < 0)
		return r == -ENOENT ? 0 : -1;
	r = kit_device_has(t, kit_device_bytes(t)[0]) ? 1 : -1;
	tarn_tensor_unref(t);
	return r;
}

/* Descriptors of both are what they were: the last ones are closed by other
 * processes, a moment later. */
static bool descriptors_become(int keeper_fds, int server_fds)
{
	for (int ms = 0; ms < 60000; ms += 5) {
		if (count_fds(daemon_.pid) <= keeper_fds &&
			count_fds(server_of(&daemon_)) <= server_fds)
			return true;
		usleep(5000);
	}
	diag("keeper: %d descriptors, %d at first; server: %d, %d",
		count_fds(daemon_.pid), keeper_fds,
		count_fds(server_of(&daemon_)), server_fds);
	return false;
}

static bool nothing_is_kept(void)
{
	for (int ms = 0; ms < 60000 && report().device_storages; ms += 5)
		usleep(5000);
	return !report().device_storages && !report().device_memory &&
	       !report().used;
}

/* ---- servers -------------------------------------------------------------- */

static pid_t killer(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (int i = 0; i < KILLS; i++) {
		long before = atomic_load(published);
		pid_t server;

		while (i > 0 && atomic_load(published) < before + 2)
			usleep(1000);
		usleep(100000 + (unsigned)i * 1237);
		server = child_named(daemon_.pid, "tarn-server");
		if (server > 0)
			kill(server, SIGKILL);
	}
	_exit(0);
}

static void test_servers(void)
{
	uint64_t version = 0;
	pid_t pid = killer();
	int r = 0, some = 1;
	long n = 0;

	while (waitpid(pid, NULL, WNOHANG) == 0 && r == 0 && some == 1 &&
		version == (uint64_t)n) {
		r = publish(store, "again", (unsigned)n, &version);
		some = has_some("again");
		atomic_store(published, ++n);
	}
	if (!is_int(0, r, "each publication during restarts succeeds"))
		diag("%s", tarn_error_message());
	is_int(n, (int64_t)version, "each publication was done once");
	is_int(1, some, "each publication has its bytes");
	diag("%ld publications, %d kills", n, KILLS);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	must(CALL_AGAIN(tarn_store_remove(store, "again")));
	ok(nothing_is_kept(), "nothing is kept after the restarts");
	kill(daemon_.pid, SIGHUP); /* these deaths do not count */
}

/* ---- publishers ------------------------------------------------------------- */

/* Publishes until it is killed. */
static pid_t publisher(unsigned seed)
{
	pid_t pid = fork();
	tarn_store *mine;

	if (pid)
		return pid;
	if (tarn_store_open(daemon_.socket, NULL, &mine) < 0)
		_exit(1);
	for (unsigned i = 0; i < EACH; i++) {
		if (publish(mine, "dying", seed + i, NULL) < 0)
			_exit(1);
		atomic_fetch_add(published, 1);
	}
	pause();
	_exit(0);
}

static void test_publishers(void)
{
	int wrong = 0, status;

	for (int i = 0; i < PUBLISHERS; i++) {
		pid_t pid = publisher((unsigned)i);

		/* At another point of what it does each time. */
		usleep(3000 + (unsigned)i * 131);
		wrong += has_some("dying") < 0;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		wrong += WIFEXITED(status);
		wrong += has_some("dying") < 0;
	}
	is_int(0, wrong,
		"publishers that die leave all of a publication or none");
	diag("%ld publications", atomic_load(published));
	/* What the last one had replaced goes when its descriptors are closed. */
	for (int ms = 0; ms < 60000 && report().device_storages > 1; ms += 5)
		usleep(5000);
	ok(report().device_storages <= 1, "one version is kept of the name");
	may_fail(tarn_store_remove(store, "dying"));
	ok(nothing_is_kept(), "nothing is kept of killed publishers");
}

/* ---- upgrades ----------------------------------------------------------------- */

static void test_upgrade(void)
{
	tarn_tensor *held, *t;

	must(publish(store, "kept/held", 5, NULL));
	must(publish(store, "kept/named", 6, NULL));
	must(tarn_store_lookup(store, "kept/held", &held));
	upgrade();
	is_int(2, (int64_t)report().device_storages,
		"an upgraded daemon keeps memory of devices");
	ok(kit_device_has(held, 5), "a holder has it after the upgrade");
	must(tarn_store_lookup(store, "kept/named", &t));
	ok(kit_device_has(t, 6), "a name leads to it after the upgrade");
	tarn_tensor_unref(t);
	must(publish(store, "kept/named", 7, NULL));
	server_kill(&daemon_);
	upgrade();
	must(tarn_store_lookup(store, "kept/named", &t));
	ok(kit_device_has(t, 7),
		"what was published after an upgrade is kept by the next");
	must(tarn_store_remove(store, "kept/held"));
	must(tarn_store_remove(store, "kept/named"));
	ok(kit_device_has(held, 5) && kit_device_has(t, 7),
		"holders have it without a name");
	is_int(2 * SIZE, (int64_t)report().device_memory,
		"it is counted for its holders");
	tarn_tensor_unref(held);
	tarn_tensor_unref(t);
	ok(nothing_is_kept(), "nothing is kept in the end");
}

int main(void)
{
	int keeper_fds, server_fds;

	published = mmap(NULL, sizeof(*published), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (published == MAP_FAILED)
		bail("mmap: %m");
	kit_device_begin();
	upgrade_begin();
	/* Whatever is begun with the first of them, also in the next server,
	 * which has all of its descriptors once it has answered. */
	for (int i = 0; i < 2; i++) {
		must(publish(store, "first", 1, NULL));
		must(tarn_store_remove(store, "first"));
		if (!nothing_is_kept())
			bail("the first is kept");
		if (i == 0)
			server_kill(&daemon_);
	}
	keeper_fds = count_fds(daemon_.pid);
	server_fds = count_fds(server_of(&daemon_));
	test_servers();
	test_publishers();
	ok(descriptors_become(keeper_fds, server_fds),
		"no descriptor is left after the deaths");
	test_upgrade();
	ok(descriptors_become(keeper_fds, server_fds),
		"no descriptor is left after the upgrades");
	is_int(0, atomic_load(&kit_device_live), "no import is left here");
	upgrade_end();
	return done(18);
}
