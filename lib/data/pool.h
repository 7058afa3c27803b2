/* SPDX-License-Identifier: MIT */
/*
 * Buffers of one process: what it reads for itself alone goes there. A buffer is
 * read into, then waits in line, then is a batch's until the last of its tensors
 * is dropped, and then it is free again.
 */
#pragma once

#include "lib/data/batch.h"

struct pool;

/* A pool for parts of n samples. -ENOMEM, -EOVERFLOW. */
int pool_new(const struct batch_form *form, uint64_t n, unsigned buffers,
	struct pool **ret);
/* Memory that batches still have goes with the last of them. Takes NULL and
 * returns NULL. */
struct pool *pool_unref(struct pool *pool);

/* The place that a reader reads into. */
struct ahead_place pool_place(struct pool *pool);
/* No more parts will come. */
void pool_end(struct pool *pool);

struct pool_buffer;

/* The next part, the caller's, to be taken or dropped. 1: there will be none any
 * more; -ETIMEDOUT; -EINTR. */
int pool_next(struct pool *pool, int timeout_ms, struct pool_buffer **ret);
uint64_t pool_position(const struct pool_buffer *buffer);
bool pool_failed(const struct pool_buffer *buffer);
void pool_drop(struct pool_buffer *buffer);
/* How many buffers are batches'. */
unsigned pool_held(struct pool *pool);
/* As a batch whose first sample is at position; the buffer is gone, also where
 * this fails. */
int pool_take(struct pool_buffer *buffer, uint64_t position, tarn_batch **ret);
