/* SPDX-License-Identifier: MIT */
/*
 * Private tensors hold the memory that they were made of: in a child, among
 * threads, and when all others have dropped it and its memory is needed.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/cow.h"
#include "tests/kit/tap.h"

#define THREADS 4
#define ROUNDS 300
#define FORKS 20

/* ---- leases ------------------------------------------------------------ */

/* Fills all the room there is several times over. */
static void press(void)
{
	char name[20];

	for (unsigned i = 0; i < 8; i++) {
		tarn_tensor *t;

		snprintf(name, sizeof(name), "press%u", i);
		t = kit_cow_loaded(name, 12 * MIB, 100 + i);
		is_int(kit_cow_byte(MIB, 100 + i), kit_cow_data(t)[MIB],
			"%s: the private tensor has its byte", name);
		kit_cow_drop(&t);
	}
}

static void test_lease(void)
{
	tarn_tensor *t = kit_cow_loaded("leased", BIG, 8), *p = kit_cow_of(t);
	tarn_tensor *own = kit_cow_published("o", 3 * MIB, 0, 9),
		    *q = kit_cow_of(own);

	kit_cow_data(p)[5 * MIB] = 77;
	kit_cow_drop(&t);
	kit_cow_drop(&own);
	kit_cow_check(tarn_store_remove(kit_cow_store, "o"), "remove");
	press();
	is_int(5 * (int64_t)MIB, kit_cow_differs(p, BIG, 8),
		"memory that a private tensor holds is not given to others");
	is_int(-1, kit_cow_differs(q, 3 * MIB, 9),
		"memory without a name that a private tensor holds is kept");
	kit_cow_drop(&p);
	kit_cow_drop(&q);
}

/* ---- children ---------------------------------------------------------- */

/* What a child sees, after fork(), and leaves. */
static int child_of_fork(tarn_tensor *t, tarn_tensor *p)
{
	tarn_tensor *own;

	if (kit_cow_data(p)[MIB] != 11 ||
		kit_cow_data(t)[MIB] != kit_cow_byte(MIB, 10))
		return 1;
	kit_cow_data(p)[MIB] = 12;
	kit_cow_data(p)[3 * MIB] = 13;
	own = kit_cow_of(t);
	if (!tarn_tensor_same_storage(own, p))
		return 2;
	kit_cow_drop(&own);
	kit_cow_drop(&p);
	own = kit_cow_of(t);
	if (kit_cow_differs(own, BIG, 10) >= 0)
		return 3;
	kit_cow_data(own)[0] = 14;
	kit_cow_drop(&t);
	/* Nothing is tidied up. */
	raise(SIGKILL);
	return 4;
}

static int import(const struct tarn_descriptor *descriptor)
{
	tarn_tensor *t;
	int r = tarn_store_import(kit_cow_store, descriptor, &t);

	if (r >= 0)
		tarn_tensor_unref(t);
	return r;
}

static void test_fork(void)
{
	tarn_tensor *t = kit_cow_published("forked", BIG, 0, 10),
		    *p = kit_cow_of(t);
	struct tarn_descriptor descriptor;
	int status, r = 0;
	pid_t pid;

	kit_cow_check(
		tarn_store_export(kit_cow_store, t, &descriptor), "export");
	kit_cow_data(p)[MIB] = 11;
	pid = fork();
	if (pid == 0)
		_exit(child_of_fork(t, p));
	if (waitpid(pid, &status, 0) < 0)
		bail("waitpid: %m");
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"a child uses the private tensor and is killed (%#x)",
		(unsigned)status);
	ok(kit_cow_data(p)[MIB] == 11 &&
			kit_cow_data(p)[3 * MIB] == kit_cow_byte(3 * MIB, 10) &&
			kit_cow_data(p)[0] == kit_cow_byte(0, 10),
		"the child's private writes are its own");
	is_int(-1, kit_cow_differs(t, BIG, 10),
		"the original is unchanged by the child");
	kit_cow_drop(&t);
	kit_cow_check(tarn_store_remove(kit_cow_store, "forked"), "remove");
	is_int(0, import(&descriptor),
		"the parent's private tensor holds the storage");
	is_int(MIB, kit_cow_differs(p, BIG, 10),
		"the parent's private tensor keeps its own write");
	kit_cow_drop(&p);
	for (int us = 0; r >= 0 && us < PATIENCE_US; us += 20000) {
		usleep(20000);
		r = import(&descriptor);
	}
	is_int(-ESTALE, r, "the storage is freed when the parent drops it");
}

/* ---- threads ----------------------------------------------------------- */

static tarn_tensor *busy;
static atomic_int wrong, over;

static void *hammer(void *arg)
{
	for (int i = 0; i < ROUNDS && !over; i++) {
		tarn_tensor *p = NULL, *q = NULL;

		if (tarn_tensor_cow(busy, &p) < 0 ||
			tarn_tensor_cow(busy, &q) < 0 ||
			!tarn_tensor_same_storage(p, q) ||
			kit_cow_data(p)[70000] != kit_cow_byte(70000, 11))
			wrong++;
		tarn_tensor_unref(p);
		tarn_tensor_unref(q);
	}
	return arg;
}

/* A child has none of its parent's threads; ThreadSanitizer would call them
 * leaked when it ends. The parent's are joined. */
const char *__tsan_default_options(void);
__attribute__((__visibility__("default"))) const char *__tsan_default_options(
	void)
{
	return "report_thread_leaks=0";
}

/* How many children did not find what they should. */
static int fork_meanwhile(void)
{
	int status, bad = 0;

	for (int i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			tarn_tensor *p;

			alarm(300);
			_exit(tarn_tensor_cow(busy, &p) < 0 ||
				kit_cow_differs(p, 3 * MIB, 11) >= 0);
		}
		if (waitpid(pid, &status, 0) < 0)
			bail("waitpid: %m");
		bad += status != 0;
	}
	return bad;
}

static void test_threads(void)
{
	pthread_t threads[THREADS];
	int bad;

	busy = kit_cow_published("busy", 3 * MIB, 0, 11);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, hammer, NULL))
			bail("no thread");
	bad = fork_meanwhile();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, wrong, "threads that make private forms get the same one");
	is_int(0, bad, "a child that is forked meanwhile finds no lock taken");
	kit_cow_drop(&busy);
	kit_cow_check(tarn_store_remove(kit_cow_store, "busy"), "remove");
}

int main(void)
{
	kit_cow_begin();
	test_fork();
	test_threads();
	test_lease();
	tarn_store_unref(kit_cow_store);
	is_int(0, daemon_stop(&kit_cow_daemon),
		"the daemon ends without an error");
	return done(19);
}
