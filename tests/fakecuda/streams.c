/* SPDX-License-Identifier: MIT */
/*
 * Streams. Work is done late, by one thread: it carries out the first
 * item of each stream when that has waited FAKECUDA_LATE, and one after the
 * other. So memory keeps its old bytes for a while after a call that queues, as
 * it does with a device.
 *
 * Streams are never freed, so that a call with one that has been destroyed is
 * recognised.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/checked.h"
#include "tests/fakecuda/standin.h"

#define DEFAULT_LATE 200 /* us */

static struct stream *streams, *gone; /* gone: destroyed, and done */
static struct stream *own[DEVICES];   /* of contexts */
static pthread_t worker;
static bool running, stop;

/* ---- the thread ---------------------------------------------------------- */

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void do_first(struct stream *stream)
{
	struct item *item = stream->first;

	if (item->fails && !broken(item->device))
		set_broken(item->device, item->fails);
	if (item->run && !broken(item->device))
		item->run(item);
	if (item->event && !item->awaits)
		item->event->done = MAX(item->event->done, item->serial);
	stream->first = item->next;
	if (!stream->first)
		stream->last = &stream->first;
	free(item->owned);
	free(item);
}

/* Carries out what is due; returns the time of what is due next, or 0. */
static uint64_t turn(void)
{
	uint64_t next = 0, time = now();

	for (struct stream *s = streams; s; s = s->next) {
		struct item *item = s->first;

		if (!item || (item->awaits && item->event->done < item->serial))
			continue;
		if (!item->due)
			item->due = time + item->late;
		if (item->due <= time || item->awaits) {
			do_first(s);
			return time;
		}
		next = next ? MIN(next, item->due) : item->due;
	}
	return next;
}

/* Those that were destroyed have no more items. */
static void bury(void)
{
	for (struct stream **at = &streams, *s; (s = *at);) {
		if (s->alive || s->first) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->next = gone;
		gone = s;
	}
}

static void *work(void *unused)
{
	uint64_t next;

	lock_account();
	while (!stop) {
		next = turn();
		bury();
		tell_change();
		if (!next || next > now())
			await_change(next);
	}
	unlock_account();
	return unused;
}

/* With no signals: they are the test's. */
static void start(void)
{
	sigset_t all, before;

	if (running)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&worker, NULL, work, NULL))
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	running = true;
}

void stop_work(void)
{
	if (!running)
		return;
	stop = true;
	tell_change();
	unlock_account();
	pthread_join(worker, NULL);
	lock_account();
}

/* ---- queues -------------------------------------------------------------- */

static struct stream *stream_new(int device, unsigned flags)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->device = device;
	s->flags = flags;
	s->alive = true;
	s->last = &s->first;
	s->next = streams;
	streams = s;
	return s;
}

void stream_queue(struct stream *stream, struct item *item)
{
	item->device = stream->device;
	item->next = NULL;
	item->due = 0;
	item->late =
		(uint64_t)setting("LATE", item->device, DEFAULT_LATE) * 1000;
	item->fails = refused("WORK", item->device);
	*stream->last = item;
	stream->last = &item->next;
	start();
	tell_change();
}

void stream_drain(struct stream *stream)
{
	while (stream->first)
		await_change(0);
}

/* The context's own stream and those that do not ask for independence wait for
 * each other: here the caller waits, which is stricter. */
static void wait_for_others(const struct stream *stream)
{
	struct stream *s = streams;

	if (stream != own[stream->device]) {
		if (own[stream->device] &&
			!(stream->flags & CU_STREAM_NON_BLOCKING))
			stream_drain(own[stream->device]);
		return;
	}
	while (s) {
		bool waits = s != stream && s->first &&
			     s->device == stream->device &&
			     !(s->flags & CU_STREAM_NON_BLOCKING);

		if (waits)
			await_change(0);
		s = waits ? streams : s->next; /* the list has changed */
	}
}

CUresult stream_find(CUstream handle, struct stream **ret)
{
	struct stream *s = (struct stream *)handle;
	int device = current_device();

	if (handle == NULL || handle == CU_STREAM_LEGACY) {
		if (device < 0)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (!own[device])
			own[device] = stream_new(device, 0);
		s = own[device];
	} else if (handle == CU_STREAM_PER_THREAD) {
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!s->alive) {
		account_fault("a stream is used after it was destroyed");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret = s;
	return CUDA_SUCCESS;
}

CUresult stream_use(CUstream handle, struct stream **ret)
{
	int device = current_device();
	CUresult e;

	if (device < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	e = stream_find(handle, ret);
	if (e)
		return e;
	if ((*ret)->device != device) {
		account_fault("a stream of device %d is given work in the "
			      "context of device %d",
			(*ret)->device, device);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	wait_for_others(*ret);
	return CUDA_SUCCESS;
}

/* ---- streams ------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *ret, unsigned flags)
{
	int device = current_device();
	struct stream *s;
	CUresult e = begin();

	if (!e)
		e = device < 0 ? CUDA_ERROR_INVALID_CONTEXT
			       : refused("STREAM_CREATE", device);
	if (e)
		return end(e);
	s = stream_new(device, flags);
	if (s)
		*ret = (CUstream)s;
	return end(s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

/* What is queued is still done. */
CUresult cuStreamDestroy(CUstream handle)
{
	struct stream *s;
	CUresult e = begin();

	if (!e)
		e = handle ? stream_find(handle, &s)
			   : CUDA_ERROR_INVALID_HANDLE;
	if (!e)
		e = refused("STREAM_DESTROY", s->device);
	if (!e)
		s->alive = false;
	return end(e);
}

CUresult cuStreamSynchronize(CUstream handle)
{
	struct stream *s;
	CUresult e = begin();

	if (!e)
		e = stream_find(handle, &s);
	if (!e)
		e = refused("STREAM_SYNCHRONIZE", s->device);
	if (e)
		return end(e);
	stream_drain(s);
	return end(broken(s->device));
}

/* The header may have a later form of it under another name. */
#undef cuCtxSynchronize
CUresult cuCtxSynchronize(void);
CUresult cuCtxSynchronize(void)
{
	CUresult e = begin();
	struct stream *s = streams;
	int device = current_device();

	if (!e && device < 0)
		e = CUDA_ERROR_INVALID_CONTEXT;
	if (!e)
		e = refused("CONTEXT_SYNCHRONIZE", device);
	while (!e && s) {
		bool waits = s->first && s->device == device;

		if (waits)
			await_change(0);
		s = waits ? streams : s->next; /* the list has changed */
	}
	return end(e ? e : broken(device));
}

/* ---- the account --------------------------------------------------------- */

static int count_items(const struct stream *s)
{
	int n = 0;

	for (const struct item *i = s->first; i; i = i->next)
		n++;
	return n;
}

int count_work(int device)
{
	int n = 0;

	for (struct stream *s = streams; s; s = s->next)
		if (s->device == device)
			n += count_items(s) + (s->alive && s != own[device]);
	return n + count_events(device);
}

void judge_streams(void)
{
	for (struct stream *s = streams; s; s = s->next) {
		if (setting("LOST", s->device, 0) || broken(s->device))
			continue;
		if (s->first)
			account_fault("a stream of device %d has %d items that "
				      "are not done",
				s->device, count_items(s));
		if (s->alive && s != own[s->device])
			account_fault("a stream of device %d is not destroyed",
				s->device);
	}
}
