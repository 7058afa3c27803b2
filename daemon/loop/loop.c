/* SPDX-License-Identifier: MIT */
/*
 * The event loop, as far as both kinds share it: slots with generations, so
 * that a callback may take away any watch, its own too, and no event reaches
 * a watch that is gone; deadlines; and which kind it is.
 */
#include "daemon/loop/loop.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "daemon/loop/loop_internal.h"

/* Never a slot: io_uring's own requests carry it. */
#define NO_SLOT UINT32_MAX

int loop_new(struct loop **ret)
{
	const char *kind = getenv("TARN_ENGINE");
	struct loop *loop = NULL;
	int r = -ENOSYS;

	if (!kind || strcmp(kind, "threads"))
		r = loop_uring_new(&loop);
	if (r < 0 && (!kind || strcmp(kind, "io_uring")))
		r = loop_epoll_new(&loop);
	if (r < 0)
		return r;
	loop->first_free = NO_SLOT;
	*ret = loop;
	return 0;
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	for (uint32_t i = 0; i < loop->n_slots; i++)
		free(loop->slots[i].watch);
	free(loop->slots);
	loop->ops->free(loop);
	return NULL;
}

const char *loop_name(const struct loop *loop)
{
	return loop->ops->name;
}

/* ---- watches --------------------------------------------------------- */

static int slot_take(struct loop *loop, struct loop_watch *watch)
{
	if (loop->first_free == NO_SLOT) {
		uint32_t n = loop->n_slots ? loop->n_slots * 2 : 16;
		struct loop_slot *slots;

		slots = reallocarray(loop->slots, n, sizeof(*slots));
		if (!slots)
			return tarn_fail(
				ENOMEM, "no memory to watch %u descriptors", n);
		memset(slots + loop->n_slots, 0,
			(n - loop->n_slots) * sizeof(*slots));
		for (uint32_t i = n; i-- > loop->n_slots;) {
			slots[i].next_free = loop->first_free;
			loop->first_free = i;
		}
		loop->slots = slots;
		loop->n_slots = n;
	}
	watch->slot = loop->first_free;
	loop->first_free = loop->slots[watch->slot].next_free;
	loop->slots[watch->slot].watch = watch;
	return 0;
}

static void slot_give(struct loop_watch *watch)
{
	struct loop *loop = watch->loop;
	struct loop_slot *slot = &loop->slots[watch->slot];

	slot->watch = NULL;
	slot->generation++;
	slot->next_free = loop->first_free;
	loop->first_free = watch->slot;
}

int loop_watch(struct loop *loop, int fd, unsigned want, loop_fn fn, void *arg,
	struct loop_watch **ret)
{
	struct loop_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return tarn_fail(
			ENOMEM, "no memory to watch descriptor %d", fd);
	*watch = (struct loop_watch) {.loop = loop,
		.fd = fd,
		.want = want & (LOOP_READ | LOOP_WRITE),
		.fn = fn,
		.arg = arg};
	r = slot_take(loop, watch);
	if (r < 0) {
		free(watch);
		return r;
	}
	r = loop->ops->add(watch);
	if (r < 0) {
		slot_give(watch);
		free(watch);
		return r;
	}
	*ret = watch;
	return 0;
}

int loop_change(struct loop_watch *watch, unsigned want)
{
	want &= LOOP_READ | LOOP_WRITE;
	if (want == watch->want && !watch->muted)
		return 0;
	watch->want = want;
	watch->muted = false;
	return watch->loop->ops->change(watch);
}

int loop_mute(struct loop_watch *watch)
{
	if (watch->muted)
		return 0;
	watch->muted = true;
	return watch->loop->ops->mute(watch);
}

struct loop_watch *loop_unwatch(struct loop_watch *watch)
{
	if (!watch)
		return NULL;
	watch->loop->ops->remove(watch);
	slot_give(watch);
	free(watch);
	return NULL;
}

/* io_uring adds POLLRDHUP to every poll. A peer that has shut down its sending
 * side would complete a poll at once, again and again, if no callback handled
 * it. */
unsigned loop_to_poll(unsigned want)
{
	return POLLRDHUP | (want & LOOP_READ ? POLLIN : 0) |
	       (want & LOOP_WRITE ? POLLOUT : 0);
}

unsigned loop_from_poll(unsigned events)
{
	return (events & POLLIN ? LOOP_READ : 0) |
	       (events & POLLOUT ? LOOP_WRITE : 0) |
	       (events & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)
			       ? LOOP_HANGUP
			       : 0);
}

void loop_dispatch(struct loop *loop, uint64_t tag, unsigned ready)
{
	struct loop_watch *watch = loop_find(loop, tag);

	/* It may have changed its mind while the event was on its way. */
	if (watch && !watch->muted && (ready & (watch->want | LOOP_HANGUP)))
		watch->fn(watch->arg, ready & (watch->want | LOOP_HANGUP));
}

/* ---- time ------------------------------------------------------------ */

uint64_t loop_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

struct deadlines *loop_deadlines(struct loop *loop)
{
	return &loop->deadlines;
}

uint64_t loop_wait_until(const struct loop *loop)
{
	uint64_t at = deadlines_next(&loop->deadlines), now;

	if (at == UINT64_MAX)
		return UINT64_MAX;
	now = loop_now();
	return at > now ? at - now : 0;
}

void loop_between(struct loop *loop, void (*fn)(void *arg), void *arg)
{
	loop->between_fn = fn;
	loop->between_arg = arg;
}

int loop_run(struct loop *loop)
{
	loop->quit = false;
	while (!loop->quit) {
		int r;

		if (loop->between_fn)
			loop->between_fn(loop->between_arg);
		if (loop->quit)
			break;
		r = loop->ops->turn(loop);
		if (r < 0)
			return r;
		deadlines_run(&loop->deadlines, loop_now());
	}
	return 0;
}

void loop_quit(struct loop *loop)
{
	loop->quit = true;
}
