/* SPDX-License-Identifier: MIT */
/* Reading ahead for this process alone: a thread and a pool. */
#pragma once

#include "lib/data/pool.h"

struct alone;

/* job says what is read; its place and stop are set here. buffers: of the
 * pool. */
int alone_start(
	const struct ahead_job *job, unsigned buffers, struct alone **ret);
/* Takes NULL and returns NULL. */
struct alone *alone_end(struct alone *alone);
struct pool *alone_pool(struct alone *alone);

/* A thread that gets no signals. -EAGAIN. */
int thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);
