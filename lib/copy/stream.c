// SPDX-License-Identifier: MIT
/*
 * Making, freeing and querying streams. A stream owns an engine, and is used by
 * one thread; all its requests in the kernel complete before anything is freed.
 */
#include "lib/copy/stream.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/reserved.h"

/*
 * The number of forks between the first process and this one, so that a copy of
 * a stream in a child is recognised without a system call for each of a hundred
 * thousand copies. Relaxed: the one thread of a child sees its own writes.
 */
static atomic_uint forks;
static int watch_error; /* written once, before any reader */

static void count_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
	watch_error = pthread_atfork(NULL, NULL, count_fork);
}

int stream_check(const tarn_stream *s)
{
	if (s->forks != atomic_load_explicit(&forks, memory_order_relaxed))
		return tarn_fail(EPERM,
			"stream: it belongs to process %d, of which this one "
			"(%d) was forked; make one here",
			(int)s->pid, (int)getpid());
	if (!pthread_equal(s->owner, pthread_self()))
		return tarn_fail(EINVAL,
			"stream: it belongs to the thread that made it; make "
			"one in each thread");
	return 0;
}

void job_list_add(struct job_list *list, struct job *job)
{
	job->list = list;
	job->next = NULL;
	job->prev = list->tail;
	if (list->tail)
		list->tail->next = job;
	else
		list->head = job;
	list->tail = job;
	list->n++;
}

void job_list_add_first(struct job_list *list, struct job *job)
{
	job->list = list;
	job->prev = NULL;
	job->next = list->head;
	if (list->head)
		list->head->prev = job;
	else
		list->tail = job;
	list->head = job;
	list->n++;
}

void job_list_remove(struct job *job)
{
	struct job_list *list = job->list;

	if (job->prev)
		job->prev->next = job->next;
	else
		list->head = job->next;
	if (job->next)
		job->next->prev = job->prev;
	else
		list->tail = job->prev;
	list->n--;
	job->list = NULL;
}

static int open_stream(tarn_stream *s, const struct tarn_stream_options *o)
{
	uint64_t buffer = o && o->buffer ? o->buffer : STREAM_BUFFER;
	int r = RESERVED_CHECK("tarn_stream_options", o);

	if (r < 0)
		return r;
	s->limit = o && o->copies ? o->copies : STREAM_COPIES;
	if (s->limit > STREAM_COPIES_MAX)
		return tarn_fail(EINVAL,
			"stream: %u copies at once; %u are the most", s->limit,
			(unsigned)STREAM_COPIES_MAX);
	r = copy_check_engine("stream", o ? o->engine : NULL);
	if (r >= 0)
		r = copy_env_open(&s->env, o ? o->engine : NULL, buffer, true);
	if (r < 0)
		return r;
	/* Untouched pages of it cost nothing. */
	s->jobs = calloc(s->limit, sizeof(*s->jobs));
	if (!s->jobs)
		return tarn_fail(
			ENOMEM, "stream: no memory for %u copies", s->limit);
	return stream_poll_open(s);
}

int tarn_stream_new(
	const struct tarn_stream_options *options, tarn_stream **ret)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	tarn_stream *s = calloc(1, sizeof(*s));
	int r;

	pthread_once(&once, watch_forks);
	if (!s || watch_error) {
		free(s);
		return tarn_fail(ENOMEM, "stream: out of memory");
	}
	s->forks = atomic_load_explicit(&forks, memory_order_relaxed);
	s->owner = pthread_self();
	s->pid = getpid();
	s->epoll_fd = s->event_fd = s->timer_fd = -1;
	s->earliest = s->armed = STREAM_NEVER;
	r = open_stream(s, options);
	if (r < 0) {
		tarn_stream_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

tarn_stream *tarn_stream_free(tarn_stream *s)
{
	if (!s)
		return NULL;
	if (s->env.io && tarn_io_pending(s->env.io) && stream_check(s) < 0)
		return NULL; /* another process's stream: it is left as it is */
	if (s->pid != getpid())
		return NULL;
	/* With no request under way any thread may end copies that were not
	 * begun. */
	stream_cancel_all(s);
	while (!s->lost && stream_unfinished(s))
		if (tarn_stream_reap(s, s->limit, -1, NULL, 0) < 0)
			break;
	while (s->done.head)
		stream_forget(s, s->done.head);
	if (s->env.io)
		stream_gather_free(s);
	stream_poll_close(s);
	if (!s->lost)
		copy_env_close(&s->env);
	free(s->jobs);
	free(s);
	return NULL;
}

const char *tarn_stream_engine(const tarn_stream *s)
{
	return tarn_io_name(s->env.io);
}

const char *tarn_stream_engine_why(const tarn_stream *s)
{
	return tarn_io_why(s->env.io);
}

int tarn_stream_register(tarn_stream *s, tarn_storage *storage)
{
	int r = stream_check(s);

	if (r < 0)
		return r;
	if (medium_of(storage) != MEDIUM_MEMORY) {
		tarn_fail(ENOTSUP,
			"stream: only memory can be registered, not a file");
		return 1;
	}
	if (storage->size == 0 ||
		regions_find(s->env.regions, storage->data,
			MIN(storage->size, TARN_IO_BUFFER_MAX)) >= 0)
		return 0;
	return regions_add(s->env.regions, storage);
}

void tarn_stream_progress(
	const tarn_stream *s, struct tarn_stream_progress *ret)
{
	struct tarn_stream_progress p = {
		.copies_done = s->sequence - stream_unfinished(s),
		.copies_waiting = s->waiting.n,
		.copies_running = s->running.n + stream_gathered(s),
		.bytes_done = s->bytes_done,
		.bytes_total = s->bytes_total,
	};

	for (const struct job *j = s->running.head; j; j = j->next)
		p.bytes_done += j->copy_op->done;
	for (const struct job *j = s->memory.head; j; j = j->next) {
		p.bytes_done += j->copy_op->done;
		if (j->started)
			p.copies_running++;
		else
			p.copies_waiting++;
	}
	*ret = p;
}
