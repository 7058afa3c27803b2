/* SPDX-License-Identifier: MIT */
/*
 * A connection in a forked child.
 *
 * Parent and child must not use one socket, and the child's other threads are
 * gone, in the middle of whatever they were doing. So the forking thread holds
 * all locks, which makes the data under them consistent, and the child replaces
 * the inherited socket by another, or by none.
 */
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/store/connection.h"

int connection_ready(struct connection *c)
{
	/* Acquire: pairs with the release store in connection_replace; the
	 * socket is there. */
	if (!atomic_load_explicit(&c->lazy, memory_order_acquire))
		return 0;
	/* It was marked dead in the fork. */
	if (connection_is_dead(c))
		return connection_error(c);
	return c->reconnect(c->reconnect_arg);
}

void connection_lock(struct connection *c)
{
	pthread_mutex_lock(&c->send);
	pthread_mutex_lock(&c->lock);
}

void connection_unlock(struct connection *c)
{
	pthread_mutex_unlock(&c->lock);
	pthread_mutex_unlock(&c->send);
}

/* A thread of the parent may have been between two lines of receiving: then
 * what had come is not known, and not freed. */
static void forget_partial(struct connection *c)
{
	if (!c->receiving)
		wire_partial_clear(&c->partial);
	c->partial = (struct wire_partial) {0};
}

/* Nobody waits here who waited in the parent. */
static void forget_calls(struct connection *c)
{
	pthread_condattr_t attr;

	forget_partial(c);
	c->calls = NULL;
	c->receiving = false;
	c->resume_pending = false;
	c->resend_until = 0;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->arrived, &attr);
	pthread_condattr_destroy(&attr);
}

void connection_replace(struct connection *c, struct connection *other)
{
	struct wire_writer *writer = c->writer;

	if (!atomic_load_explicit(&c->lazy, memory_order_relaxed))
		forget_calls(c);
	fd_close(c->fd);
	c->fd = other->fd;
	c->writer = other->writer;
	c->serial = other->serial;
	c->notify_pending = false;
	other->fd = -1;
	other->writer = writer;
	connection_done(other);
	/* Release: pairs with the acquire load in connection_ready. */
	atomic_store_explicit(&c->lazy, false, memory_order_release);
}

void connection_sleep(struct connection *c)
{
	forget_calls(c);
	c->fd = fd_close(c->fd);
	atomic_store_explicit(&c->lazy, true, memory_order_relaxed);
}

void connection_mark_dead(struct connection *c, int err, const char *why)
{
	forget_calls(c);
	atomic_store_explicit(&c->lazy, true, memory_order_relaxed);
	if (connection_is_dead(c))
		return;
	snprintf(c->why, sizeof(c->why), "%s", why);
	/* Relaxed: there is no other thread. */
	atomic_store_explicit(&c->dead, err, memory_order_relaxed);
}
