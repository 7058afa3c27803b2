/* SPDX-License-Identifier: MIT */
/*
 * A connection in a forked child.
 *
 * The idea: parent and child must not speak on one socket, and the child's
 * other threads are gone, with whatever they were doing. So the forking thread
 * holds all locks, which makes everything under them whole, and the child puts
 * another socket in the place of the inherited one, or none.
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
	if (!atomic_load_explicit(&c->asleep, memory_order_acquire))
		return 0;
	/* Buried in the fork. */
	if (connection_is_dead(c))
		return connection_error(c);
	return c->wake(c->wake_arg);
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

/* Nobody waits here who waited in the parent. Who was receiving there has left
 * the reader as it was at that moment, which nobody can go on with, nor free.
 */
static void forget_calls(struct connection *c)
{
	pthread_condattr_t attr;

	c->calls = NULL;
	if (c->receiving)
		c->reader = NULL;
	c->receiving = false;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->arrived, &attr);
	pthread_condattr_destroy(&attr);
}

void connection_replace(struct connection *c, struct connection *other)
{
	struct wire_reader *reader;
	struct wire_writer *writer = c->writer;

	if (!atomic_load_explicit(&c->asleep, memory_order_relaxed))
		forget_calls(c);
	reader = c->reader;
	fd_close(c->fd);
	c->fd = other->fd;
	c->reader = other->reader;
	c->writer = other->writer;
	c->serial = other->serial;
	atomic_store_explicit(
		&c->understands, other->understands, memory_order_relaxed);
	other->fd = -1;
	other->reader = reader;
	other->writer = writer;
	connection_done(other);
	/* Release: pairs with the acquire load in connection_ready. */
	atomic_store_explicit(&c->asleep, false, memory_order_release);
}

void connection_sleep(struct connection *c)
{
	forget_calls(c);
	c->fd = fd_close(c->fd);
	atomic_store_explicit(&c->asleep, true, memory_order_relaxed);
}

void connection_bury(struct connection *c, int err, const char *why)
{
	forget_calls(c);
	c->fd = fd_close(c->fd);
	atomic_store_explicit(&c->asleep, true, memory_order_relaxed);
	if (connection_is_dead(c))
		return;
	snprintf(c->why, sizeof(c->why), "%s", why);
	/* Relaxed: there is no other thread. */
	atomic_store_explicit(&c->dead, err, memory_order_relaxed);
}
