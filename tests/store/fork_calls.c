/* SPDX-License-Identifier: MIT */
/*
 * The calls of a forked child with its parent's store: it uses the store as
 * the parent does, even if threads are using it or a call is under way; and
 * where it can have no connection, it gets an error that says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "lib/store/store.h"
#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/store_fork.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define FORKS 40
#define THREADS 2
#define PATIENCE_S 60

/* All of the kit_fork_store, in a child that has leases; 0, or where it went
 * wrong. */
static int use_store(tarn_tensor *t)
{
	struct tarn_report_daemon status;
	struct tarn_descriptor d;
	tarn_tensor *other;

	if (!kit_fork_is_right(t))
		return 1;
	if (report_daemon(kit_fork_store, &status) < 0)
		return 2;
	if (tarn_store_export(kit_fork_store, t, &d) < 0 ||
		tarn_store_import(kit_fork_store, &d, &other) < 0)
		return 3;
	if (!tarn_tensor_same_storage(t, other) || !kit_fork_is_right(other))
		return 4;
	tarn_tensor_unref(other);
	tarn_tensor_unref(t);
	/* Once the parent has let go, too. */
	if (!kit_fork_gets_room() ||
		tarn_store_get_from_file(
			kit_fork_store, kit_fork_one, "b", NULL, &other) < 0)
		return 5;
	if (!kit_fork_is_right(other))
		return 6;
	tarn_tensor_unref(other);
	tarn_store_unref(kit_fork_store);
	return 0;
}

static void test_use(void)
{
	tarn_tensor *t = kit_fork_get_one();
	pid_t pid = fork();

	if (pid == 0)
		_exit(use_store(t));
	tarn_tensor_unref(t);
	is_int(0, kit_fork_finished(pid),
		"a child uses the store as its parent does");
	ok(kit_fork_is_alone() && kit_fork_gets_room(),
		"nothing is left of a child that used the store");
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
			_exit(kit_fork_finished(-1));
		if (tarn_store_get_from_file(
			    kit_fork_store, kit_fork_one, "b", NULL, &t) < 0)
			_exit(1);
		if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 0)
			_exit(2);
		_exit(kit_fork_is_right(t) ? 0 : 3);
	}
	close(go[0]);
	usleep(50000);
	is_int(1, kit_fork_clients(),
		"a child without leases has no connection");
	ok(write(go[1], "", 1) == 1 && read(ready[0], &byte, 1) == 1,
		"a child of that child gets a tensor");
	is_int(2, kit_fork_clients(),
		"a child that gets a tensor has a connection");
	ok(!kit_fork_has_room(), "a child that gets a tensor holds it");
	close(go[1]);
	is_int(0, kit_fork_finished(pid),
		"the child reads its tensor and ends");
	ok(kit_fork_gets_room() && kit_fork_is_alone(),
		"the child's connection and tensor are gone with it");
	close(ready[0]);
	close(ready[1]);
}

/* ---- threads, and many forks ------------------------------------------- */

/*
 * AddressSanitizer's allocator takes no lock around a fork: a thread that frees
 * something just then leaves the lock of the quarantine held in the child, whose
 * first free() spins on it for ever (seen with the libasan of gcc 12, once in
 * some hundred runs: StaticSpinMutex::LockSlow in Quarantine::Drain). Nothing
 * here can hold that lock, and threads that stood still at the fork would test
 * nothing.
 */
#ifdef __SANITIZE_ADDRESS__
#define FORKS_AMONG_THREADS false
#else
#define FORKS_AMONG_THREADS true
#endif

static _Atomic bool stop;
static _Atomic unsigned looked, wrong;

static void *looker(void *arg)
{
	while (!atomic_load(&stop)) {
		tarn_tensor *t;

		if (tarn_store_lookup(kit_fork_store, "one/b", &t) < 0 ||
			!kit_fork_is_right(t))
			atomic_fetch_add(&wrong, 1);
		tarn_tensor_unref(t);
		atomic_fetch_add(&looked, 1);
	}
	return arg;
}

static void await_look(void)
{
	double end = seconds() + PATIENCE_S;

	while (!looked && seconds() < end)
		usleep(1000);
}

static int look_in_child(void)
{
	tarn_tensor *t;

	for (int i = 0; i < 10; i++) {
		if (tarn_store_lookup(kit_fork_store, "one/b", &t) < 0)
			return 1;
		if (!kit_fork_is_right(t))
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

	if (!FORKS_AMONG_THREADS) {
		skip(4, "AddressSanitizer's allocator does not survive a fork "
			"among threads");
		return;
	}
	if (tarn_store_load(
		    kit_fork_store, kit_fork_one, &options, NULL, NULL) < 0)
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
		bad += kit_fork_finished(pids[i]) != 0;
	await_look();
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	is_int(0, bad, "%d forks succeed while %d threads look up names", FORKS,
		THREADS);
	ok(looked > 0 && wrong == 0, "the threads see no fault by the forks");
	must(tarn_store_remove(kit_fork_store, "one/b"));
	ok(kit_fork_is_alone(), "no connection of the children is left");
	ok(kit_fork_gets_room(), "no lease of the children is left");
}

/* ---- in the middle of a call ------------------------------------------- */

/* What the caller of a load does when it is told how far that is. */
struct forker {
	pid_t pid;  /* of the server, which is stopped */
	pid_t fork; /* -1: not forked yet; 0: this is the child */
};

static int fork_once(
	void *arg, enum tarn_load_phase phase, uint64_t done, uint64_t total)
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
	struct tarn_report_daemon status;

	if (r != -ECONNRESET)
		return 1;
	if (!strstr(tarn_error_message(), "before fork()"))
		return 2;
	if (held && !kit_fork_is_right(held))
		return 3;
	if (report_daemon(kit_fork_store, &status) < 0)
		return 4;
	return 0;
}

static void test_progress(bool holding)
{
	struct forker forker = {.fork = -1};
	struct tarn_load_options options = {
		.name = "small", .progress = fork_once, .arg = &forker};
	tarn_tensor *held = holding ? kit_fork_get_one() : NULL;
	struct tarn_report_daemon status = {0};
	int r;

	report_daemon(kit_fork_store, &status);
	forker.pid = status.server_pid;
	kill(forker.pid, SIGSTOP);
	wait_stopped(forker.pid);
	r = tarn_store_load(
		kit_fork_store, kit_fork_small, &options, NULL, NULL);
	if (forker.fork == 0)
		_exit(after_call(r, held));
	is_int(0, r, "a load succeeds although its callback forks%s",
		holding ? ", with leases" : "");
	ok(forker.fork > 0, "the load's callback has forked");
	is_int(0, kit_fork_finished(forker.fork),
		"the child's own call of the load is refused");
	is_int(0, tarn_store_remove(kit_fork_store, "small/b"),
		"the load has published its name");
	ok(!held || kit_fork_is_right(held),
		"a tensor that the child held is still there");
	tarn_tensor_unref(held);
	ok(kit_fork_is_alone() && kit_fork_gets_room(),
		"nothing is left of the child that held a tensor");
}

/* ---- no connection ----------------------------------------------------- */

static int without(tarn_store *store, tarn_tensor *t)
{
	struct tarn_descriptor d;
	tarn_tensor *other;

	if (!kit_fork_is_right(t) || tarn_store_export(store, t, &d) < 0)
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
	tarn_store *store;
	tarn_tensor *t;
	pid_t pid;

	if (tarn_store_open(kit_fork_daemon.socket, NULL, &store) < 0 ||
		tarn_store_get_from_file(store, kit_fork_one, "b", NULL, &t) <
			0)
		bail("%s", tarn_error_message());

	kit_fork_hide();
	pid = fork();
	if (pid == 0)
		_exit(without(store, t));
	kit_fork_show();
	is_int(0, kit_fork_finished(pid),
		"a child without a connection gets an error that says so");
	ok(kit_fork_is_right(t) && !kit_fork_has_room(),
		"a tensor that the child drops is held by its parent");
	tarn_tensor_unref(t);
	tarn_store_unref(store);
	ok(kit_fork_gets_room(),
		"the tensor is freed when the parent closes the store");
}

int main(void)
{
	kit_fork_begin();
	test_use();
	test_lazy();
	test_threads();
	test_progress(false);
	test_progress(true);
	test_without();
	kit_fork_end();
	return done(28);
}
