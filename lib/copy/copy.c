// SPDX-License-Identifier: MIT
/*
 * tarn_copy: one copy, now. Memory to memory is planned on the stack and moved
 * in place, with no allocation and no system call. Where files take part, an
 * engine is made for the call: a plain one for small copies, since setting up a
 * ring costs more than copying their bytes.
 */
#include "lib/copy/copy_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/copy/copy_env.h"
#include "lib/copy/times.h"

/* Making a ring with its tables takes about as long as reading this from the
 * page cache, which parallel requests do not speed up; but in a copy of
 * scattered chunks each chunk may wait for the disk. */
#define PLAIN_MAX ((uint64_t)256 << 10)
#define PLAIN_RUN_MAX ((uint64_t)2 << 20)

/* Requests that are waited for together, for fewer wake-ups. As in
 * lib/io/fill.c. */
enum { BATCH = TARN_IO_DEPTH / 4 };

/* How long one copy waits before it reports progress again. */
enum { PROGRESS_MS = 100 };

/* The bounce buffers of one copy. */
#define BUFFER ((uint64_t)8 << 20)

/* All at once: there is no progress callback. */
static void copy_memory(struct copy_op *head, struct tarn_copy_info *ret_info)
{
	void *dst = tarn_tensor_origin(head->dst);
	const void *src = tarn_tensor_origin(head->src);

	if (ret_info)
		copy_begin_times(&head->info);
	if (head->options.threads > 1)
		move_run_threads(&head->move, dst, src, head->options.threads);
	else
		move_run(&head->move, dst, src);
	if (!ret_info)
		return;
	copy_end_times(&head->info);
	head->info.engine = "memory";
	*ret_info = head->info;
}

static void report_progress(
	struct copy_op *m, const struct tarn_copy_options *options)
{
	if (options && options->progress &&
		options->progress(options->arg, m->done, m->info.bytes) != 0)
		copy_op_cancel(m);
}

/* Also after a failure: requests that the kernel has must complete first. */
static int drive(struct copy_op *m, const struct tarn_copy_options *options)
{
	int wait_ms = options && options->progress ? PROGRESS_MS : -1;

	while (!copy_op_finished(m)) {
		unsigned begun = m->ended ? 0 : m->ops->pump(m, TARN_IO_DEPTH);
		int r = 0;

		if (!begun && !m->in_flight && !m->ended)
			copy_op_stuck(m);
		if (m->in_flight)
			r = tarn_io_submit_and_wait(
				m->env->io, MIN(m->in_flight, BATCH), wait_ms);
		if (r < 0)
			copy_op_failed(m, r);
		if (r < 0 && copy_env_drain(m->env) < 0)
			break;
		report_progress(m, options);
	}
	return copy_op_result(m);
}

/* If the caller has no preference, TARN_ENGINE decides, as everywhere. */
static const char *engine_for(
	const struct copy_op *head, const struct tarn_copy_options *options)
{
	const char *forced = getenv("TARN_ENGINE");
	const struct nest *nest = &head->move.nest;
	bool one_run;

	if (options && options->engine)
		return options->engine;
	if (forced && *forced && strcmp(forced, "auto") != 0)
		return NULL;
	one_run = nest->n == 0 ||
		  (nest->n == 1 && nest->dst[0] == 1 && nest->src[0] == 1);
	return head->info.bytes <= (one_run ? PLAIN_RUN_MAX : PLAIN_MAX)
		       ? "plain"
		       : NULL;
}

static int copy_slowly(const struct copy_op *head,
	const struct tarn_copy_options *options, struct tarn_copy_info *info)
{
	bool files = medium_of(head->dst->storage) == MEDIUM_FILE ||
		     medium_of(head->src->storage) == MEDIUM_FILE;
	struct copy_env env = {0};
	struct copy_op *m = NULL;
	int r = 0;

	copy_begin_times(info);
	if (files && head->info.bytes)
		r = copy_env_open(
			&env, engine_for(head, options), BUFFER, false);
	if (r < 0)
		return r;
	r = copy_op_new_checked(&env, head, &m);
	if (r < 0) {
		copy_env_close(&env);
		return r;
	}
	if (env.io)
		m->info.engine = tarn_io_name(env.io);
	report_progress(m, options);
	r = drive(m, options);
	copy_end_times(info);
	m->info.seconds = info->seconds;
	m->info.cpu_seconds = info->cpu_seconds;
	*info = m->info;
	if (!copy_op_finished(m))
		return r; /* the engine is lost: the kernel may still write to
			   * all of it */
	copy_op_free(m);
	copy_env_close(&env);
	return r;
}

int tarn_copy(tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info)
{
	struct tarn_copy_info info;
	struct copy_op head;
	int r = copy_check(&head, dst, src, options);

	if (r < 0)
		return r;
	if (medium_of(dst->storage) == MEDIUM_MEMORY &&
		medium_of(src->storage) == MEDIUM_MEMORY &&
		!(options && options->progress)) {
		copy_memory(&head, ret_info);
		return 0;
	}
	r = copy_slowly(&head, options, &info);
	if (r >= 0 && ret_info)
		*ret_info = info;
	return r;
}
