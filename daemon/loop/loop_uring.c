/* SPDX-License-Identifier: MIT */
/*
 * The loop on io_uring: a poll request for each watch, of the kind that
 * completes once, queued again after its callback has run. Asking again is
 * what makes it level-triggered: a descriptor still ready completes at once.
 * (A multishot poll reports only changes, as edge-triggered epoll does.) The
 * requests of a batch are submitted with the call that waits for the next one,
 * so a turn is one system call, with any number of watches ready.
 */
#include <liburing.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/loop_internal.h"

/* Requests that may be queued before they must be submitted; picked. */
#define ENTRIES 256
/* Completions a turn, so that the timer is not late. */
#define BATCH 64
/* The completion of a cancellation; no watch has this tag. */
#define TAG_NONE UINT64_MAX

struct loop_uring {
	struct loop loop;
	struct io_uring ring;
};

/* A request to fill in, submitting what is queued when there is no room. */
static int get_sqe(struct loop_uring *self, struct io_uring_sqe **ret)
{
	int r;

	*ret = io_uring_get_sqe(&self->ring);
	if (*ret)
		return 0;
	r = io_uring_submit(&self->ring);
	*ret = io_uring_get_sqe(&self->ring);
	if (*ret)
		return 0;
	return tarn_fail(r < 0 ? -r : EBUSY, "io_uring takes no request: %s",
		tarn_errno_text(r < 0 ? r : -EBUSY));
}

static int arm(struct loop_watch *watch)
{
	struct loop_uring *self = (struct loop_uring *)watch->loop;
	struct io_uring_sqe *sqe;
	int r = get_sqe(self, &sqe);

	if (r < 0)
		return r;
	io_uring_prep_poll_add(sqe, watch->fd, loop_to_poll(watch->want));
	io_uring_sqe_set_data64(sqe, loop_tag(watch));
	watch->armed = true;
	return 0;
}

/*
 * The poll holds its file open, so it is cancelled now and not with the next
 * turn: if the caller closes the descriptor next, the peer must see that.
 */
static int disarm(struct loop_watch *watch)
{
	struct loop_uring *self = (struct loop_uring *)watch->loop;
	struct io_uring_sqe *sqe;
	int r;

	if (!watch->armed)
		return 0;
	r = get_sqe(self, &sqe);
	if (r < 0)
		return r;
	io_uring_prep_poll_remove(sqe, loop_tag(watch));
	io_uring_sqe_set_data64(sqe, TAG_NONE);
	watch->armed = false;
	r = io_uring_submit(&self->ring);
	return r < 0 ? tarn_fail(-r, "io_uring_submit: %s", tarn_errno_text(r))
		     : 0;
}

static int uring_change(struct loop_watch *watch)
{
	int r = disarm(watch);

	loop_retag(watch);
	return r < 0 ? r : arm(watch);
}

static int uring_mute(struct loop_watch *watch)
{
	int r = disarm(watch);

	loop_retag(watch);
	return r;
}

static void uring_remove(struct loop_watch *watch)
{
	disarm(watch);
}

/* Submits, and waits for the first completion or the timer. */
static int uring_wait(struct loop_uring *self)
{
	uint64_t ns = loop_wait_until(&self->loop);
	struct __kernel_timespec ts = {
		.tv_sec = (long long)(ns / 1000000000u),
		.tv_nsec = (long long)(ns % 1000000000u),
	};
	struct io_uring_cqe *cqe;
	int r = io_uring_submit_and_wait_timeout(
		&self->ring, &cqe, 1, ns == UINT64_MAX ? NULL : &ts, NULL);

	if (r >= 0 || r == -ETIME || r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return tarn_fail(-r, "io_uring_enter: %s", tarn_errno_text(r));
}

static int uring_turn(struct loop *loop)
{
	struct loop_uring *self = (struct loop_uring *)loop;
	struct io_uring_cqe *cqes[BATCH];
	uint64_t tags[BATCH];
	int results[BATCH];
	unsigned n;
	int r = uring_wait(self);

	if (r < 0)
		return r;
	/* Copied first: callbacks may submit, and reap nothing. */
	n = io_uring_peek_batch_cqe(&self->ring, cqes, BATCH);
	for (unsigned i = 0; i < n; i++) {
		tags[i] = io_uring_cqe_get_data64(cqes[i]);
		results[i] = cqes[i]->res;
	}
	io_uring_cq_advance(&self->ring, n);
	for (unsigned i = 0; i < n; i++) {
		struct loop_watch *watch = loop_find(loop, tags[i]);

		if (!watch)
			continue;
		watch->armed = false;
		/* An error is a descriptor that cannot be watched. */
		loop_dispatch(loop, tags[i],
			results[i] < 0 ? LOOP_HANGUP
				       : loop_from_poll((unsigned)results[i]));
		watch = loop_find(loop, tags[i]);
		if (watch && !watch->armed)
			r = arm(watch);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Nothing is submitted: in a forked child the ring is still the parent's, and
 * the child may only unmap and close it. */
static void uring_free(struct loop *loop)
{
	struct loop_uring *self = (struct loop_uring *)loop;

	io_uring_queue_exit(&self->ring);
	free(self);
}

static const struct loop_ops uring_ops = {
	.name = "io_uring",
	.free = uring_free,
	.add = arm,
	.change = uring_change,
	.mute = uring_mute,
	.remove = uring_remove,
	.turn = uring_turn,
};

int loop_uring_new(struct loop **ret)
{
	struct loop_uring *self = calloc(1, sizeof(*self));
	int r;

	if (!self)
		return tarn_fail(ENOMEM, "no memory for an event loop");
	self->loop.ops = &uring_ops;
	r = io_uring_queue_init(ENTRIES, &self->ring, 0);
	if (r >= 0 && !(self->ring.features & IORING_FEAT_EXT_ARG)) {
		/* Without it a wait with a time-out takes a request. */
		io_uring_queue_exit(&self->ring);
		r = -ENOSYS;
	}
	if (r < 0) {
		free(self);
		return tarn_fail(-r, "io_uring_setup: %s", tarn_errno_text(r));
	}
	*ret = &self->loop;
	return 0;
}
