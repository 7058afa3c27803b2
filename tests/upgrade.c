/* SPDX-License-Identifier: MIT */
/*
 * The daemon becomes another program while its clients hold, wait and fork:
 * nothing is lost, and each of them follows, or is told that he cannot. A
 * program that cannot go on from there changes nothing.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail.h"
#include "lib/store/store.h"
#include "tests/limit.h"
#include "tests/raw_client.h"
#include "tests/tap.h"
#include "tests/upgrade_kit.h"
#include "tests/witness.h"

enum { SMALL = 10000, LARGE = 3 << 20 };

static char log_path[300]; /* the daemon's */

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
	/* As it would be of an older one. */
	store->connection.understands = 0;
	upgrade();
	after = report();
	ok(connection_knows(&store->connection, WELCOME_SINCE),
		"what the next one understands is known");
	is_int(daemon_.pid, after.keeper_pid, "the keeper is who it was");
	ok(after.server_pid != before.server_pid, "the server is another");
	is_int((int64_t)before.instance, (int64_t)after.instance,
		"it is the same daemon");
	is_int(1, after.upgrades, "one upgrade is counted");
	is_int(0, after.restarts, "and no death");
	is_int((int64_t)before.used, (int64_t)after.used, "bytes used");
	is_int((int64_t)before.names, (int64_t)after.names, "names");
	is_int(1, tensor_check(store, "a/x", 1, SMALL), "a name");
	ok(tensor_is(held, 2, LARGE), "what was held");
	used = after.used;
	load_file("c", 3, LARGE);
	is_int(1, tensor_check(store, "c/x", 3, LARGE), "a new file");
	is_int(0, tarn_store_remove(store, "b/x"), "a name goes");
	load_file("d", 4, LARGE);
	ok(tensor_is(held, 2, LARGE), "its holder keeps the bytes");
	tarn_store_remove(store, "c/x");
	tarn_store_remove(store, "d/x");
	ok(report().used >= used - LARGE / 2, "it is charged for them");
	tarn_tensor_unref(held);
	tarn_store_remove(store, "a/x");
	ok(used_becomes(store, 0), "the last release is heard");
	ok(taken_becomes(0), "and all memory of before goes back");
}

/* ---- the next region cannot be taken ------------------------------------ */

/* One who holds "f/x" and has not heard yet that the daemon is another. */
struct behind {
	tarn_store *store;
	tarn_tensor *held;
};

static struct behind leave_behind(void)
{
	struct behind one;

	load_file("f", 6, SMALL);
	if (tarn_store_open(daemon_.socket, &one.store) < 0 ||
		tarn_store_lookup(one.store, "f/x", &one.held) < 0)
		bail("f/x: %s", tarn_error_message());
	upgrade();
	return one;
}

static void cannot_follow(
	const struct behind *one, const char *without, int error)
{
	struct tarn_store_status s;
	tarn_tensor *t;

	is_int(0, tarn_store_get_status(one->store, &s),
		"who has no %s for the next region is answered", without);
	for (int i = 0; i < 2; i++)
		is_int(error, tarn_store_lookup(one->store, "f/x", &t),
			"and cannot look there");
}

/* And lets go. */
static void follows(const struct behind *one)
{
	is_int(1, tensor_check(one->store, "f/x", 6, SMALL),
		"once he has, he can");
	ok(tensor_is(one->held, 6, SMALL), "what he holds stays");
	tarn_tensor_unref(one->held);
	tarn_store_unref(one->store);
	tarn_store_remove(store, "f/x");
	used_becomes(store, 0);
}

/* The next region comes to a process that can open nothing. */
static void test_full(void)
{
	struct behind one = leave_behind();
	struct rlimit before = limit_to(RLIMIT_NOFILE, limit_next_fd());

	cannot_follow(&one, "descriptor", -EMFILE);
	has_str("ulimit -n", tarn_error_message(), "the sentence says why");
	setrlimit(RLIMIT_NOFILE, &before);
	follows(&one);
}

/* Of addresses, in bytes. */
static rlim_t in_use(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu", &pages) != 1)
		bail("statm: %m");
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* It comes to a process that can map nothing of its size. */
static void test_no_memory(void)
{
	struct behind one = leave_behind();
	struct rlimit before =
		limit_to(RLIMIT_AS, in_use() + one.store->table.size / 2);

	cannot_follow(&one, "memory", -ENOMEM);
	setrlimit(RLIMIT_AS, &before);
	follows(&one);
}

/* The ms that it took. */
static void *look(void *arg)
{
	int64_t begin = clock_ms();

	if (tensor_check(arg, "f/x", 6, SMALL) != 1)
		return (void *)(intptr_t)INT_MAX;
	return (void *)(intptr_t)(clock_ms() - begin);
}

/* Two threads wait for it: one asks for it once more, the other may be the one
 * that hears the answer. */
static void test_full_threads(void)
{
	struct tarn_store_status s;
	struct rlimit before;
	pthread_t threads[2];
	tarn_store *other;

	load_file("f", 6, SMALL);
	if (tarn_store_open(daemon_.socket, &other) < 0)
		bail("%s", tarn_error_message());
	upgrade();
	before = limit_to(RLIMIT_NOFILE, limit_next_fd());
	is_int(0, tarn_store_get_status(other, &s), "it is lost");
	setrlimit(RLIMIT_NOFILE, &before);
	kill((pid_t)s.server_pid, SIGSTOP);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, look, other);
	usleep(300000);
	kill((pid_t)s.server_pid, SIGCONT);
	for (int i = 0; i < 2; i++) {
		void *ms;

		pthread_join(threads[i], &ms);
		ok((intptr_t)ms < CONNECTION_TIMEOUT_MS / 2,
			"a thread that waits sees it: within %d ms, in %d",
			CONNECTION_TIMEOUT_MS / 2, (int)(intptr_t)ms);
	}
	tarn_store_unref(other);
	tarn_store_remove(store, "f/x");
	used_becomes(store, 0);
}

/* Released in the old region, by who has not heard of the upgrade. */
static void test_unheard_release(void)
{
	tarn_tensor *held;
	tarn_store *other;

	load_file("u", 5, LARGE);
	if (tarn_store_open(daemon_.socket, &other) < 0 ||
		tarn_store_lookup(other, "u/x", &held) < 0)
		bail("u/x: %s", tarn_error_message());
	tarn_store_remove(store, "u/x");
	upgrade();
	ok(report().used > 0, "who did not hear of it keeps what he holds");
	ok(tensor_is(held, 5, LARGE), "and its bytes");
	tarn_tensor_unref(held);
	ok(used_becomes(store, 0), "and his release is heard");
	load_file("u", 6, SMALL);
	is_int(1, tensor_check(other, "u/x", 6, SMALL),
		"what is published then, he sees");
	tarn_store_unref(other);
	tarn_store_remove(store, "u/x");
}

static void *remove_idle(void *s)
{
	return (void *)(intptr_t)tarn_store_remove(s, "idle/x");
}

/* 1. He hears nothing of the upgrade; 2. others publish; 3. he asks, and the
 * server dies: what they did was done before, and is no doubt. */
static void test_unheard_request(void)
{
	tarn_store *other;
	pthread_t thread;
	pid_t server;
	void *r;

	if (tarn_store_open(daemon_.socket, &other) < 0)
		bail("open: %s", tarn_error_message());
	upgrade();
	load_file("idle", 9, SMALL);
	server = server_of(&daemon_);
	kill(server, SIGSTOP);
	if (pthread_create(&thread, NULL, remove_idle, other) != 0)
		bail("no thread");
	usleep(200000);
	kill(server, SIGKILL);
	server_after(&daemon_, server);
	pthread_join(thread, &r);
	is_int(0, (intptr_t)r,
		"what he asks then is done, though the server dies");
	tarn_store_unref(other);
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
		int r = tarn_store_open(daemon_.socket, &s);

		_exit(r < 0 ||
			tarn_store_wait(s, "late/x", 0, 20000, NULL, NULL) < 0);
	}
	usleep(200000);
	upgrade();
	upgrade();
	load_file("late", 8, SMALL);
	waitpid(pid, &status, 0);
	is_int(0, status, "who waits goes on waiting, and sees it");
	tarn_store_remove(store, "late/x");
}

/* With leases, of which the child gets its own in the region of before. */
static void test_fork(void)
{
	tarn_tensor *held;
	tarn_store *other;
	int status;
	pid_t pid;

	load_file("f", 9, LARGE);
	if (tarn_store_open(daemon_.socket, &other) < 0 ||
		tarn_store_lookup(other, "f/x", &held) < 0)
		bail("f/x: %s", tarn_error_message());
	upgrade();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		kill(daemon_.pid, SIGUSR2);
		usleep(300000);
		if (!tensor_is(held, 9, LARGE))
			_exit(1);
		if (tensor_check(other, "f/x", 9, LARGE) != 1)
			_exit(2);
		tarn_tensor_unref(held);
		_exit(tensor_check(other, "f/x", 9, LARGE) != 1 ? 3 : 0);
	}
	tarn_store_remove(other, "none");
	tarn_tensor_unref(held);
	tarn_store_unref(other);
	waitpid(pid, &status, 0);
	is_int(0, status, "a child that is forked then goes on as well");
	tarn_store_remove(store, "f/x");
	ok(used_becomes(store, 0), "and leaves nothing");
}

/* ---- protocol 1 ---------------------------------------------------------- */

/* Takes a lease, says so, and waits until its connection ends: then it looks
 * at what it can still do. */
static int be_old(const struct tarn_descriptor *d, int say, int hear)
{
	struct msg_hello hello = {.version = 1, .version_min = 1};
	struct lease_page *page;
	struct table table;
	struct raw raw;
	char c;

	raw_connect(&raw, daemon_.socket);
	raw_say(&raw, WIRE_HELLO, &hello, sizeof(hello), NULL, 0);
	if (raw_hear(&raw, RAW_PATIENCE_MS) != WIRE_WELCOME ||
		table_map(raw.fds[0], false, &table) < 0 ||
		lease_map(raw.fds[1], &page) < 0 ||
		lease_acquire(page, &table, d->storage, d->generation, 0) < 0 ||
		write(say, "y", 1) != 1)
		return 1;
	if (raw_hear(&raw, RAW_PATIENCE_MS) != WIRE_ERROR ||
		raw.error != ESTALE || !raw_is_closed(&raw))
		return 2;
	if (lease_acquire(page, &table, d->storage, d->generation, 1) !=
		-ESTALE)
		return 3;
	if (write(say, "y", 1) != 1 || read(hear, &c, 1) != 1)
		return 4;
	lease_release(page, &table, 0);
	for (;;)
		pause();
}

static void test_protocol_1(void)
{
	struct table_name found;
	int ready[2], go[2], status;
	char c;
	pid_t pid;

	load_file("old", 11, LARGE);
	if (table_find(&store->table, "old/x", 5, &found) < 0 ||
		pipe(ready) < 0 || pipe(go) < 0)
		bail("old/x: %s", tarn_error_message());
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(be_old(&found.descriptor, ready[1], go[0]));
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		bail("no lease for a client of protocol 1");
	upgrade();
	ok(read(ready[0], &c, 1) == 1,
		"protocol 1 is told, and can acquire nothing any more");
	close(ready[0]);
	tarn_store_remove(store, "old/x");
	usleep(1500000); /* time for one who looks now and then */
	ok(report().used > 0, "what it holds stays");
	if (write(go[1], "y", 1) != 1)
		bail("write: %m");
	ok(used_becomes(store, 0), "what it releases is found without a bell");
	close(go[0]);
	close(go[1]);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* ---- programs that cannot -------------------------------------------------
 */

/* What the keeper says of it, it says when it is over. */
static void refuse(const char *what)
{
	static const char said[] = " upgrade_refused role=keeper ";
	struct tarn_report_daemon before = report(), after;
	unsigned n = daemon_logged(log_path, said);

	kill(daemon_.pid, SIGUSR2);
	ok(daemon_logs(log_path, said, n), "%s is refused", what);
	after = report();
	ok(before.upgrades == after.upgrades &&
			before.server_pid == after.server_pid &&
			tensor_check(store, "kept/x", 10, SMALL) == 1,
		"%s changes nothing", what);
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
	upgrade();
	is_int(1, tensor_check(store, "kept/x", 10, SMALL),
		"and then one that can go on does");
	tarn_store_remove(store, "kept/x");
}

int main(void)
{
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	daemon_log_to(log_path);
	upgrade_begin();
	test_kept();
	test_full();
	test_full_threads();
	test_no_memory();
	test_unheard_release();
	test_unheard_request();
	test_waiting();
	test_fork();
	test_protocol_1();
	test_refused();
	upgrade_end();
	daemon_log_show(log_path);
	remove_files();
	return done();
}
