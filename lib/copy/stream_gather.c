// SPDX-License-Identifier: MIT
/*
 * Small reads are gathered: consecutive waiting copies of bytes of one file
 * that lie close together become one read into a buffer of the stream, from
 * which each gets its bytes. A hundred thousand tensors of a checkpoint cost a
 * few hundred requests then, and not a hundred thousand.
 *
 * A gathering is a reader like any other, with the buffer as its dst, so that
 * the I/O mode is chosen, and short reads are continued, as for any other. A
 * copy that is cancelled meanwhile simply gets nothing from the buffer. If the
 * read fails, its members are read one by one, and each fails or succeeds
 * separately.
 */
#include "lib/copy/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "lib/io/pages.h"

enum {
	/* Above this a separate request costs less than a pass over memory. */
	SMALL = 32 << 10,
	/* The largest read of the file at once, and the least that is worth
	 * gathering. */
	GATHER = TARN_IO_REQUEST,
	GATHER_LEAST = 64 << 10,
	/* A gap of this size between two of them is read and discarded. */
	GAP = 4 << 10,
	BUFFER = GATHER + 2 * PAGE,
};

static void light_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

/* Never pumped: it is gathered, or replaced by a reader (stream_alone). */
static const struct copy_op_ops light_ops = {
	.free = light_free,
};

static bool is_run(const struct nest *nest)
{
	return nest->n == 0 ||
	       (nest->n == 1 && nest->dst[0] == 1 && nest->src[0] == 1);
}

bool stream_is_small(const struct copy_op *head)
{
	return head->info.bytes > 0 && head->info.bytes <= SMALL &&
	       head->move.convert.plain && is_run(&head->move.nest) &&
	       tarn_dtype_bits(head->move.nest.src_dtype) % 8 == 0 &&
	       medium_of(head->dst->storage) == MEDIUM_MEMORY &&
	       medium_of(head->src->storage) == MEDIUM_FILE;
}

int stream_new_small(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_op *m = malloc(sizeof(*m));

	if (!m)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(m, env, head, &light_ops);
	*ret = m;
	return 0;
}

int stream_alone(struct job *job)
{
	struct copy_op *real;
	int r;

	if (job->copy_op->ops != &light_ops)
		return 0;
	r = copy_op_new_checked(job->copy_op->env, job->copy_op, &real);
	if (r < 0) {
		copy_op_failed(job->copy_op, r);
		return r;
	}
	copy_op_free(job->copy_op);
	job->copy_op = real;
	return 0;
}

/* The byte of the storage where a small copy begins. */
static uint64_t begin_of(const struct copy_op *m)
{
	const struct nest *nest = &m->move.nest;

	return m->src->base +
	       (uint64_t)(nest->src0 * tarn_dtype_bits(nest->src_dtype) / 8);
}

static char *place_for(const struct copy_op *m)
{
	const struct nest *nest = &m->move.nest;

	return (char *)tarn_tensor_origin(m->dst) +
	       nest->dst0 * tarn_dtype_bits(nest->dst_dtype) / 8;
}

static bool may_join(const struct job *job, const struct job *first)
{
	return job && job->copy_op->ops == &light_ops && !job->alone &&
	       job->copy_op->src->storage == first->copy_op->src->storage &&
	       job->copy_op->options.io_mode == first->copy_op->options.io_mode;
}

/* The end of the last copy that can be read together with first; and how many
 * there are. */
static uint64_t find_company(const struct job *first, uint32_t *ret_count)
{
	uint64_t begin = begin_of(first->copy_op), end = begin;
	const struct job *job = first;

	*ret_count = 0;
	for (; may_join(job, first); job = job->next) {
		uint64_t at = begin_of(job->copy_op);
		uint64_t stop = at + job->copy_op->info.bytes;

		if (at < end || at - end > GAP || stop - begin > GATHER)
			break;
		end = stop;
		++*ret_count;
	}
	return end;
}

/* Lays begin .. end of the file into the buffer, as far into a page there as in
 * the file: so they can be read directly. */
static int new_reader(
	tarn_stream *s, struct gather *g, const struct job *first, uint64_t end)
{
	const struct copy_op *m = first->copy_op;
	const struct tarn_copy_options o = {.io_mode = m->options.io_mode};
	uint64_t at = storage_file(m->src->storage)->offset + g->begin;
	const int64_t size = (int64_t)(end - g->begin);
	_cleanup_storage_ tarn_storage *memory = NULL;
	_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
	struct tarn_layout l;
	int r;

	if (!g->buffer)
		g->buffer = io_pages_map(BUFFER);
	if (!g->buffer)
		return -ENOMEM;
	g->data = g->buffer + at % PAGE;
	r = tarn_layout_contiguous(TARN_U8, 1, &size, &l);
	if (r >= 0)
		r = tarn_storage_borrow(g->data, (uint64_t)size,
			TARN_BORROW_WRITABLE, NULL, NULL, &memory);
	if (r >= 0)
		r = tarn_tensor_new(memory, 0, &l, &dst);
	if (r >= 0)
		r = tarn_tensor_new(m->src->storage, g->begin, &l, &src);
	if (r >= 0)
		r = copy_op_new(&s->env, dst, src, &o, &g->reader);
	return r;
}

static struct gather *free_gather(tarn_stream *s)
{
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (!s->gathers[i].reader)
			return &s->gathers[i];
	return NULL;
}

struct gather *stream_gather(tarn_stream *s)
{
	struct job *first = s->waiting.head;
	struct gather *g = free_gather(s);
	uint32_t count;
	uint64_t end;

	if (!g || !may_join(first, first))
		return NULL;
	end = find_company(first, &count);
	g->begin = begin_of(first->copy_op);
	/* If that is not possible, they are read alone. */
	if (count < 2 || end - g->begin < GATHER_LEAST ||
		new_reader(s, g, first, end) < 0)
		return NULL;
	while (count-- > 0) {
		struct job *job = s->waiting.head;

		stream_start(s, job);
		job_list_remove(job);
		job_list_add(&g->members, job);
	}
	return g;
}

static void deliver(const struct gather *g, struct copy_op *m, bool first)
{
	const struct tarn_copy_info *all = &g->reader->info;

	memcpy(place_for(m), g->data + (begin_of(m) - g->begin), m->info.bytes);
	m->done = m->info.read = m->info.bytes;
	m->info.cached = all->cached > all->read / 2 ? m->info.bytes : 0;
	m->info.direct = all->direct > all->read / 2 ? m->info.bytes : 0;
	m->info.requests = first ? all->requests : 0;
	m->ended = true;
}

void stream_gather_done(tarn_stream *s, struct gather *g, bool again)
{
	int error = copy_op_result(g->reader);
	bool first = true;
	struct job *job;

	/* Copies that now run alone keep their places before all others. */
	while (error && again && (job = g->members.tail)) {
		job->alone = true;
		job_list_remove(job);
		job_list_add_first(&s->waiting, job);
	}
	while ((job = g->members.head)) {
		if (error)
			copy_op_failed(job->copy_op, error);
		else
			deliver(g, job->copy_op, first);
		first = false;
		stream_finish(s, job);
	}
	if (copy_op_finished(g->reader))
		copy_op_free(g->reader);
	g->reader = NULL;
}

void stream_gather_free(tarn_stream *s)
{
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			copy_op_cancel(s->gathers[i].reader);
	if (!s->lost && copy_env_drain(&s->env) < 0)
		s->lost = true;
	for (int i = 0; i < STREAM_GATHERS && !s->lost; i++) {
		copy_op_free(s->gathers[i].reader);
		io_pages_unmap(s->gathers[i].buffer, BUFFER);
	}
}
