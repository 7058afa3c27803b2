/* SPDX-License-Identifier: MIT */
#include "lib/cuda/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/fail.h"
#include "lib/cuda/kernel.h"
#include "lib/cuda/move.h"

/* Of the lists of queues. It is taken inside the room's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A brief wait: a millisecond, in steps that are short beside a copy of a slot
 * over any link. */
enum { PAUSES = 40, PAUSE_NS = 25000 };

/* That are kept for a device. */
#define KEPT_MAX 8

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

	pthread_mutex_lock(&lock);
	queue = device->queues;
	if (queue) {
		device->queues = queue->next;
		device->n_queues--;
	}
	pthread_mutex_unlock(&lock);
	return queue;
}

static void note_busy(struct cuda_queue *queue)
{
	pthread_mutex_lock(&lock);
	queue->next = queue->device->busy;
	queue->device->busy = queue;
	pthread_mutex_unlock(&lock);
}

static int queue_new(struct cuda_device *device, struct cuda_queue **ret)
{
	struct cuda_queue *queue = calloc(1, sizeof(*queue));
	CUresult e;
	int r;

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

int cuda_queue_new(struct cuda_device *device, struct cuda_queue **ret)
{
	struct cuda_queue *queue;
	int r;

	/* First: a thread that the child does not have may have the lock. */
	if (cuda_is_forked())
		return cuda_fail_forked();
	queue = take_kept(device);
	r = queue ? 0 : queue_new(device, &queue);
	if (r < 0)
		return r;
	note_busy(queue);
	*ret = queue;
	return 0;
}

/* Its work is done. True: it is kept. */
static bool keep(struct cuda_queue *queue)
{
	struct cuda_device *device = queue->device;
	struct cuda_queue **at;
	bool kept;

	pthread_mutex_lock(&lock);
	for (at = &device->busy; *at != queue; at = &(*at)->next)
		;
	*at = queue->next;
	kept = device->n_queues < KEPT_MAX;
	if (kept) {
		queue->next = device->queues;
		device->queues = queue;
		device->n_queues++;
	}
	pthread_mutex_unlock(&lock);
	return kept;
}

struct cuda_queue *cuda_queue_free(struct cuda_queue *queue)
{
	bool entered;

	if (!queue || cuda_is_forked())
		return NULL;
	/* If it fails, the device is lost, and works no more. */
	entered = enter(queue) >= 0;
	if (entered)
		driver()->stream_synchronize(queue->stream);
	if (!keep(queue)) {
		if (entered)
			destroy(queue);
		else
			free(queue);
	}
	if (entered)
		leave();
	return NULL;
}

void cuda_queues_settle(struct cuda_device *device)
{
	pthread_mutex_lock(&lock);
	if (device->busy &&
		driver()->context_push(device->context) == CUDA_SUCCESS) {
		for (struct cuda_queue *q = device->busy; q; q = q->next)
			driver()->stream_synchronize(q->stream);
		leave();
	}
	pthread_mutex_unlock(&lock);
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
		device->n_queues--;
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

int cuda_queue_wait_briefly(struct cuda_queue *queue, int mark)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int r = cuda_queue_done(queue, mark);

	for (int i = 0; r == 0 && i < PAUSES; i++) {
		nanosleep(&pause, NULL);
		r = cuda_queue_done(queue, mark);
	}
	return r;
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

int cuda_queue_peer(struct cuda_queue *queue, uint64_t dst,
	const struct cuda_device *from, uint64_t src, uint64_t size)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->copy_peer(dst, queue->device->context, src, from->context,
		size, queue->stream);
	leave();
	return e ? cuda_fail(driver(), e, "copying %llu bytes from %s to %s",
			   (unsigned long long)size, from->traits.name,
			   queue->device->traits.name)
		 : 0;
}

int cuda_queue_follow(
	struct cuda_queue *queue, const struct cuda_queue *other, int mark)
{
	int r = enter(queue);
	CUresult e;

	if (r < 0)
		return r;
	e = driver()->stream_wait_event(queue->stream, other->mark[mark], 0);
	leave();
	return e ? failed(queue, e, "waiting for another device") : 0;
}

/* With the room's lock until end: nothing ends the registration between this and
 * the queueing, and what ends it later waits for what is queued. */
static int hold_host(
	const struct cuda_queue *queue, const struct cuda_host *host)
{
	cuda_lock();
	return cuda_still_known(queue->device, host)
		       ? 0
		       : tarn_fail_constant(EBUSY,
				 "another thread publishes the tensor, or "
				 "unregisters its memory, while it is copied");
}

int cuda_queue_move(struct cuda_queue *queue, const struct move *move,
	uint64_t dst, uint64_t src, uint64_t factors,
	const struct cuda_host *host)
{
	int r = enter(queue);

	if (r < 0)
		return r;
	if (host)
		r = hold_host(queue, host);
	if (r >= 0)
		r = cuda_move(driver(), queue->device, move, dst, src, factors,
			queue->stream);
	if (host)
		cuda_end();
	leave();
	return r;
}

int cuda_queue_list(struct cuda_queue *queue, enum cuda_kernel kernel,
	const struct cuda_list *list)
{
	int r = enter(queue);

	if (r < 0)
		return r;
	r = cuda_kernel_launch_list(
		driver(), queue->device, kernel, list, queue->stream);
	leave();
	return r;
}

bool cuda_moves(struct cuda_device *device, const struct move *move)
{
	bool moves;

	if (cuda_is_forked() || cuda_move_factors_size(move) > CUDA_FACTORS ||
		cuda_device_enter(driver(), device) < 0)
		return false;
	moves = cuda_move_can(driver(), device, move);
	leave();
	return moves;
}

uint64_t cuda_factors_size(const struct move *move)
{
	return cuda_move_factors_size(move);
}

void cuda_factors(const struct move *move, void *ret)
{
	cuda_move_factors(move, ret);
}
