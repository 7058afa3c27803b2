// SPDX-License-Identifier: MIT
/*
 * Memory to memory as a copy operation: each pump moves a slice of it.
 */
#include "lib/copy/copy_op.h"
#include "lib/copy/slices.h"

#include <stdlib.h>

#include "base/fail.h"

/* Long compared with the overhead of a slice, short compared with the time of
 * the disk requests that wait meanwhile. */
#define SLICE ((int64_t)1 << 20)

/* The share of each thread: a thread is started for it. */
#define SLICE_THREAD ((int64_t)16 << 20)

struct copy_memory {
	struct copy_op head;
	struct slices slices;
};

static void run(const struct copy_memory *m, const struct move *move)
{
	void *dst = tarn_tensor_origin(m->head.dst);
	const void *src = tarn_tensor_origin(m->head.src);

	if (m->head.options.threads > 1)
		move_run_threads(move, dst, src, m->head.options.threads);
	else
		move_run(move, dst, src);
}

static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_memory *m = (struct copy_memory *)copy_op;
	struct move part = copy_op->move;
	uint64_t bytes;

	if (!m->slices.ended) {
		bytes = slices_next(
			&m->slices, &copy_op->move.nest, &part.nest);
		run(m, &part);
		copy_op->done += bytes;
	}
	if (m->slices.ended) {
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
	slices_begin(&m->slices, &head->move.nest,
		head->options.threads > 1 ? SLICE_THREAD * head->options.threads
					  : SLICE);
	*ret = &m->head;
	return 0;
}
