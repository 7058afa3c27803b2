// SPDX-License-Identifier: MIT
#include "lib/data/pool.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"

struct pool_buffer {
	struct pool *pool;
	struct pool_buffer *next; /* of those free, or in line */
	tarn_storage *bytes;
	uint64_t position;
	bool failed;
	struct boundaries boundaries;
};

struct pool {
	atomic_uint refs; /* the loader's, and one for each batch's buffer */
	struct batch_form form;
	uint64_t n;
	pid_t pid; /* whose threads use it */
	/* A wait for it ends with a signal, unlike one for a condition. */
	sem_t parts; /* in line, and one more when there will be none */
	pthread_mutex_t lock; /* guards what follows, and the lists */
	pthread_cond_t freed;
	bool ended;
	struct pool_buffer *unused, *first, **last;
	unsigned held; /* by batches */
	unsigned n_buffers;
	struct pool_buffer buffers[];
};

/* ---- buffers ---------------------------------------------------------------- */

static void free_pool(struct pool *pool)
{
	for (unsigned i = 0; i < pool->n_buffers; i++) {
		tarn_storage_unref(pool->buffers[i].bytes);
		boundaries_end(&pool->buffers[i].boundaries);
	}
	pthread_cond_destroy(&pool->freed);
	pthread_mutex_destroy(&pool->lock);
	sem_destroy(&pool->parts);
	free(pool);
}

struct pool *pool_unref(struct pool *pool)
{
	/* Pairs with itself: what each user did is before the last one's
	 * end. */
	if (pool && atomic_fetch_sub_explicit(
			    &pool->refs, 1, memory_order_acq_rel) == 1)
		free_pool(pool);
	return NULL;
}

static void init_pool(struct pool *pool)
{
	pthread_condattr_t attr;

	atomic_init(&pool->refs, 1);
	pool->pid = getpid();
	sem_init(&pool->parts, 0, 0);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->freed, &attr);
	pthread_condattr_destroy(&attr);
	pool->last = &pool->first;
}

int pool_new(const struct batch_form *form, uint64_t n, unsigned buffers,
	struct pool **ret)
{
	struct pool *pool;
	uint64_t size;
	int r = batch_size(form, n, &size);

	if (r < 0)
		return r;
	pool = calloc(1, sizeof(*pool) + buffers * sizeof(*pool->buffers));
	if (!pool)
		return tarn_fail_constant(
			ENOMEM, "loader: no memory for its buffers");
	init_pool(pool);
	pool->form = *form;
	pool->n = n;
	for (unsigned i = 0; r >= 0 && i < buffers; i++) {
		struct pool_buffer *b = &pool->buffers[i];

		r = tarn_storage_alloc(size, &b->bytes);
		if (r < 0)
			break;
		pool->n_buffers++;
		b->pool = pool;
		b->next = pool->unused;
		pool->unused = b;
	}
	if (r < 0)
		pool_unref(pool);
	else
		*ret = pool;
	return r;
}

static void put_back(struct pool_buffer *buffer, bool held)
{
	struct pool *pool = buffer->pool;

	pthread_mutex_lock(&pool->lock);
	pool->held -= held;
	buffer->next = pool->unused;
	pool->unused = buffer;
	pthread_cond_signal(&pool->freed);
	pthread_mutex_unlock(&pool->lock);
}

void pool_drop(struct pool_buffer *buffer)
{
	put_back(buffer, false);
}

/* ---- the reader's side --------------------------------------------------------- */

static int take(void *arg, int timeout_ms, struct batch_memory *ret)
{
	struct pool *pool = arg;
	uint64_t until =
		clock_ns(CLOCK_MONOTONIC) + (uint64_t)timeout_ms * 1000000;
	const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
		.tv_nsec = (long)(until % 1000000000)};
	struct pool_buffer *b;

	pthread_mutex_lock(&pool->lock);
	while (!pool->unused && !pool->ended && timeout_ms &&
		pthread_cond_timedwait(&pool->freed, &pool->lock, &at) == 0)
		;
	b = pool->ended ? NULL : pool->unused;
	if (b)
		pool->unused = b->next;
	pthread_mutex_unlock(&pool->lock);
	if (!b)
		return 0;
	batch_lay(&pool->form, pool->n, b->bytes->data, ret);
	ret->owner = b;
	return 1;
}

static bool ready(void *arg)
{
	(void)arg;
	return true;
}

static int give(void *arg, struct ahead_part *part)
{
	struct pool *pool = arg;
	struct pool_buffer *b = part->memory.owner;
	struct boundaries boundaries = b->boundaries;

	b->boundaries = part->boundaries;
	part->boundaries = boundaries;
	b->position = part->position;
	b->failed = part->failed;
	b->next = NULL;
	pthread_mutex_lock(&pool->lock);
	*pool->last = b;
	pool->last = &b->next;
	pthread_mutex_unlock(&pool->lock);
	sem_post(&pool->parts);
	return 0;
}

static void drop(void *arg, struct batch_memory *memory)
{
	(void)arg;
	pool_drop(memory->owner);
}

struct ahead_place pool_place(struct pool *pool)
{
	return (struct ahead_place) {.take = take,
		.ready = ready,
		.give = give,
		.drop = drop,
		.arg = pool};
}

void pool_end(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->ended = true;
	pthread_cond_broadcast(&pool->freed);
	pthread_mutex_unlock(&pool->lock);
	sem_post(&pool->parts);
}

/* ---- the rank's side ------------------------------------------------------------ */

static int wait_for_part(struct pool *pool, int timeout_ms)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) +
			 (uint64_t)MAX(timeout_ms, 0) * 1000000;
	const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
		.tv_nsec = (long)(until % 1000000000)};
	int r = timeout_ms < 0 ? sem_wait(&pool->parts)
		: timeout_ms == 0
			? sem_trywait(&pool->parts)
			: sem_clockwait(&pool->parts, CLOCK_MONOTONIC, &at);

	if (r == 0)
		return 0;
	return errno == EINTR
		       ? tarn_fail_constant(
				 EINTR, "loader: a signal came before a batch")
		       : tarn_fail_constant(ETIMEDOUT,
				 "loader: no batch came within the time");
}

int pool_next(struct pool *pool, int timeout_ms, struct pool_buffer **ret)
{
	struct pool_buffer *b;
	int r = wait_for_part(pool, timeout_ms);

	if (r < 0)
		return r;
	pthread_mutex_lock(&pool->lock);
	b = pool->first;
	if (b) {
		pool->first = b->next;
		if (!pool->first)
			pool->last = &pool->first;
	}
	pthread_mutex_unlock(&pool->lock);
	if (!b) {
		/* It has ended, and the next call shall see it, too. */
		sem_post(&pool->parts);
		return 1;
	}
	*ret = b;
	return 0;
}

uint64_t pool_position(const struct pool_buffer *buffer)
{
	return buffer->position;
}

bool pool_failed(const struct pool_buffer *buffer)
{
	return buffer->failed;
}

unsigned pool_held(struct pool *pool)
{
	unsigned held;

	pthread_mutex_lock(&pool->lock);
	held = pool->held;
	pthread_mutex_unlock(&pool->lock);
	return held;
}

/* The last tensor over the buffer was dropped. In a forked child nobody wants the
 * buffer, and a thread that the child does not have may have the lock for ever. */
static void release(void *arg)
{
	struct pool_buffer *b = arg;
	struct pool *pool = b->pool;

	if (pool->pid == getpid())
		put_back(b, true);
	pool_unref(pool);
}

int pool_take(struct pool_buffer *b, uint64_t position, tarn_batch **ret)
{
	struct pool *pool = b->pool;
	_cleanup_storage_ tarn_storage *storage = NULL;
	int r = tarn_storage_borrow(b->bytes->data, b->bytes->size,
		TARN_BORROW_WRITABLE, release, b, &storage);

	if (r < 0) {
		pool_drop(b);
		return r;
	}
	pthread_mutex_lock(&pool->lock);
	pool->held++;
	pthread_mutex_unlock(&pool->lock);
	/* Relaxed: the caller has a reference. */
	atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
	return batch_of_storage(
		&pool->form, position, pool->n, storage, &b->boundaries, ret);
}
