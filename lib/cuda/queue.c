/* SPDX-License-Identifier: MIT */
#include "lib/cuda/queue.h"

#include <stdlib.h>

#include "base/fail.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/move.h"

static const struct cuda_driver *driver(void)
{
	return cuda_devices.driver;
}

static int failed(const struct cuda_queue *queue, CUresult e, const char *what)
{
	return cuda_fail(
		driver(), e, "%s on %s", what, queue->device->traits.name);
}

/* In the device's context until leave. */
static int enter(const struct cuda_queue *queue)
{
	return cuda_is_forked() ? cuda_fail_forked()
				: cuda_device_enter(driver(), queue->device);
}

static void leave(void)
{
	cuda_device_leave(driver());
}

/* ---- making -------------------------------------------------------------- */

/* In the device's context. */
static CUresult make(struct cuda_queue *queue)
{
	CUresult e =
		driver()->stream_create(&queue->stream, CU_STREAM_NON_BLOCKING);

	for (int i = 0; !e && i < CUDA_MARKS; i++)
		e = driver()->event_create(&queue->mark[i],
			CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
	return e;
}

static void destroy(struct cuda_queue *queue)
{
	for (int i = 0; i < CUDA_MARKS; i++)
		if (queue->mark[i])
			driver()->event_destroy(queue->mark[i]);
	if (queue->stream)
		driver()->stream_destroy(queue->stream);
	free(queue);
}

static struct cuda_queue *take_kept(struct cuda_device *device)
{
	struct cuda_queue *queue;

	cuda_lock();
	queue = device->queues;
	if (queue)
		device->queues = queue->next;
	cuda_end();
	return queue;
}

int cuda_queue_new(struct cuda_device *device, struct cuda_queue **ret)
{
	struct cuda_queue *queue = take_kept(device);
	CUresult e;
	int r;

	if (queue) {
		*ret = queue;
		return 0;
	}
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return tarn_fail(ENOMEM, "no memory for a queue of copies");
	queue->device = device;
	r = enter(queue);
	if (r < 0) {
		free(queue);
		return r;
	}
	e = make(queue);
	if (e) {
		r = failed(queue, e, "a stream for copies");
		destroy(queue);
	}
	leave();
	if (r >= 0)
		*ret = queue;
	return r;
}

struct cuda_queue *cuda_queue_free(struct cuda_queue *queue)
{
	struct cuda_device *device;

	if (!queue || cuda_is_forked())
		return NULL;
	device = queue->device;
	/* If it fails, the device is lost, and works no more. */
	if (enter(queue) >= 0) {
		driver()->stream_synchronize(queue->stream);
		leave();
	}
	cuda_lock();
	queue->next = device->queues;
	device->queues = queue;
	cuda_end();
	return NULL;
}

void cuda_queues_free(
	const struct cuda_driver *driver, struct cuda_device *device)
{
	/* Where its context cannot be entered the device is lost, and all that
	 * it had. */
	bool entered = device->queues &&
		       driver->context_push(device->context) == CUDA_SUCCESS;

	while (device->queues) {
		struct cuda_queue *queue = device->queues;

		device->queues = queue->next;
		if (entered)
			destroy(queue);
		else
			free(queue);
	}
	if (entered)
		cuda_device_leave(driver);
}

/* ---- order --------------------------------------------------------------- */

/* The last mark is used for a moment: a stream that waits for an event waits
 * for what that had marked by then. */
int cuda_queue_after(struct cuda_queue *queue, void *stream)
{
	CUevent event = queue->mark[CUDA_MARKS - 1];
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->event_record(event, stream);
	if (!e) {
		e = driver()->stream_wait_event(queue->stream, event, 0);
		/* The mark must not be under way when it is used, or freed. */
		if (e)
			driver()->event_synchronize(event);
	}
	leave();
	return e ? failed(queue, e, "waiting for the stream of a caller's work")
		 : 0;
}

int cuda_queue_mark(struct cuda_queue *queue, int mark)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->event_record(queue->mark[mark], queue->stream);
	leave();
	return e ? failed(queue, e, "marking work") : 0;
}

int cuda_queue_done(struct cuda_queue *queue, int mark)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->event_query(queue->mark[mark]);
	leave();
	if (e == CUDA_ERROR_NOT_READY)
		return 0;
	return e ? failed(queue, e, "a copy") : 1;
}

int cuda_queue_wait(struct cuda_queue *queue, int mark)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->event_synchronize(queue->mark[mark]);
	leave();
	return e ? failed(queue, e, "a copy") : 0;
}

/* ---- work ---------------------------------------------------------------- */

int cuda_queue_clear(struct cuda_queue *queue, uint64_t at, uint64_t size)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->fill(at, 0, size, queue->stream);
	leave();
	return e ? failed(queue, e, "clearing memory") : 0;
}

int cuda_queue_bytes(
	struct cuda_queue *queue, uint64_t dst, uint64_t src, uint64_t size)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->copy(dst, src, size, queue->stream);
	leave();
	return e ? failed(queue, e, "copying bytes") : 0;
}

int cuda_queue_move(struct cuda_queue *queue, const struct move *move,
	uint64_t dst, uint64_t src, uint64_t factors)
{
	int r = enter(queue);

	if (r < 0)
		return r;
	r = cuda_move(driver(), queue->device, move, dst, src, factors,
		queue->stream);
	leave();
	return r;
}

bool cuda_queue_moves(struct cuda_queue *queue, const struct move *move)
{
	int r;

	if (move->convert.plain)
		return true;
	if (tarn_dtype_pack(move->nest.dst_dtype) > 1 ||
		tarn_dtype_pack(move->nest.src_dtype) > 1 ||
		cuda_move_factors_size(move) > CUDA_FACTORS)
		return false;
	r = enter(queue);
	if (r < 0)
		return false;
	r = cuda_kernel_ready(driver(), queue->device);
	leave();
	return r >= 0;
}

uint64_t cuda_factors_size(const struct move *move)
{
	return cuda_move_factors_size(move);
}

void cuda_factors(const struct move *move, void *ret)
{
	cuda_move_factors(move, ret);
}
