/* SPDX-License-Identifier: MIT */
/*
 * tarn save of mutable tensors waits for a writer that holds the lock, and the
 * file has all of the writer's changes or none. A storage with two names is
 * locked once: a writer between two locks would block both.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"
#include "tests/kit/tarn_start.h"

enum { N = 1 << 20 };

static struct daemon server;
static tarn_store *store;
static tarn_tensor *whole;
static char path[4096];

static void publish(void)
{
	struct tarn_publish_item items[] = {
		{.name = "run/a"}, {.name = "run/b"}};
	tarn_tensor *half;
	int64_t n = N;

	if (tarn_store_create(
		    store, TARN_U8, 1, &n, TARN_CREATE_MUTABLE, &whole) < 0 ||
		tarn_tensor_eval(whole, "[:1000]", &half) < 0)
		bail("create: %s", tarn_error_message());
	items[0].tensor = whole;
	items[1].tensor = half;
	if (tarn_store_publish(store, items, 2, NULL, NULL) < 0)
		bail("publish: %s", tarn_error_message());
	tarn_tensor_unref(half);
	tarn_tensor_unref(whole);
	if (tarn_store_lookup(store, "run/a", &whole) < 0)
		bail("look-up: %s", tarn_error_message());
}

static pid_t start_save(void)
{
	return kit_tarn_start((const char *const[]) {
		"save", "--socket", server.socket, "run/", path, NULL});
}

static int end_of(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static void set(int64_t i, int64_t value)
{
	if (tarn_tensor_set_i64(whole, &i, value) < 0)
		bail("set: %s", tarn_error_message());
}

static int64_t saved(const char *name, int64_t i)
{
	tarn_file *file = NULL;
	tarn_tensor *t = NULL;
	int64_t value = -1;

	if (tarn_file_open(path, &file) < 0 ||
		tarn_file_tensor(file, name, &t) < 0 ||
		tarn_tensor_get_i64(t, &i, &value) < 0)
		diag("%s", tarn_error_message());
	tarn_tensor_unref(t);
	tarn_file_unref(file);
	return value;
}

static void test_waits(void)
{
	const struct timespec some = {.tv_nsec = 400 * 1000 * 1000};
	pid_t pid;

	if (tarn_tensor_lock(whole, TARN_LOCK_WRITE, 1000) < 0)
		bail("lock: %s", tarn_error_message());
	set(0, 1);
	pid = start_save();
	nanosleep(&some, NULL);
	is_int(0, waitpid(pid, NULL, WNOHANG),
		"tarn save waits while a tensor is written under its lock");
	ok(access(path, F_OK) < 0, "tarn save makes no file while it waits");
	set(N - 1, 1);
	if (tarn_tensor_unlock(whole) < 0)
		bail("unlock: %s", tarn_error_message());
	is_int(0, end_of(pid), "tarn save ends after the lock was released");
	is_int(1, saved("a", 0), "the file has the writer's first write");
	is_int(1, saved("a", N - 1), "the file has the last write, too");
	is_int(1, saved("b", 0),
		"a tensor saved by its other name is complete");
}

static void *write_often(void *arg)
{
	for (int i = 2; i < 60; i++) {
		if (tarn_tensor_lock(whole, TARN_LOCK_WRITE, 20000) < 0)
			return "no lock was to be had";
		set(0, i);
		set(N - 1, i);
		if (tarn_tensor_unlock(whole) < 0)
			return "no unlocking either";
		nanosleep(&(struct timespec) {.tv_nsec = 2000000}, NULL);
	}
	return arg;
}

static void test_beside_writer(void)
{
	pthread_t thread;
	void *error = NULL;
	int good = 0;

	if (pthread_create(&thread, NULL, write_often, NULL) != 0)
		bail("there is no thread");
	for (int i = 0; i < 5; i++)
		good += end_of(start_save()) == 0 &&
			saved("a", 0) == saved("a", N - 1);
	pthread_join(thread, &error);
	is_int(5, good, "each file beside a writer is of one moment");
	is_str("", error ? error : "",
		"the writer continues while its tensors are saved");
}

int main(void)
{
	const char *folder = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/save.safetensors",
		folder ? folder : "/tmp");
	daemon_start(&server, "save.sock", NULL);
	if (tarn_store_open(server.socket, NULL, &store) < 0)
		bail("open: %s", tarn_error_message());
	publish();
	test_waits();
	test_beside_writer();
	unlink(path);
	tarn_tensor_unref(whole);
	tarn_store_unref(store);
	is_int(0, daemon_stop(&server), "the daemon ends without an error");
	return done(9);
}
