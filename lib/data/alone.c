// SPDX-License-Identifier: MIT
#include "lib/data/alone.h"

#include <signal.h>
#include <stdlib.h>

#include "base/fail.h"

struct alone {
	struct pool *pool;
	struct ahead_place place;
	struct ahead_job job;
	atomic_bool stop;
	pthread_t thread;
};

int thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return tarn_fail(err, "loader: no thread can be started: %s",
			tarn_errno_text(err));
	return 0;
}

static void *run(void *arg)
{
	struct alone *a = arg;

	ahead_run(&a->job);
	pool_end(a->pool);
	return NULL;
}

int alone_start(
	const struct ahead_job *job, unsigned buffers, struct alone **ret)
{
	struct alone *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for reading ahead");
	r = pool_new(job->form, job->n, buffers, &a->pool);
	if (r >= 0) {
		a->place = pool_place(a->pool);
		a->job = *job;
		a->job.place = &a->place;
		a->job.stop = &a->stop;
		a->job.most = buffers;
		atomic_init(&a->stop, false);
		r = thread_start(&a->thread, run, a);
	}
	if (r < 0) {
		pool_unref(a->pool);
		free(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct alone *alone_end(struct alone *a)
{
	if (!a)
		return NULL;
	/* Relaxed: the thread's end orders the rest. */
	atomic_store_explicit(&a->stop, true, memory_order_relaxed);
	pool_end(a->pool);
	pthread_join(a->thread, NULL);
	pool_unref(a->pool);
	free(a);
	return NULL;
}

struct pool *alone_pool(struct alone *a)
{
	return a->pool;
}
