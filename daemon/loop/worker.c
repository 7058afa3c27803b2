/* SPDX-License-Identifier: MIT */
/*
 * Two lists and a thread, which is started when the first work comes.
 *
 * The thread takes work from one list, puts it on the other, and writes to an
 * eventfd that the loop watches; so the callbacks run in the loop's thread.
 */
#include "daemon/loop/worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "daemon/loop/loop.h"

struct list {
	struct work *first, **last;
};

struct worker {
	struct loop_watch *watch;
	int event;
	bool started;
	pthread_t thread;
	pthread_mutex_t lock; /* everything below */
	pthread_cond_t more;
	bool ending;
	struct list todo, finished;
};

static void list_init(struct list *list)
{
	list->first = NULL;
	list->last = &list->first;
}

static void list_add(struct list *list, struct work *work)
{
	work->next = NULL;
	*list->last = work;
	list->last = &work->next;
}

static struct work *list_take(struct list *list)
{
	struct work *work = list->first;

	if (work)
		list->first = work->next;
	if (!list->first)
		list->last = &list->first;
	return work;
}

/* ---- the thread ------------------------------------------------------ */

static void *worker_main(void *arg)
{
	const uint64_t one = 1;
	struct worker *worker = arg;
	struct work *work;

	pthread_mutex_lock(&worker->lock);
	while (!worker->ending) {
		work = list_take(&worker->todo);
		if (!work) {
			pthread_cond_wait(&worker->more, &worker->lock);
			continue;
		}
		pthread_mutex_unlock(&worker->lock);
		work->run(work);
		pthread_mutex_lock(&worker->lock);
		list_add(&worker->finished, work);
		/* An eventfd that is full is read, too. */
		if (write(worker->event, &one, sizeof(one)) < 0)
			log_warning("worker_event");
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

static int start(struct worker *worker)
{
	pthread_attr_t attr;
	int r;

	if (worker->started)
		return 0;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	r = pthread_create(&worker->thread, &attr, worker_main, worker);
	pthread_attr_destroy(&attr);
	if (r)
		return tarn_fail(EAGAIN, "no thread can be started: %s",
			tarn_errno_text(r));
	worker->started = true;
	return 0;
}

/* ---- the loop -------------------------------------------------------- */

static void report_finished(struct worker *worker)
{
	for (;;) {
		struct work *work;

		pthread_mutex_lock(&worker->lock);
		work = list_take(&worker->finished);
		pthread_mutex_unlock(&worker->lock);
		if (!work)
			return;
		work->done(work);
	}
}

static void on_event(void *arg, unsigned ready)
{
	struct worker *worker = arg;
	uint64_t n;

	if (read(worker->event, &n, sizeof(n)) > 0)
		report_finished(worker);
}

int worker_new(struct loop *loop, struct worker **ret)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return tarn_fail(ENOMEM, "out of memory");
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
	list_init(&worker->todo);
	list_init(&worker->finished);
	worker->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = worker->event < 0
		    ? tarn_fail(errno, "eventfd: %s", tarn_errno_text(errno))
		    : loop_watch(loop, worker->event, LOOP_READ, on_event,
			      worker, &worker->watch);
	if (r < 0)
		worker_free(worker);
	else
		*ret = worker;
	return r;
}

int worker_give(struct worker *worker, struct work *work)
{
	int r = start(worker);

	if (r < 0)
		return r;
	pthread_mutex_lock(&worker->lock);
	list_add(&worker->todo, work);
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	return 0;
}

struct worker *worker_free(struct worker *worker)
{
	struct work *work;

	if (!worker)
		return NULL;
	pthread_mutex_lock(&worker->lock);
	worker->ending = true;
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
	if (worker->started)
		pthread_join(worker->thread, NULL);
	report_finished(worker);
	while ((work = list_take(&worker->todo)))
		work->done(work);
	loop_unwatch(worker->watch);
	fd_close(worker->event);
	pthread_mutex_destroy(&worker->lock);
	pthread_cond_destroy(&worker->more);
	free(worker);
	return NULL;
}
