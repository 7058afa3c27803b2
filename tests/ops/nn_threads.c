/* SPDX-License-Identifier: MIT */
/*
 * Hot swap under load: threads that hold states and read all of them, threads
 * that wait and refresh, one that converts, and a publisher that replaces the
 * set without a pause and is killed in the end. Every state is one version's,
 * and versions only grow.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ops/nn_sets.h"

enum { READERS = 3, REFRESHERS = 2, PROCESSES = 2 };

#define SECONDS 3.0
#define PATIENCE 120.0

static tarn_module *model;
static atomic_bool over;
static atomic_uint passes, mixed, backward, refreshed, failed, versions;

static void *reader(void *arg)
{
	uint64_t last = 0;
	double version = 0;

	(void)arg;
	while (!atomic_load(&over)) {
		tarn_state *state = tarn_module_hold(model);
		double seen = nn_version(model, state);

		passes++;
		mixed += seen < 0;
		backward += seen < version || tarn_state_commit(state) < last;
		versions += seen != version;
		version = seen;
		last = tarn_state_commit(state);
		tarn_state_unref(state);
	}
	return NULL;
}

static void *refresher(void *arg)
{
	(void)arg;
	while (!atomic_load(&over)) {
		int r = tarn_module_wait(model, 50);

		if (r >= 0)
			r = tarn_module_refresh(model);
		refreshed += r == 1;
		if (r < 0 && r != -ETIMEDOUT) {
			failed++;
			diag("refresh: %s", tarn_error_message());
		}
	}
	return NULL;
}

static void *loader(void *arg)
{
	tarn_module *copy = arg;

	while (!atomic_load(&over)) {
		if (tarn_module_load_state(copy, model, true, NULL) < 0)
			failed++;
		usleep(1000);
	}
	return NULL;
}

/* Long enough to meet some versions, whatever else runs on the machine. */
static void run(tarn_module *copy)
{
	pthread_t threads[READERS + REFRESHERS + 1];
	double begun = seconds();
	int n = 0;

	for (int i = 0; i < READERS; i++)
		n += pthread_create(&threads[n], NULL, reader, NULL) == 0;
	for (int i = 0; i < REFRESHERS; i++)
		n += pthread_create(&threads[n], NULL, refresher, NULL) == 0;
	n += pthread_create(&threads[n], NULL, loader, copy) == 0;
	if (n != READERS + REFRESHERS + 1)
		bail("threads cannot be started");
	while (seconds() < begun + SECONDS ||
		(seconds() < begun + PATIENCE &&
			(versions < 2 * READERS || refreshed < 2)))
		usleep(20000);
	atomic_store(&over, true);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static void judge(const char *where)
{
	diag("%s: %u passes, %u refreshes, %u versions met", where, passes,
		refreshed, versions);
	is_int(0, mixed, "%s: every state is of one version", where);
	is_int(0, backward, "%s: versions only grow", where);
	is_int(0, failed, "%s: no refresh fails", where);
	ok(refreshed > 1, "%s: versions were swapped", where);
}

/* Another process's view: a store and a tree of its own. */
static int process(void)
{
	tarn_module *copy = NULL;
	tarn_store *store;

	need(tarn_store_open(nn_daemon.socket, NULL, &store));
	need(tarn_module_open(store, "model", NULL, &model));
	need(tarn_module_open(store, "model", NULL, &copy));
	run(copy);
	diag("a process: %u passes, %u refreshes", passes, refreshed);
	tarn_module_unref(copy);
	tarn_module_unref(model);
	tarn_store_unref(store);
	return mixed || backward || failed || refreshed < 2;
}

static pid_t start(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(process());
	return pid;
}

/* ---- a child, forked while threads hold and swap -------------------------- */

static void *swapper(void *arg)
{
	tarn_module *from = arg;

	while (!atomic_load(&over))
		if (tarn_module_load_state(model, from, true, NULL) < 0)
			failed++;
	return NULL;
}

static void test_fork(void)
{
	tarn_module *from;
	pthread_t thread;
	int bad = 0, status;

	need(tarn_module_new(&model));
	need(tarn_module_new(&from));
	nn_add(model, "w", nn_full(TARN_F32, 4, 0, 1));
	nn_add(from, "w", nn_full(TARN_F32, 4, 0, 2));
	atomic_store(&over, false);
	if (pthread_create(&thread, NULL, swapper, from) != 0)
		bail("a thread cannot be started");
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(300); /* it would hang for ever */
			tarn_state_unref(tarn_module_hold(model));
			_exit(0);
		}
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	is_int(0, bad, "a child can hold a state, whenever it was forked");
	tarn_module_unref(from);
	tarn_module_unref(model);
}

int main(void)
{
	pid_t publisher, processes[PROCESSES];
	tarn_module *copy;
	int status, bad = 0;

	nn_begin();
	publisher = nn_publisher(1, 0);
	for (int i = 0; i < PROCESSES; i++)
		processes[i] = start();
	need(tarn_module_open(nn_store, "model", NULL, &model));
	need(tarn_module_open(nn_store, "model", NULL, &copy));
	run(copy);
	judge("a process of many threads");
	for (int i = 0; i < PROCESSES; i++) {
		waitpid(processes[i], &status, 0);
		bad += status != 0;
	}
	is_int(0, bad, "states are of one version in processes of their own");
	nn_kill(publisher);
	ok(tarn_module_refresh(model) >= 0,
		"a refresh succeeds after the publisher was killed");
	tarn_module_unref(copy);
	tarn_module_unref(model);
	test_fork();
	is_int(0, nn_end(), "the daemon ends without an error");
	return done(8);
}
