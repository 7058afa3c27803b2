/* SPDX-License-Identifier: MIT */
/*
 * The daemon becomes another program while its clients hold, wait and fork:
 * nothing is lost, and all of them continue in the same control region. A
 * program that cannot continue from there changes nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "lib/store/store.h"
#include "tests/kit/again.h"
#include "tests/kit/must.h"
#include "tests/kit/raw_client.h"
#include "tests/kit/tap.h"
#include "tests/kit/upgrade.h"
#include "tests/kit/witness.h"

enum { SMALL = 10000, LARGE = 3 << 20 };

static char log_path[300]; /* the daemon's */
static char original[300]; /* the program that was built */

/* ---- what was there is there -------------------------------------------- */

static void test_kept(void)
{
	struct tarn_report_daemon before, after;
	tarn_tensor *held;
	uint64_t used;

	load_file("a", 1, SMALL);
	load_file("b", 2, LARGE);
	if (tarn_store_lookup(store, "b/x", &held) < 0)
		bail("b/x: %s", tarn_error_message());
	before = report();
	upgrade();
	after = report();
	is_int(daemon_.pid, after.keeper_pid, "the keeper is the same process");
	ok(after.server_pid != before.server_pid,
		"the server is another process");
	is_int((int64_t)before.instance, (int64_t)after.instance,
		"the daemon is the same instance");
	is_int(1, after.upgrades, "the upgrade is counted");
	is_int(0, after.restarts, "an upgrade does not count as a restart");
	is_int((int64_t)before.used, (int64_t)after.used,
		"the used bytes are the same after the upgrade");
	is_int((int64_t)before.names, (int64_t)after.names,
		"the names are the same after the upgrade");
	is_int(1, tensor_check(store, "a/x", 1, SMALL),
		"a small tensor is found after the upgrade");
	ok(tensor_is(held, 2, LARGE), "a held tensor keeps its bytes");
	used = after.used;
	load_file("c", 3, LARGE);
	is_int(1, tensor_check(store, "c/x", 3, LARGE),
		"a new file is loaded after the upgrade");
	is_int(0, tarn_store_remove(store, "b/x"),
		"a name from before the upgrade is removed");
	load_file("d", 4, LARGE);
	ok(tensor_is(held, 2, LARGE),
		"the holder of the removed name keeps the bytes");
	must(tarn_store_remove(store, "c/x"));
	must(tarn_store_remove(store, "d/x"));
	ok(report().used >= used - LARGE / 2,
		"the held bytes are charged to the holder");
	tarn_tensor_unref(held);
	must(tarn_store_remove(store, "a/x"));
	ok(used_becomes(store, 0), "the release of the held tensor is noticed");
	ok(taken_becomes(0), "all memory from before the upgrade goes back");
}

/* ---- in the same region -------------------------------------------------- */

/* Returns the control region of a client that connects now. */
static struct stat region_now(void)
{
	struct stat st;
	struct raw one;

	raw_open(&one, daemon_.socket);
	if (fstat(one.table, &st) < 0)
		bail("the control region: %m");
	raw_close(&one);
	return st;
}

static void test_in_place(void)
{
	struct stat before = region_now(), after;
	struct table_name found;
	tarn_store *second;

	if (tarn_store_open(daemon_.socket, NULL, &second) < 0)
		bail("open: %s", tarn_error_message());
	upgrade();
	after = region_now();
	ok(before.st_dev == after.st_dev && before.st_ino == after.st_ino,
		"the next server continues in the same control region");
	load_file("f", 6, SMALL);
	is_int(0, table_find(&second->table, "f/x", 3, &found),
		"a client that was idle finds new publications");
	is_int(1, tensor_check(second, "f/x", 6, SMALL),
		"an older client opens the new tensor");
	tarn_store_unref(second);
	must(tarn_store_remove(store, "f/x"));
	used_becomes(store, 0);
}

/* Released by a client that has not heard of the upgrade. */
static void test_unheard_release(void)
{
	tarn_tensor *held;
	tarn_store *second;

	load_file("u", 5, LARGE);
	if (tarn_store_open(daemon_.socket, NULL, &second) < 0 ||
		tarn_store_lookup(second, "u/x", &held) < 0)
		bail("u/x: %s", tarn_error_message());
	must(tarn_store_remove(store, "u/x"));
	upgrade();
	ok(report().used > 0, "a client that was idle keeps what it holds");
	ok(tensor_is(held, 5, LARGE),
		"the held tensor has its bytes after the upgrade");
	tarn_tensor_unref(held);
	ok(used_becomes(store, 0), "the idle client's release is noticed");
	load_file("u", 6, SMALL);
	is_int(1, tensor_check(second, "u/x", 6, SMALL),
		"a publication after the upgrade is seen by the idle client");
	tarn_store_unref(second);
	must(tarn_store_remove(store, "u/x"));
}

static void *remove_idle(void *s)
{
	return (void *)(intptr_t)tarn_store_remove(s, "idle/x");
}

/* 1. A client hears nothing of the upgrade; 2. others publish; 3. it asks, and
 * the server dies: the next one does what it asks. */
static void test_unheard_request(void)
{
	tarn_store *second;
	pthread_t thread;
	pid_t server;
	void *r;

	if (tarn_store_open(daemon_.socket, NULL, &second) < 0)
		bail("open: %s", tarn_error_message());
	upgrade();
	load_file("idle", 9, SMALL);
	server = server_of(&daemon_);
	kill(server, SIGSTOP);
	if (pthread_create(&thread, NULL, remove_idle, second) != 0)
		bail("no thread");
	usleep(200000);
	kill(server, SIGKILL);
	server_after(&daemon_, server);
	pthread_join(thread, &r);
	is_int(0, (intptr_t)r,
		"a request after the upgrade is done, though the server dies");
	tarn_store_unref(second);
}

/* A removal was done, and its answer ended with the server: the next server
 * finds its completion. */
static void test_completion(void)
{
	again_open(&daemon_);
	publish("again");
	fill_socket();
	request(WIRE_REMOVE, 1000, "again", 5, false);
	until_version("again", -ENOENT);
	upgrade();
	follow_server();
	until_completions(1);
	publish("again");
	is_int(WIRE_DONE, answer_to(WIRE_REMOVE, 1000, "again", 5, true),
		"a removal that was done before the upgrade is answered");
	is_int(1, version_of("again"),
		"a removal that is sent again takes no newer version");
	until_completions(0);
	take_away("again");
	again_close();
}

/* ---- waiting and forking ------------------------------------------------- */

static void test_waiting(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tarn_store *s;
		int r = tarn_store_open(daemon_.socket, NULL, &s);

		_exit(r < 0 ||
			tarn_store_wait(s, "late/x", 0, 60000, NULL, NULL) < 0);
	}
	usleep(200000);
	upgrade();
	upgrade();
	load_file("late", 8, SMALL);
	waitpid(pid, &status, 0);
	is_int(0, status,
		"a waiting client continues to wait, and sees the publication");
	must(tarn_store_remove(store, "late/x"));
}

/* With leases, of which the child gets its own. */
static void test_fork(void)
{
	tarn_tensor *held;
	tarn_store *second;
	uint32_t before;
	int status;
	pid_t pid;

	load_file("f", 9, LARGE);
	if (tarn_store_open(daemon_.socket, NULL, &second) < 0 ||
		tarn_store_lookup(second, "f/x", &held) < 0)
		bail("f/x: %s", tarn_error_message());
	upgrade();
	before = report().upgrades;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		kill(daemon_.pid, SIGUSR2);
		usleep(300000);
		if (!tensor_is(held, 9, LARGE))
			_exit(1);
		if (tensor_check(second, "f/x", 9, LARGE) != 1)
			_exit(2);
		tarn_tensor_unref(held);
		_exit(tensor_check(second, "f/x", 9, LARGE) != 1 ? 3 : 0);
	}
	may_fail(tarn_store_remove(second, "none"));
	tarn_tensor_unref(held);
	tarn_store_unref(second);
	waitpid(pid, &status, 0);
	is_int(0, status, "a child that is forked afterwards uses the store");
	/* The next test must not meet the upgrade of this one. */
	if (!upgraded(before + 1))
		bail("the upgrade that the child asked for does not come");
	must(tarn_store_remove(store, "f/x"));
	ok(used_becomes(store, 0), "the child leaves no memory taken");
}

/* ---- programs that cannot ------------------------------------------ */

/* What the keeper says of it, it says when it is over. */
static void refuse(const char *what)
{
	static const char said[] = " upgrade_refused role=keeper ";
	struct tarn_report_daemon before = report(), after;
	unsigned n = daemon_logged(log_path, said);

	kill(daemon_.pid, SIGUSR2);
	ok(daemon_logs(log_path, said, n), "an upgrade is refused: %s", what);
	after = report();
	ok(before.upgrades == after.upgrades &&
			before.server_pid == after.server_pid &&
			tensor_check(store, "kept/x", 10, SMALL) == 1,
		"a refused upgrade changes nothing: %s", what);
}

/* Its control region, as a process of the daemon's own uid can map it: see
 * tarn-security(7). */
static struct table_header *written_header(void)
{
	struct table_header *header;
	char path[64];
	struct raw one;
	int fd;

	raw_open(&one, daemon_.socket);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", one.table);
	if (fchmod(one.table, 0600) < 0)
		bail("fchmod: %m");
	fd = open(path, O_RDWR | O_CLOEXEC);
	header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED,
		fd, 0);
	if (fd < 0 || header == MAP_FAILED)
		bail("the control region: %m");
	fchmod(one.table, 0400);
	close(fd);
	raw_close(&one);
	return header;
}

/* As if the program that is installed knew another version of it. */
static void test_another_version(void)
{
	static const char why[] = "control region: version is";
	struct table_header *header = written_header();
	unsigned n = daemon_logged(log_path, why);

	header->version++;
	refuse("a program that knows another version of control regions");
	ok(daemon_logged(log_path, why) > n, "the log has the other version");
	header->version--;
	munmap(header, sizeof(*header));
}

/* 1. The program shows that it can go on; 2. it cannot be executed any more.
 * The server has ended by then, and the old program starts another one. */
static void test_exec_fails(void)
{
	static const char said[] = " upgrade_failed role=keeper ";
	struct tarn_report_daemon before = report(), after;
	unsigned n = daemon_logged(log_path, said);
	char script[600];

	snprintf(script, sizeof(script),
		"#!/bin/sh\nchmod 0 \"$0\"\nexec '%s' \"$@\"\n", original);
	program_install(script, strlen(script), 0700);
	kill(daemon_.pid, SIGUSR2);
	ok(daemon_logs(log_path, said, n),
		"an exec that fails after the trial is logged");
	after = report();
	is_int((int64_t)before.upgrades, (int64_t)after.upgrades,
		"the failed exec is not counted as an upgrade");
	ok(before.server_pid != after.server_pid,
		"the old program has started another server");
	is_int(1, tensor_check(store, "kept/x", 10, SMALL),
		"what was published before the exec failed stands");
	load_file("then", 11, SMALL);
	is_int(1, tensor_check(store, "then/x", 11, SMALL),
		"what is loaded after the exec failed is found");
	is_int((int64_t)before.allocated, (int64_t)report().allocated,
		"memory of before the exec that failed is used again");
	must(tarn_store_remove(store, "then/x"));
}

static void test_refused(void)
{
	static const char fails[] = "#!/bin/sh\nexit 1\n";
	static const char agrees[] = "#!/bin/sh\nexit 0\n";

	load_file("kept", 10, SMALL);
	program_install(fails, strlen(fails), 0700);
	refuse("a program that fails");
	program_install(agrees, strlen(agrees), 0700);
	refuse("one that agrees to anything");
	program_install(fails, strlen(fails), 0000);
	refuse("one that cannot be executed");
	program_remove();
	refuse("one that is not there");
	program_restore();
	test_another_version();
	test_exec_fails();
	program_restore();
	upgrade();
	is_int(1, tensor_check(store, "kept/x", 10, SMALL),
		"an upgrade after the refused ones succeeds");
	must(tarn_store_remove(store, "kept/x"));
}

int main(void)
{
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	snprintf(original, sizeof(original), "%s", getenv("TARN_DAEMON"));
	upgrade_begin();
	test_kept();
	test_in_place();
	test_unheard_release();
	test_unheard_request();
	test_completion();
	test_waiting();
	test_fork();
	test_refused();
	upgrade_end();
	daemon_log_show(log_path);
	remove_files();
	return done(47);
}
