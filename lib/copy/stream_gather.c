// SPDX-License-Identifier: MIT
/*
 * Small reads are gathered: copies that wait, one behind the other, for bytes
 * of one file that lie close together become one read into a buffer of the
 * stream's, from which each gets its own. A hundred thousand tensors of a
 * checkpoint cost a few hundred requests then, and not a hundred thousand.
 *
 * A gathering is a reader like any other, with the buffer as its dst, so that
 * the road is chosen, and short reads are continued, as for any other. Who is
 * called off in the meantime simply gets nothing out of the buffer. If it
 * fails, its members are read one by one, and each fails for itself.
 */
#include "lib/copy/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/pages.h"

enum {
	/* Above this a request of its own costs less than a pass over
	 * memory. */
	SMALL = 32 << 10,
	/* Of the file at once, and the least that is worth it. */
	GATHER = TARN_IO_REQUEST,
	GATHER_LEAST = 64 << 10,
	/* What lies between two of them is read and thrown away. */
	GAP = 4 << 10,
	PAGE = 4096,
	BUFFER = GATHER + 2 * PAGE,
};

static void light_free(struct mover *mover)
{
	mover_drop(mover);
	free(mover);
}

/* Never pumped: it is gathered, or becomes a reader (stream_alone). */
static const struct mover_ops light_ops = {
	.free = light_free,
};

static bool is_run(const struct nest *nest)
{
	return nest->n == 0 ||
	       (nest->n == 1 && nest->dst[0] == 1 && nest->src[0] == 1);
}

bool stream_is_small(const struct mover *head)
{
	return head->info.bytes > 0 && head->info.bytes <= SMALL &&
	       head->move.convert.plain && is_run(&head->move.nest) &&
	       tarn_dtype_bits(head->move.nest.src_dtype) % 8 == 0 &&
	       place_of(head->dst->storage) == PLACE_MEMORY &&
	       place_of(head->src->storage) == PLACE_FILE;
}

int stream_new_small(
	struct mover_env *env, const struct mover *head, struct mover **ret)
{
	struct mover *m = malloc(sizeof(*m));

	if (!m)
		return tarn_fail(ENOMEM, "copy: out of memory");
	mover_begin(m, env, head, &light_ops);
	*ret = m;
	return 0;
}

int stream_alone(struct job *job)
{
	struct mover *real;
	int r;

	if (job->mover->ops != &light_ops)
		return 0;
	r = mover_new_checked(job->mover->env, job->mover, &real);
	if (r < 0) {
		mover_failed(job->mover, r);
		return r;
	}
	mover_free(job->mover);
	job->mover = real;
	return 0;
}

/* Byte of the storage where a small one begins. */
static uint64_t begin_of(const struct mover *m)
{
	const struct nest *nest = &m->move.nest;

	return m->src->base +
	       (uint64_t)(nest->src0 * tarn_dtype_bits(nest->src_dtype) / 8);
}

static char *place_for(const struct mover *m)
{
	const struct nest *nest = &m->move.nest;

	return (char *)tarn_tensor_origin(m->dst) +
	       nest->dst0 * tarn_dtype_bits(nest->dst_dtype) / 8;
}

static bool may_join(const struct job *job, const struct job *first)
{
	return job && job->mover->ops == &light_ops && !job->alone &&
	       job->mover->src->storage == first->mover->src->storage &&
	       job->mover->options.road == first->mover->options.road;
}

/* Where the last of those ends that can be read with the first; how many. */
static uint64_t find_company(const struct job *first, uint32_t *ret_count)
{
	uint64_t begin = begin_of(first->mover), end = begin;
	const struct job *job = first;

	*ret_count = 0;
	for (; may_join(job, first); job = job->next) {
		uint64_t at = begin_of(job->mover);
		uint64_t stop = at + job->mover->info.bytes;

		if (at < end || at - end > GAP || stop - begin > GATHER)
			break;
		end = stop;
		++*ret_count;
	}
	return end;
}

/* The buffer's bytes for begin .. end of the file, at a place that is as far
 * into its page as they are into theirs: so they can be read directly. */
static int new_reader(
	tarn_stream *s, struct gather *g, const struct job *first, uint64_t end)
{
	const struct mover *m = first->mover;
	const struct tarn_copy_options o = {.road = m->options.road};
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
		r = tarn_storage_borrow(
			g->data, (uint64_t)size, true, NULL, NULL, &memory);
	if (r >= 0)
		r = tarn_tensor_new(memory, 0, &l, &dst);
	if (r >= 0)
		r = tarn_tensor_new(m->src->storage, g->begin, &l, &src);
	if (r >= 0)
		r = mover_new(&s->env, dst, src, &o, &g->reader);
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
	g->begin = begin_of(first->mover);
	/* Where it cannot be had, they go alone. */
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

static void deliver(const struct gather *g, struct mover *m, bool first)
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
	int error = mover_result(g->reader);
	bool first = true;
	struct job *job;

	/* Those who go alone now keep their places before all others. */
	while (error && again && (job = g->members.tail)) {
		job->alone = true;
		job_list_remove(job);
		job_list_add_first(&s->waiting, job);
	}
	while ((job = g->members.head)) {
		if (error)
			mover_failed(job->mover, error);
		else
			deliver(g, job->mover, first);
		first = false;
		stream_finish(s, job);
	}
	if (mover_finished(g->reader))
		mover_free(g->reader);
	g->reader = NULL;
}

void stream_gather_free(tarn_stream *s)
{
	for (int i = 0; i < STREAM_GATHERS; i++)
		if (s->gathers[i].reader)
			mover_cancel(s->gathers[i].reader);
	if (!s->lost && mover_env_settle(&s->env) < 0)
		s->lost = true;
	for (int i = 0; i < STREAM_GATHERS && !s->lost; i++) {
		mover_free(s->gathers[i].reader);
		io_pages_unmap(s->gathers[i].buffer, BUFFER);
	}
}
