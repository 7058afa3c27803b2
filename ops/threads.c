// SPDX-License-Identifier: MIT
/*
 * The pool. A job is published under the lock with a new number; threads take
 * parts by an atomic counter in the job, outside of it. The caller returns when
 * no thread is in the job any more, so that it may lie on the caller's stack:
 * a thread enters under the lock, while the job is the pool's, and leaves under
 * it. A job has room for as many as were asked for: a thread that was woken for
 * an earlier one, or has just been started, finds none in a later one.
 *
 * A child of fork() has none of the threads: the pool is begun anew there. What
 * another thread of the parent was doing in it is not the child's.
 */
#include "ops/threads.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <tarn/ops.h>

#include "base/checked.h"
#include "base/cpus.h"

#define THREADS_MAX 256 /* more have no memory bandwidth to share */
#define STACK ((size_t)1 << 20)

struct job {
	void (*fn)(void *arg, size_t part);
	void *arg;
	size_t n;
	atomic_size_t next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct job *job; /* NULL: none */
	uint64_t serial; /* of the last job */
	int wanted;      /* how many threads, the caller included; 0: ask */
	int started;     /* of the pool's */
	int inside;      /* threads of the pool that are in the job */
	int room;        /* how many more of them may enter it */
} pool = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.work = PTHREAD_COND_INITIALIZER,
	.done = PTHREAD_COND_INITIALIZER,
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- how many ----------------------------------------------------------- */

static int asked_for(void)
{
	const char *text = getenv("TARN_THREADS");
	char *end;
	long n;

	if (!text || !*text)
		return 0;
	n = strtol(text, &end, 10);
	return *end || n < 1 ? 0 : (int)MIN(n, (long)THREADS_MAX);
}

static int as_many_as_pay(void)
{
	int n = asked_for();

	return n ? n : MIN(cpus_granted(), THREADS_MAX);
}

/* With the lock. */
static int count(void)
{
	if (!pool.wanted)
		pool.wanted = as_many_as_pay();
	return pool.wanted;
}

int threads_count(void)
{
	int n;

	pthread_mutex_lock(&pool.lock);
	n = count();
	pthread_mutex_unlock(&pool.lock);
	return n;
}

int tarn_ops_threads(void)
{
	return threads_count();
}

int tarn_ops_set_threads(int n)
{
	if (n < 0 || n > THREADS_MAX)
		return tarn_error_set(EINVAL,
			"%d threads: 0 to %d are possible", n, THREADS_MAX);
	pthread_mutex_lock(&pool.lock);
	pool.wanted = n;
	pthread_mutex_unlock(&pool.lock);
	return 0;
}

/* ---- the threads -------------------------------------------------------- */

static void take_parts(struct job *job)
{
	size_t part;

	/* Relaxed: a part is one thread's; its results are the caller's by the
	 * lock, under which the thread leaves. */
	while ((part = atomic_fetch_add_explicit(
			&job->next, 1, memory_order_relaxed)) < job->n)
		job->fn(job->arg, part);
}

static void *serve(void *arg)
{
	uint64_t seen = 0;

	(void)arg;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		struct job *job = pool.job;

		if (!job || !pool.room || seen == pool.serial) {
			pthread_cond_wait(&pool.work, &pool.lock);
			continue;
		}
		seen = pool.serial;
		pool.room--;
		pool.inside++;
		pthread_mutex_unlock(&pool.lock);
		take_parts(job);
		pthread_mutex_lock(&pool.lock);
		if (!--pool.inside)
			pthread_cond_signal(&pool.done);
	}
	return NULL;
}

static void reset_in_child(void)
{
	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.work, NULL);
	pthread_cond_init(&pool.done, NULL);
	pool.job = NULL;
	pool.started = pool.inside = pool.room = 0;
}

static void prepare(void)
{
	pthread_atfork(NULL, NULL, reset_in_child);
}

/* With the lock. As many as can be started: the caller does the rest. */
static void start(int n)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	if (pool.started >= n || pthread_attr_init(&attr) != 0)
		return;
	pthread_once(&once, prepare);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK);
	/* Signals are the program's own threads', whose waits they interrupt. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (pool.started < n &&
		pthread_create(&thread, &attr, serve, NULL) == 0)
		pool.started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
}

static void run_alone(size_t n, void (*fn)(void *, size_t), void *arg)
{
	for (size_t i = 0; i < n; i++)
		fn(arg, i);
}

void threads_run(size_t n, void (*fn)(void *arg, size_t part), void *arg)
{
	struct job job = {.fn = fn, .arg = arg, .n = n};
	int threads;

	if (n < 2) {
		run_alone(n, fn, arg);
		return;
	}
	pthread_mutex_lock(&pool.lock);
	threads = pool.job || pool.inside ? 1 : (int)MIN(n, (size_t)count());
	if (threads > 1)
		start(threads - 1);
	if (threads < 2 || !pool.started) {
		pthread_mutex_unlock(&pool.lock);
		run_alone(n, fn, arg);
		return;
	}
	pool.job = &job;
	pool.serial++;
	pool.room = threads - 1;
	for (int i = 1; i < threads; i++)
		pthread_cond_signal(&pool.work);
	pthread_mutex_unlock(&pool.lock);

	take_parts(&job);
	pthread_mutex_lock(&pool.lock);
	pool.job = NULL;
	while (pool.inside)
		pthread_cond_wait(&pool.done, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}
