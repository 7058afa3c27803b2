/* SPDX-License-Identifier: MIT */
/*
 * Events: a number that counts records of it, and one that counts those that
 * have been done. They are never freed, so that a call with one that has been
 * destroyed is recognised.
 */
#include <stdlib.h>

#include "tests/fakecuda/standin.h"

static struct event *events;

static CUresult event_find(CUevent handle, struct event **ret)
{
	struct event *event = (struct event *)handle;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event->alive) {
		account_fault("an event is used after it was destroyed");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	*ret = event;
	return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *ret, unsigned flags)
{
	int device = current_device();
	struct event *event;
	CUresult e = begin();

	(void)flags;
	if (!e)
		e = device < 0 ? CUDA_ERROR_INVALID_CONTEXT
			       : refused("EVENT_CREATE", device);
	if (e)
		return end(e);
	event = calloc(1, sizeof(*event));
	if (!event)
		return end(CUDA_ERROR_OUT_OF_MEMORY);
	event->device = device;
	event->alive = true;
	event->next = events;
	events = event;
	*ret = (CUevent)event;
	return end(CUDA_SUCCESS);
}

/* One that is still to be recorded may be destroyed. */
CUresult cuEventDestroy(CUevent handle)
{
	struct event *event;
	CUresult e = begin();

	if (!e)
		e = event_find(handle, &event);
	if (!e)
		e = refused("EVENT_DESTROY", event->device);
	if (!e)
		event->alive = false;
	return end(e);
}

static CUresult queue_event(
	struct stream *stream, struct event *event, bool awaits)
{
	struct item *item = calloc(1, sizeof(*item));

	if (!item)
		return CUDA_ERROR_OUT_OF_MEMORY;
	item->event = event;
	item->awaits = awaits;
	item->serial = awaits ? event->recorded : ++event->recorded;
	stream_queue(stream, item);
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream)
{
	struct event *event;
	struct stream *s;
	CUresult e = begin();

	if (!e)
		e = event_find(handle, &event);
	if (!e)
		e = stream_find(stream, &s);
	if (!e)
		e = refused("EVENT_RECORD", s->device);
	if (!e && s->device != event->device) {
		account_fault("an event of device %d is recorded in a stream "
			      "of device %d",
			event->device, s->device);
		e = CUDA_ERROR_INVALID_HANDLE;
	}
	return end(e ? e : queue_event(s, event, false));
}

CUresult cuStreamWaitEvent(
	CUstream handle, CUevent event_handle, unsigned flags)
{
	struct event *event;
	struct stream *s;
	CUresult e = begin();

	if (!e && flags)
		e = CUDA_ERROR_INVALID_VALUE;
	if (!e)
		e = stream_find(handle, &s);
	if (!e)
		e = event_find(event_handle, &event);
	if (!e)
		e = refused("STREAM_WAIT_EVENT", s->device);
	return end(e ? e : queue_event(s, event, true));
}

CUresult cuEventQuery(CUevent handle)
{
	struct event *event;
	CUresult e = begin();

	if (!e)
		e = event_find(handle, &event);
	if (!e)
		e = refused("EVENT_QUERY", event->device);
	if (!e && event->done < event->recorded)
		e = CUDA_ERROR_NOT_READY;
	return end(e);
}

CUresult cuEventSynchronize(CUevent handle)
{
	struct event *event;
	uint64_t serial;
	CUresult e = begin();

	if (!e)
		e = event_find(handle, &event);
	if (!e)
		e = refused("EVENT_SYNCHRONIZE", event->device);
	if (e)
		return end(e);
	serial = event->recorded;
	while (event->done < serial)
		await_change(0);
	return end(broken(event->device));
}

/* ---- the account --------------------------------------------------------- */

int count_events(int device)
{
	int n = 0;

	for (struct event *e = events; e; e = e->next)
		n += e->device == device && e->alive;
	return n;
}

void judge_events(void)
{
	for (struct event *e = events; e; e = e->next)
		if (e->alive && !setting("LOST", e->device, 0) &&
			!broken(e->device))
			account_fault("an event of device %d is not destroyed",
				e->device);
}
