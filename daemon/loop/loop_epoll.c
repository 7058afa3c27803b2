/* SPDX-License-Identifier: MIT */
/*
 * The loop on epoll, for where io_uring is refused. Level-triggered by nature;
 * the batch that epoll_wait returned may name watches that a callback has
 * taken away since, which their tags tell.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/loop_internal.h"

/* Events a turn. Picked: enough to amortise the call, few enough that the
 * timer is not late. */
#define BATCH 64

struct loop_epoll {
	struct loop loop;
	int fd;
};

static int control(struct loop_watch *watch, int op, unsigned events)
{
	struct loop_epoll *self = (struct loop_epoll *)watch->loop;
	struct epoll_event event = {
		.events = events,
		.data.u64 = loop_tag(watch),
	};

	if (epoll_ctl(self->fd, op, watch->fd, &event) < 0)
		return tarn_fail(errno, "cannot watch descriptor %d: %s",
			watch->fd, tarn_errno_text(errno));
	return 0;
}

static int epoll_add(struct loop_watch *watch)
{
	return control(watch, EPOLL_CTL_ADD, loop_to_poll(watch->want));
}

static int epoll_change(struct loop_watch *watch)
{
	return control(watch, EPOLL_CTL_MOD, loop_to_poll(watch->want));
}

/* Without any event of its own epoll still reports EPOLLHUP; EPOLLONESHOT makes
 * that once, which loop_dispatch() drops. Other than taking the descriptor out
 * and putting it in again, this needs no memory. */
static int epoll_mute(struct loop_watch *watch)
{
	return control(watch, EPOLL_CTL_MOD, EPOLLONESHOT);
}

static void epoll_remove(struct loop_watch *watch)
{
	struct loop_epoll *self = (struct loop_epoll *)watch->loop;

	epoll_ctl(self->fd, EPOLL_CTL_DEL, watch->fd, NULL);
}

/* Rounded up: waking before the timer is due would only mean another turn. */
static int timeout_ms(const struct loop *loop)
{
	uint64_t ns = loop_wait_until(loop);

	if (ns == UINT64_MAX)
		return -1;
	return (int)MIN(ns / 1000000 + (ns % 1000000 != 0), 3600000u);
}

static int epoll_turn(struct loop *loop)
{
	struct loop_epoll *self = (struct loop_epoll *)loop;
	struct epoll_event events[BATCH];
	int n = epoll_wait(self->fd, events, BATCH, timeout_ms(loop));

	if (n < 0 && errno != EINTR)
		return tarn_fail(
			errno, "epoll_wait: %s", tarn_errno_text(errno));
	for (int i = 0; i < n; i++)
		loop_dispatch(loop, events[i].data.u64,
			loop_from_poll(events[i].events));
	return 0;
}

static void epoll_free(struct loop *loop)
{
	struct loop_epoll *self = (struct loop_epoll *)loop;

	fd_close(self->fd);
	free(self);
}

static const struct loop_ops epoll_ops = {
	.name = "epoll",
	.free = epoll_free,
	.add = epoll_add,
	.change = epoll_change,
	.mute = epoll_mute,
	.remove = epoll_remove,
	.turn = epoll_turn,
};

int loop_epoll_new(struct loop **ret)
{
	struct loop_epoll *self = calloc(1, sizeof(*self));

	if (!self)
		return tarn_fail(ENOMEM, "no memory for an event loop");
	self->loop.ops = &epoll_ops;
	self->fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->fd < 0) {
		int r = tarn_fail(
			errno, "epoll_create1: %s", tarn_errno_text(errno));

		free(self);
		return r;
	}
	*ret = &self->loop;
	return 0;
}
