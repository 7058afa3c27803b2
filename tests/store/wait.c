/* SPDX-License-Identifier: MIT */
/*
 * Waiting for names, against the real daemon: for one to appear, for a newer
 * version, for whatever comes next; by threads and processes at once, while
 * thousands of others are published; until the time is over, or the daemon.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define LONG_MS 60000 /* nothing is wrong if a loaded machine needs so long */
#define PROCESSES 8
#define THREADS 4
#define VERSIONS 500

static struct daemon server;
static tarn_file *file;
static char path[300];

static tarn_store *open_store(void)
{
	tarn_store *store;

	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	return store;
}

/* One tensor "x" of eight bytes, which counts down. */
static void make_file(void)
{
	static const char header[] = "{\"x\":{\"dtype\":\"U8\",\"shape\":[8],"
				     "\"data_offsets\":[0,8]}}";
	uint64_t size = sizeof(header) - 1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/x.safetensors", test_tmpdir());
	f = fopen(path, "w");
	if (!f)
		bail("%s: %s", path, strerror(errno));
	fwrite(&size, 8, 1, f);
	fwrite(header, 1, size, f);
	fwrite("\7\6\5\4\3\2\1", 1, 8, f);
	fclose(f);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
}

/* FOLDER/x gets another version. */
static void publish(tarn_store *store, const char *folder)
{
	struct tarn_load_options options = {.name = folder};

	if (tarn_store_load(store, file, &options, NULL, NULL) < 0)
		bail("%s: %s", folder, tarn_error_message());
}

/* ---- what a thread does while the test waits ------------------------- */

struct later {
	pthread_t thread;
	tarn_store *store;
	const char *publish; /* a folder, or NULL */
	const char *remove;  /* a name, or NULL: first */
};

static void *do_later(void *arg)
{
	struct later *later = arg;

	usleep(100000);
	if (later->remove)
		must(tarn_store_remove(later->store, later->remove));
	if (later->publish)
		publish(later->store, later->publish);
	return NULL;
}

static void begin_later(struct later *later)
{
	pthread_create(&later->thread, NULL, do_later, later);
}

/* ---- one waiter ------------------------------------------------------ */

static void test_time(tarn_store *store)
{
	double start = seconds();
	uint64_t version = 77;
	tarn_tensor *t = NULL;

	is_int(-ETIMEDOUT, tarn_store_wait(store, "no/x", 0, 0, &t, &version),
		"a wait without time for a missing name times out");
	is_int(-ETIMEDOUT, tarn_store_wait(store, "no/x", 0, 120, &t, &version),
		"a short wait for a missing name times out");
	ok(seconds() - start >= 0.12, "a short wait takes its time");
	has_str("'no/x': nobody has published it within 120 ms",
		tarn_error_message(), "the error contains the expected words");
	ok(!t && version == 77, "a wait that times out returns nothing");
	is_int(-ENOENT, tarn_store_version(store, "no/x", &version),
		"a missing name has no version");
	is_int(-EINVAL, tarn_store_wait(store, "", 0, -1, &t, NULL),
		"a wait for an empty name is refused");
	is_int(-EINVAL, tarn_store_wait(store, "\xff", 0, -1, &t, NULL),
		"a wait for a malformed name is refused");
}

static void test_appears(tarn_store *store, tarn_store *other)
{
	struct later later = {.store = other, .publish = "a"};
	uint64_t version = 0;
	tarn_tensor *t;
	int64_t value = 0;

	begin_later(&later);
	is_int(0, tarn_store_wait(store, "a/x", 0, -1, &t, &version),
		"a wait ends when its name is published");
	is_int(1, (int64_t)version, "the awaited name has version 1");
	must(tarn_tensor_get_i64(t, (int64_t[]) {0}, &value));
	is_int(7, value, "the awaited tensor is read");
	tarn_tensor_unref(t);
	pthread_join(later.thread, NULL);
	is_int(0, tarn_store_wait(store, "a/x", 0, 0, NULL, NULL),
		"a wait for a name that exists ends at once");
}

static void test_newer(tarn_store *store, tarn_store *other)
{
	struct later later = {.store = other, .publish = "a"};
	uint64_t version = 0;
	tarn_tensor *t;

	is_int(-ETIMEDOUT, tarn_store_wait(store, "a/x", 1, 50, &t, NULL),
		"a wait for a newer version times out");
	has_str("it is at version 1, and nobody has published a newer one",
		tarn_error_message(), "the error contains the expected words");
	begin_later(&later);
	is_int(0, tarn_store_wait(store, "a/x", 1, LONG_MS, &t, &version),
		"a wait for a newer version ends when it is published");
	is_int(2, (int64_t)version, "the newer version is version 2");
	tarn_tensor_unref(t);
	pthread_join(later.thread, NULL);
	is_int(0, tarn_store_version(store, "a/x", &version),
		"the name's version is asked");
	is_int(2, (int64_t)version, "the name has version 2");
	is_int(-ETIMEDOUT, tarn_store_wait(store, "a/x", 5, 50, &t, NULL),
		"a wait for a version far ahead times out");
	has_str("published one above", tarn_error_message(),
		"the error says which version was published");
	later.remove = "a/x";
	begin_later(&later);
	is_int(-ETIMEDOUT, tarn_store_wait(store, "a/x", 2, 400, &t, NULL),
		"a wait for a version above a removed name's times out");
	pthread_join(later.thread, NULL);
	is_int(0, tarn_store_version(store, "a/x", &version),
		"the version of the name published anew is asked");
	is_int(1, (int64_t)version, "a name published anew has version 1");
}

static void test_next(tarn_store *store, tarn_store *other)
{
	struct later later = {.store = other, .publish = "n"};
	uint64_t cursor = 0, before;
	tarn_tensor *t;

	publish(other, "n");
	is_int(0, tarn_store_next(store, "n/x", &cursor, 0, &t),
		"the first tensor of a name comes at once");
	tarn_tensor_unref(t);
	before = cursor;
	is_int(-ETIMEDOUT, tarn_store_next(store, "n/x", &cursor, 50, &t),
		"a second tensor of the name times out");
	is_int((int64_t)before, (int64_t)cursor,
		"a wait that times out leaves the cursor as it is");
	begin_later(&later);
	is_int(0, tarn_store_next(store, "n/x", &cursor, LONG_MS, &t),
		"a second tensor comes when it is published");
	tarn_tensor_unref(t);
	pthread_join(later.thread, NULL);
	must(tarn_store_remove(store, "n/x"));
	is_int(-ETIMEDOUT, tarn_store_next(store, "n/x", &cursor, 50, &t),
		"a removal does not end a wait for the next");
	publish(other, "n");
	publish(other, "n");
	must(tarn_store_version(store, "n/x", &before));
	is_int(2, (int64_t)before,
		"a name removed and published again has version 1");
	is_int(0, tarn_store_next(store, "n/x", &cursor, 0, &t),
		"the republished version 1 counts as the next tensor");
	tarn_tensor_unref(t);
	is_int(-ETIMEDOUT, tarn_store_next(store, "n/x", &cursor, 0, &t),
		"the republished tensor comes once");
}

/* A server that stopped while it was freeing what a name leads to: so says
 * store_import, which is asked through here, so many times. */
static _Atomic int busy;
int __real_store_import_nearest(struct tarn_store *store,
	const struct tarn_descriptor *d, tarn_tensor **ret);
int __wrap_store_import_nearest(struct tarn_store *store,
	const struct tarn_descriptor *d, tarn_tensor **ret);

int __wrap_store_import_nearest(struct tarn_store *store,
	const struct tarn_descriptor *d, tarn_tensor **ret)
{
	if (busy > 0) {
		busy--;
		return tarn_fail(EBUSY, "it is being freed");
	}
	return __real_store_import_nearest(store, d, ret);
}

static void test_busy(tarn_store *store)
{
	tarn_tensor *t = NULL;

	busy = 3;
	is_int(0, tarn_store_wait(store, "a/x", 0, LONG_MS, &t, NULL),
		"a wait for a name whose storage is being freed continues");
	is_int(0, busy, "the wait ends when the server answers");
	tarn_tensor_unref(t);
	busy = 1000000;
	is_int(-ETIMEDOUT, tarn_store_wait(store, "a/x", 0, 50, &t, NULL),
		"a wait ends at its deadline while the server is stopped");
	busy = 0;
}

static void on_alarm(int number)
{
	(void)number;
}

static void test_signals(tarn_store *store)
{
	struct sigaction action = {.sa_handler = on_alarm}, old;
	struct itimerval often = {{0, 5000}, {0, 5000}}, never = {0};
	double start = seconds();
	tarn_tensor *t;

	sigaction(SIGALRM, &action, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	is_int(-ETIMEDOUT, tarn_store_wait(store, "no/x", 0, 300, &t, NULL),
		"signals do not end a wait");
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
	ok(seconds() - start >= 0.3,
		"a wait with signals takes its whole time");
}

static void test_fork(tarn_store *store)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		tarn_tensor *t = NULL;
		int r = tarn_store_wait(store, "no/x", 0, 50, &t, NULL);

		/* A child that may not use it is told so at once. */
		_exit(r == -EPERM || r == -ETIMEDOUT ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(0, status, "a wait in a forked child ends");
}

/* ---- many waiters ---------------------------------------------------- */

static _Atomic int n_wrong;

/* Follows a name to its last version, one way or the other. */
static void *follow(void *arg)
{
	bool by_number = arg;
	tarn_store *store = open_store();
	uint64_t at = 0, version = 0;
	int r = 0;

	while (r == 0 && version < VERSIONS) {
		tarn_tensor *t = NULL;

		if (by_number) {
			r = tarn_store_wait(
				store, "m/x", at, LONG_MS, &t, &version);
			if (r == 0 && version <= at) {
				diag("version %d came after %d", (int)version,
					(int)at);
				n_wrong++;
			}
			at = version;
		} else {
			r = tarn_store_next(store, "m/x", &at, LONG_MS, &t);
			if (r == 0)
				r = tarn_store_version(store, "m/x", &version);
		}
		tarn_tensor_unref(t);
	}
	if (r < 0) {
		diag("version %d: %s", (int)version, tarn_error_message());
		n_wrong++;
	}
	tarn_store_unref(store);
	return NULL;
}

/*
 * Each has a store of its own, of 7 GiB of addresses. valgrind has 64 GiB of
 * them for a program, which two threads and what the parent mapped fit in.
 */
static int n_threads(void)
{
	return getenv("TARN_TEST_SAMPLE") ? 2 : THREADS;
}

static void follow_in_child(void)
{
	pthread_t threads[THREADS];
	int n = n_threads();

	n_wrong = 0;
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, follow,
			i % 2 ? (void *)&n_wrong : NULL);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	_exit(n_wrong != 0);
}

static void test_many(tarn_store *store)
{
	pid_t pids[PROCESSES];
	double start;
	int failed = 0;

	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			follow_in_child();
	}
	usleep(100000);
	start = seconds();
	for (int i = 0; i < VERSIONS; i++) {
		publish(store, "m");
		publish(store, "noise");
	}
	diag("%d commits in %.2f s", 2 * VERSIONS, seconds() - start);
	for (int i = 0; i < PROCESSES; i++) {
		int status = -1;

		waitpid(pids[i], &status, 0);
		failed += status != 0;
		if (status)
			diag("process %d: status %#x", i, (unsigned)status);
	}
	is_int(0, failed,
		"%d processes of several threads see the last version",
		PROCESSES);
}

/* ---- another server -------------------------------------------------- */

static void *kill_and_publish(void *arg)
{
	struct tarn_report_daemon status = {0};
	tarn_store *store;

	usleep(100000);
	if (report_daemon(arg, &status) < 0)
		bail("status: %s", tarn_error_message());
	kill(status.server_pid, SIGKILL);
	store = open_store();
	publish(store, "r");
	tarn_store_unref(store);
	return NULL;
}

static void test_restart(tarn_store *store, tarn_store *other)
{
	uint64_t version = 0;
	pthread_t thread;
	tarn_tensor *t = NULL;

	pthread_create(&thread, NULL, kill_and_publish, other);
	is_int(0, tarn_store_wait(store, "r/x", 0, LONG_MS, &t, &version),
		"a wait ends when the next server publishes the name");
	is_int(1, (int64_t)version,
		"the name of the next server has version 1");
	tarn_tensor_unref(t);
	pthread_join(thread, NULL);
}

/* ---- the end --------------------------------------------------------- */

static void *kill_later(void *arg)
{
	(void)arg;
	usleep(300000);
	kill(server.pid, SIGKILL);
	return NULL;
}

static void test_death(tarn_store *store)
{
	pthread_t thread;
	double start = seconds();
	tarn_tensor *t;

	pthread_create(&thread, NULL, kill_later, NULL);
	is_int(-ECONNRESET, tarn_store_wait(store, "no/x", 0, -1, &t, NULL),
		"a wait without a deadline ends when the daemon ends");
	ok(seconds() - start < LONG_MS / 1000,
		"the wait ends soon after the daemon");
	has_str(server.socket, tarn_error_message(),
		"the error names the daemon's socket");
	pthread_join(thread, NULL);
	start = seconds();
	is_int(-ECONNRESET,
		tarn_store_wait(store, "no/x", 0, 4 * LONG_MS, &t, NULL),
		"a second wait after the daemon's end is ECONNRESET");
	ok(seconds() - start < LONG_MS / 1e3,
		"a second wait after the daemon's end ends at once");
	is_int(0, tarn_store_wait(store, "m/x", 0, 500, &t, NULL),
		"a name that is there is found after the daemon's end");
	tarn_tensor_unref(t);
}

int main(void)
{
	tarn_store *store, *other;

	daemon_start(&server, "sock", NULL);
	make_file();
	store = open_store();
	other = open_store();
	test_time(store);
	test_appears(store, other);
	test_newer(store, other);
	test_next(store, other);
	test_busy(store);
	test_signals(store);
	test_fork(store);
	test_many(store);
	test_restart(store, other);
	test_death(store);
	tarn_store_unref(other);
	tarn_store_unref(store);
	tarn_file_unref(file);
	waitpid(server.pid, NULL, 0);
	unlink(server.socket);
	unlink(path);
	return done(46);
}
