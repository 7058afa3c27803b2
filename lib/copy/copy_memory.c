// SPDX-License-Identifier: MIT
/*
 * Memory to memory as a copy operation: the nest is cut into slices, so that
 * the thread that pumps it can do other work in between. A slice is some steps
 * of one loop with all that is inside; the loops outside count on like digits.
 */
#include "lib/copy/copy_op.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

/* Long compared with the overhead of a slice, short compared with the time of
 * the disk requests that wait meanwhile. */
#define SLICE ((int64_t)1 << 20)

/* The share of each thread: a thread is started for it. */
#define SLICE_THREAD ((int64_t)16 << 20)

struct copy_memory {
	struct copy_op head;
	int level;                    /* the loop that is cut */
	int64_t steps;                /* of the loop in each slice */
	int64_t first;                /* the next of its steps */
	int64_t bytes;                /* of dst in one of its steps */
	int64_t index[TARN_NDIM_MAX]; /* of the loops outside */
};

/* The outermost loop whose step is no longer than a slice. */
static void cut(struct copy_memory *m)
{
	const struct nest *nest = &m->head.move.nest;
	int64_t slice = m->head.options.threads > 1
				? SLICE_THREAD * m->head.options.threads
				: SLICE;
	int64_t inside = 1, room;

	room = slice * 8 / tarn_dtype_bits(nest->dst_dtype);
	m->level = nest->n - 1;
	while (m->level > 0 && inside * nest->extent[m->level] <= room)
		inside *= nest->extent[m->level--];
	m->steps = MAX(room / inside, 1);
	m->bytes = inside;
	m->first = 0;
}

static void run(const struct copy_memory *m, const struct move *move)
{
	void *dst = tarn_tensor_origin(m->head.dst);
	const void *src = tarn_tensor_origin(m->head.src);

	if (m->head.options.threads > 1)
		move_run_threads(move, dst, src, m->head.options.threads);
	else
		move_run(move, dst, src);
}

/* To the next slice; false: there is none. */
static bool advance(struct copy_memory *m, int64_t count)
{
	const struct nest *nest = &m->head.move.nest;
	int i = m->level - 1;

	m->first += count;
	if (m->first < nest->extent[m->level])
		return true;
	m->first = 0;
	for (; i >= 0 && ++m->index[i] == nest->extent[i]; i--)
		m->index[i] = 0;
	return i >= 0;
}

static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_memory *m = (struct copy_memory *)copy_op;
	const struct nest *nest = &copy_op->move.nest;
	struct move part = copy_op->move;
	int64_t count;

	if (nest->n == 0 || nest->empty) {
		if (!nest->empty)
			run(m, &part);
		copy_op->done = copy_op->info.bytes;
		copy_op->ended = true;
		return 1;
	}
	count = MIN(m->steps, nest->extent[m->level] - m->first);
	nest_part(nest, m->level, m->index, m->first, count, &part.nest);
	run(m, &part);
	copy_op->done += (uint64_t)(count * m->bytes *
				    tarn_dtype_bits(nest->dst_dtype)) /
			 8;
	if (!advance(m, count)) {
		copy_op->done = copy_op->info.bytes;
		copy_op->ended = true;
	}
	return 1;
}

static void memory_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops memory_ops = {
	.pump = pump,
	.free = memory_free,
};

int copy_memory_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_memory *m = malloc(sizeof(*m));

	if (!m)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(&m->head, env, head, &memory_ops);
	m->head.info.engine = "memory";
	for (int i = 0; i < TARN_NDIM_MAX; i++)
		m->index[i] = 0;
	cut(m);
	*ret = &m->head;
	return 0;
}
