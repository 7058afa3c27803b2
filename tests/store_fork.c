/* SPDX-License-Identifier: MIT */
/*
 * Stores across fork(): a child holds what it has, whether or not it ever
 * calls the library again, after its parent let go or was killed; it goes on
 * with the store as its parent does; and where no connection is to be had for
 * it, it is told so.
 *
 * What is held is seen by this: the budget has room for one large file, and
 * another is refused as long as anybody holds the first.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/daemon_helper.h"
#include "tests/tap.h"

#define LARGE (40ull << 20)
#define FORKS 40
#define THREADS 2

static struct daemon server;
static tarn_store *store;
static tarn_file *one, *two; /* LARGE each, "b" */
static tarn_file *small;     /* of a page, "b" */

/* A file of one tensor "b": a byte 42, zeros, and a byte 43. */
static tarn_file *make_file(const char *name, uint64_t bytes)
{
	char path[300], text[100];
	uint64_t size;
	tarn_file *file;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	snprintf(text, sizeof(text),
		"{\"b\":{\"dtype\":\"U8\",\"shape\":[%llu],"
		"\"data_offsets\":[0,%llu]}}",
		(unsigned long long)bytes, (unsigned long long)bytes);
	size = strlen(text);
	f = fopen(path, "w");
	if (!f || fwrite(&size, 8, 1, f) != 1 ||
		fwrite(text, size, 1, f) != 1 || fputc(42, f) < 0 ||
		fseek(f, (long)(bytes - 2), SEEK_CUR) < 0 || fputc(43, f) < 0 ||
		fclose(f) != 0)
		bail("%s: %m", path);
	if (tarn_file_open(path, &file) < 0)
		bail("%s", tarn_error_message());
	unlink(path);
	return file;
}

static bool is_right(const tarn_tensor *t)
{
	const unsigned char *p = t ? tarn_tensor_data(t) : NULL;

	return p && p[0] == 42 && p[LARGE / 2] == 0 && p[LARGE - 1] == 43;
}

static tarn_tensor *get_one(void)
{
	struct tarn_load_options options = {.name = "one"};
	tarn_tensor *t;

	if (tarn_store_load(store, one, &options, NULL, NULL) < 0 ||
		tarn_store_lookup(store, "one/b", &t) < 0 ||
		tarn_store_remove(store, "one/b") < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* Is there room for the second file, as there is when nobody holds the first?
 * The end of a process is noticed after it. */
static bool has_room(void)
{
	return tarn_store_load(store, two, NULL, NULL, NULL) >= 0;
}

static bool gets_room(void)
{
	for (int i = 0; i < 200 && !has_room(); i++)
		usleep(20000);
	return has_room();
}

static int64_t clients(void)
{
	struct tarn_store_status status = {0};

	tarn_store_get_status(store, &status);
	return (int64_t)status.clients;
}

/* Until all but this process have gone. */
static bool is_alone(void)
{
	for (int i = 0; i < 200 && clients() != 1; i++)
		usleep(20000);
	return clients() == 1;
}

static int finished(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A child that does nothing but wait for a byte, and then reads its array. */
struct quiet {
	pid_t pid;
	int go;
};

static struct quiet quiet_child(const tarn_tensor *t)
{
	struct quiet child;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("pipe: %m");
	child.pid = fork();
	if (child.pid == 0) {
		char byte;

		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 1 && is_right(t) ? 0 : 1);
	}
	close(ends[0]);
	child.go = ends[1];
	return child;
}

static int quiet_end(const struct quiet *child)
{
	if (write(child->go, "", 1) != 1)
		bail("write: %m");
	close(child->go);
	return finished(child->pid);
}

/* ---- what a child holds ------------------------------------------------ */

static void test_parent_lets_go(void)
{
	tarn_tensor *t = get_one();
	struct quiet child = quiet_child(t);

	is_int(2, clients(), "a child that has leases has a connection");
	tarn_tensor_unref(t);
	ok(!has_room(), "the parent lets go, and the child holds");
	is_int(0, quiet_end(&child), "it reads what it had");
	ok(gets_room(), "and holds nothing when it has ended");
	ok(is_alone(), "nor is its connection left");
}

static void test_child_lets_go(void)
{
	tarn_tensor *t = get_one();
	pid_t pid = fork();

	if (pid == 0) {
		tarn_tensor_unref(t);
		_exit(0);
	}
	is_int(0, finished(pid), "a child lets go");
	ok(is_alone() && !has_room(), "and the parent holds");
	ok(is_right(t), "what it can read");
	tarn_tensor_unref(t);
	ok(gets_room(), "until it lets go");
}

/* A tensor keeps its store, whose handle is gone: what a fork locks of that
 * must be there. */
static void test_handle_is_gone(void)
{
	struct shared_storage *shared;
	struct quiet child;
	tarn_store *other;
	tarn_tensor *t;

	if (tarn_store_open(server.socket, &other) < 0 ||
		tarn_store_get_from_file(other, one, "b", &t) < 0)
		bail("%s", tarn_error_message());
	tarn_store_unref(other);
	shared = store_storage_of(tarn_tensor_storage(t));
	is_int(0, pthread_mutex_lock(&shared->store->files.lock),
		"a store without a handle can be locked");
	pthread_mutex_unlock(&shared->store->files.lock);
	child = quiet_child(t);
	tarn_tensor_unref(t);
	ok(!has_room(), "and its tensors are held by a child");
	is_int(0, quiet_end(&child), "which reads them");
	ok(gets_room(), "and holds nothing when it has ended");
}

/* The last bell is the child's. */
static void test_child_rings(void)
{
	tarn_tensor *t = get_one();
	int ready[2], go[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		tarn_tensor_unref(t);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 0)
			_exit(2);
		_exit(0);
	}
	close(go[0]);
	tarn_tensor_unref(t);
	ok(!has_room(), "a child holds");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1,
		"lets go, and lives on");
	ok(gets_room(), "which the daemon hears of");
	close(go[1]);
	is_int(0, finished(pid), "and ends");
	close(ready[0]);
	close(ready[1]);
}

/* A process of its own opens, gets and forks; then it is killed. */
static void test_parent_is_killed(void)
{
	int ready[2], go[2], status;
	char byte = 0;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		tarn_tensor *t;

		close(go[1]);
		if (tarn_store_open(server.socket, &store) < 0)
			_exit(1);
		t = get_one();
		if (fork() > 0)
			pause();
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		byte = is_right(t) ? 1 : 2;
		_exit(write(ready[1], &byte, 1) == 1 ? 0 : 1);
	}
	close(go[0]);
	close(ready[1]);
	ok(read(ready[0], &byte, 1) == 1, "a process and its child hold");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* Its end is noticed; that of its child has not come. */
	for (int i = 0; i < 100 && clients() > 2; i++)
		usleep(20000);
	is_int(2, clients(), "the parent is killed, and its connection ends");
	ok(!has_room(), "the child holds");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1 &&
			byte == 1,
		"and can read it");
	close(go[1]);
	close(ready[0]);
	ok(gets_room(), "until it ends too");
	ok(is_alone(), "then nothing is left of them");
}

/* A child of clone() has the socket and knows nothing of it. */
static void test_socket_stays_open(void)
{
	int ready[2], status;
	pid_t pid, heir = 0;

	if (pipe2(ready, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		if (tarn_store_open(server.socket, &store) < 0)
			_exit(1);
		get_one();
		heir = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, 0, NULL);
		if (heir > 0 && write(ready[1], &heir, sizeof(heir)) < 0)
			_exit(2);
		pause();
	}
	ok(read(ready[0], &heir, sizeof(heir)) == sizeof(heir),
		"a process holds, and another has its socket");
	ok(!has_room(), "as it should");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ok(gets_room(), "its end is noticed");
	ok(is_alone(), "and ends its connection");
	is_int(0, kill(heir, SIGKILL), "though the other lives");
	close(ready[0]);
	close(ready[1]);
}

static void test_nested(void)
{
	tarn_tensor *t = get_one();
	int go[2];
	char byte;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		for (int i = 0; i < 3; i++)
			if (fork() > 0)
				_exit(0);
		if (read(go[0], &byte, 1) < 0 || !is_right(t) ||
			tarn_store_lookup(store, "none", &t) != -ENOENT)
			abort();
		_exit(0);
	}
	close(go[0]);
	is_int(0, finished(pid), "a child of a child of a child");
	tarn_tensor_unref(t);
	usleep(100000);
	ok(!has_room(), "holds, when all before it have ended");
	close(go[1]);
	ok(gets_room(), "until it ends");
	ok(is_alone(), "and its connection with it");
}

/* ---- what a child can do ----------------------------------------------- */

/* All of the store, in a child that has leases; 0, or where it went wrong. */
static int use_store(tarn_tensor *t)
{
	struct tarn_store_status status;
	struct tarn_descriptor d;
	tarn_tensor *other;

	if (!is_right(t))
		return 1;
	if (tarn_store_get_status(store, &status) < 0)
		return 2;
	if (tarn_store_export(store, t, &d) < 0 ||
		tarn_store_import(store, &d, &other) < 0)
		return 3;
	if (!tarn_tensor_same_storage(t, other) || !is_right(other))
		return 4;
	tarn_tensor_unref(other);
	tarn_tensor_unref(t);
	/* Once the parent has let go, too. */
	if (!gets_room() ||
		tarn_store_get_from_file(store, one, "b", &other) < 0)
		return 5;
	if (!is_right(other))
		return 6;
	tarn_tensor_unref(other);
	tarn_store_unref(store);
	return 0;
}

static void test_use(void)
{
	tarn_tensor *t = get_one();
	pid_t pid = fork();

	if (pid == 0)
		_exit(use_store(t));
	tarn_tensor_unref(t);
	is_int(0, finished(pid), "a child uses the store as its parent does");
	ok(is_alone() && gets_room(), "and nothing is left of it");
}

/* Without leases no connection is made before it is needed. */
static void test_lazy(void)
{
	int ready[2], go[2];
	tarn_tensor *t;
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) != 1 || fork() != 0)
			_exit(finished(-1));
		if (tarn_store_get_from_file(store, one, "b", &t) < 0)
			_exit(1);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 0)
			_exit(2);
		_exit(is_right(t) ? 0 : 3);
	}
	close(go[0]);
	usleep(50000);
	is_int(1, clients(), "a child without leases has no connection");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1,
		"its own child gets a tensor");
	is_int(2, clients(), "and has one then");
	ok(!has_room(), "which holds");
	close(go[1]);
	is_int(0, finished(pid), "what it reads");
	ok(gets_room() && is_alone(), "until it ends");
	close(ready[0]);
	close(ready[1]);
}

/* ---- threads, and many forks ------------------------------------------- */

static _Atomic bool stop;
static _Atomic unsigned looked, wrong;

static void *looker(void *arg)
{
	while (!atomic_load(&stop)) {
		tarn_tensor *t;

		if (tarn_store_lookup(store, "one/b", &t) < 0 || !is_right(t))
			atomic_fetch_add(&wrong, 1);
		tarn_tensor_unref(t);
		atomic_fetch_add(&looked, 1);
	}
	return arg;
}

static int look_in_child(void)
{
	tarn_tensor *t;

	for (int i = 0; i < 10; i++) {
		if (tarn_store_lookup(store, "one/b", &t) < 0)
			return 1;
		if (!is_right(t))
			return 2;
		tarn_tensor_unref(t);
	}
	return 0;
}

static void test_threads(void)
{
	struct tarn_load_options options = {.name = "one"};
	pthread_t threads[THREADS];
	pid_t pids[FORKS];
	int bad = 0;

	if (tarn_store_load(store, one, &options, NULL, NULL) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, looker, NULL))
			bail("pthread_create");
	for (int i = 0; i < FORKS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(look_in_child());
	}
	for (int i = 0; i < FORKS; i++)
		bad += finished(pids[i]) != 0;
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, bad, "%d forks while %d threads look up", FORKS, THREADS);
	ok(looked > 0 && wrong == 0, "who see nothing of it");
	tarn_store_remove(store, "one/b");
	ok(is_alone(), "no connection is left");
	ok(gets_room(), "nor a lease");
}

/* ---- in the middle of a call ------------------------------------------- */

/* What the caller of a load does when it is told how far that is. */
struct forker {
	pid_t pid;  /* of the server, which is stopped */
	pid_t fork; /* -1: not forked yet; 0: this is the child */
};

static int fork_once(void *arg, uint64_t done, uint64_t total)
{
	struct forker *forker = arg;

	(void)done;
	(void)total;
	if (forker->fork < 0) {
		kill(forker->pid, SIGCONT);
		forker->fork = fork();
	}
	return 0;
}

/* In the child: the call is the parent's; everything else is its own. */
static int after_call(int r, const tarn_tensor *held)
{
	struct tarn_store_status status;

	if (r != -ECONNRESET)
		return 1;
	if (!strstr(tarn_error_message(), "before fork()"))
		return 2;
	if (held && !is_right(held))
		return 3;
	if (tarn_store_get_status(store, &status) < 0)
		return 4;
	return 0;
}

static void test_progress(bool holding)
{
	struct forker forker = {.fork = -1};
	struct tarn_load_options options = {
		.name = "small", .progress = fork_once, .arg = &forker};
	tarn_tensor *held = holding ? get_one() : NULL;
	struct tarn_store_status status = {0};
	int r;

	tarn_store_get_status(store, &status);
	forker.pid = status.server_pid;
	kill(forker.pid, SIGSTOP);
	r = tarn_store_load(store, small, &options, NULL, NULL);
	if (forker.fork == 0)
		_exit(after_call(r, held));
	is_int(0, r, "a load goes on though its callback forks%s",
		holding ? ", with leases" : "");
	ok(forker.fork > 0, "which it did");
	is_int(0, finished(forker.fork), "the child's call ends, told why");
	is_int(0, tarn_store_remove(store, "small/b"), "it was loaded");
	ok(!held || is_right(held), "what was held is there");
	tarn_tensor_unref(held);
	ok(is_alone() && gets_room(), "and nothing is left of it");
}

/* ---- no connection ----------------------------------------------------- */

static int without(tarn_tensor *t)
{
	struct tarn_descriptor d;
	tarn_tensor *other;

	if (!is_right(t) || tarn_store_export(store, t, &d) < 0)
		return 1;
	if (tarn_store_import(store, &d, &other) != -ECONNRESET)
		return 2;
	if (!strstr(tarn_error_message(), "fork()"))
		return 3;
	if (tarn_store_remove(store, "one/b") != -ECONNRESET)
		return 4;
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	return 0;
}

static void test_without(void)
{
	tarn_tensor *t = get_one();
	char away[300];
	pid_t pid;

	snprintf(away, sizeof(away), "%s.away", server.socket);
	if (rename(server.socket, away) < 0)
		bail("rename: %m");
	pid = fork();
	if (pid == 0)
		_exit(without(t));
	if (rename(away, server.socket) < 0)
		bail("rename: %m");
	is_int(0, finished(pid), "a child without a connection is told so");
	ok(is_right(t) && !has_room(), "what it drops, the parent holds still");
	tarn_tensor_unref(t);
	ok(gets_room(), "until it lets go");
}

int main(void)
{
	const char *const options[] = {
		"--budget", "64M", "--segment-size", "32M", NULL};

	daemon_start(&server, "d.sock", options);
	one = make_file("one.safetensors", LARGE);
	two = make_file("two.safetensors", LARGE);
	small = make_file("small.safetensors", 4096);
	if (tarn_store_open(server.socket, &store) < 0)
		bail("%s", tarn_error_message());
	test_parent_lets_go();
	test_child_lets_go();
	test_handle_is_gone();
	test_child_rings();
	test_parent_is_killed();
	test_socket_stays_open();
	test_nested();
	test_use();
	test_lazy();
	test_threads();
	test_progress(false);
	test_progress(true);
	test_without();
	tarn_store_unref(store);
	tarn_file_unref(one);
	tarn_file_unref(two);
	tarn_file_unref(small);
	is_int(0, daemon_stop(&server), "the daemon ends as asked");
	return done();
}
