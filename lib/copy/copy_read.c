/* SPDX-License-Identifier: MIT */
/*
 * From a file to memory. The plan (read_plan.h) divides the view into parts;
 * here each part becomes requests: straight to its destination where the bytes
 * lie there as they do in the file, otherwise to a buffer, from which they are
 * moved when all of the part has arrived. The I/O mode (lib/io/io_mode.h) is
 * chosen for each request anew.
 *
 * Direct reads need an aligned destination. A straight run that has one is read
 * straight to it, except its unaligned ends, less than a block each; they, and
 * runs without an aligned destination, go through a buffer, which costs a pass
 * over memory that is in the cache. (Through the page cache an end would cost
 * its readahead.)
 */
#include "lib/copy/copy_read.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

enum {
	/* Below this a direct read saves nothing: the page cache reads ahead,
	 * and the kernel copies it as quickly as it would pin its pages. */
	DIRECT_LEAST = 64 << 10,
	CHUNKS = TARN_IO_DEPTH,
};

/*
 * The cost of another request, in bytes, by where the first byte is. A local
 * disk that reads 2 GiB/s answers 60,000 small requests in a second; from the
 * page cache it is at most one system call against 10 GiB/s. A straight run
 * costs unaligned ends, a window a pass over memory.
 */
static const struct read_price prices[] = {
	[IO_KIND_BUFFERED] = {.gap = 32 << 10, .straight = 16 << 10},
	[IO_KIND_CACHED] = {.gap = 4 << 10, .straight = 4 << 10},
	[IO_KIND_DIRECT] = {.gap = 32 << 10, .straight = DIRECT_LEAST},
};

/* A round trip to another machine costs more. */
static const struct read_price remote_price = {
	.gap = 128 << 10, .straight = 16 << 10};

void copy_read_failed(struct copy_read *c, uint64_t at, int error)
{
	/* Of two failures the one at the lower offset is the cause: past the
	 * end of a file all requests fail, and the first one shows where it
	 * ended. */
	if (c->head.error && c->error_at <= at)
		return;
	c->head.error = 0;
	c->error_at = at;
	copy_op_failed(&c->head, error);
}

/* ---- beginning ------------------------------------------------------- */

/* 1; 0: not now, there is no slot for the file; -errno. */
static int open_io_mode(struct copy_read *c, uint64_t begin, uint64_t end)
{
	struct file_slots *files = c->head.env->files;
	tarn_storage *storage = c->head.src->storage;
	enum tarn_io_mode wish = c->head.options.io_mode;
	bool small = end - begin < DIRECT_LEAST && wish != TARN_IO_DIRECT;
	enum io_fs fs = IO_FS_LOCAL;
	int direct = -1, r;

	/* Small reads do not go directly: then there is no alignment to ask
	 * for, and no second descriptor to open. */
	if (!small)
		fs = io_fs_of(c->file->fd);
	if (wish == TARN_IO_DIRECT ||
		(wish == TARN_IO_AUTO && !small && fs == IO_FS_LOCAL))
		direct = storage_file_direct(storage);
	r = io_mode_init(&c->io_mode, c->file->fd, direct, wish, fs);
	c->io_mode.end = end;
	c->align = c->io_mode.align;
	c->block = MAX(MAX(c->align.offset, c->align.memory), 1);
	if (r < 0)
		return r;
	return file_slots_take(files, storage, c->file->fd,
		c->align.offset ? direct : -1, &c->slot);
}

/* On the first pump: copy operations that wait for the first pump take nothing
 * shared. As open_io_mode. */
static int begin(struct copy_read *c)
{
	struct copy_op *m = &c->head;
	uint64_t file = c->file->offset + m->src->base;
	uint64_t from, end, upto;
	struct read_price price;
	struct nest nest;
	enum io_kind kind;
	int r;

	nest_plan(&nest, &m->dst->layout, &m->from, m->options.channel_dim,
		NEST_BY_SRC);
	read_plan_span(&nest, file, &from, &end);
	r = open_io_mode(c, from, end);
	if (r <= 0)
		return r;
	kind = io_mode_at(
		&c->io_mode, from, MIN(end, from + TARN_IO_REQUEST), &upto);
	price = c->io_mode.fs == IO_FS_REMOTE ? remote_price : prices[kind];
	price.window = BOUNCE_SIZE;
	price.align = c->block;
	read_plan(&c->plan, &nest, m->move.convert.plain, file, &price);
	c->begun = true;
	return 1;
}

/* ---- parts ----------------------------------------------------------- */

static char *dst_origin(const struct copy_read *c)
{
	return tarn_tensor_origin(c->head.dst);
}

/* Takes a buffer for the part, and a record. 1, 0: none is free, or an
 * error. */
static int take_batch(struct copy_read *c, const struct read_part *part)
{
	struct read_batch *b = c->batches;
	int r;

	if (!b) {
		b = malloc(sizeof(*b));
		if (!b)
			return tarn_fail(ENOMEM, "copy: out of memory");
		b->next = NULL;
		c->batches = b;
	}
	r = bounce_take(c->head.env->bounce, &b->buffer);
	if (r <= 0)
		return r;
	c->batches = b->next;
	b->part = *part;
	b->range = b->done = 0;
	b->more = true;
	b->in_flight = 0;
	c->batch = b;
	return 1;
}

/* Reads the rest of a straight part before end, as far as a buffer can hold it,
 * through a buffer: as a part of its own. */
static int take_detour(struct copy_read *c, uint64_t end)
{
	uint64_t stop = round_down_u64(c->pos, TARN_IO_REQUEST) + BOUNCE_SIZE;
	struct read_part part = c->part;
	int r;

	part.begin = c->pos;
	part.size = part.bytes = MIN(end, stop) - c->pos;
	part.dst += (int64_t)(c->pos - c->part.begin);
	part.lead = c->pos % c->block;
	r = take_batch(c, &part);
	if (r > 0)
		c->pos += part.size;
	return r;
}

/* The end of a chunk of at most that many bytes: at a multiple of them in the
 * file. */
static uint64_t chunk_end(
	const struct copy_read *c, uint64_t end, uint64_t most)
{
	uint64_t stop = round_down_u64(c->pos, most);

	return MIN(end - stop, most) + stop;
}

/* The next chunk of a straight part. 1: it is filled in, or goes through a
 * buffer, which was taken; 0: it must wait for one; or an error. */
static int next_straight(struct copy_read *c, struct read_chunk *p)
{
	const struct tarn_direct *align = &c->align;
	uint64_t end = c->part.begin + c->part.size, first, last;
	uint64_t stop = chunk_end(c, end, TARN_IO_STRAIGHT);

	p->batch = NULL;
	p->place = (uintptr_t)dst_origin(c) + (uintptr_t)c->part.dst -
		   c->part.begin;
	p->pos = c->pos;
	p->kind = io_mode_at(&c->io_mode, c->pos, stop, &stop);
	if (p->kind != IO_KIND_DIRECT) {
		stop = MIN(stop, chunk_end(c, end, TARN_IO_REQUEST));
	} else {
		last = round_down_u64(stop, align->offset);
		if (round_up_u64(c->pos, align->offset, &first) ||
			first >= last ||
			(p->place + first) & (align->memory - 1))
			return take_detour(c, end);
		if (first > c->pos)
			return take_detour(c, first);
		stop = last;
	}
	p->need = p->end = c->pos = stop;
	return 1;
}

static bool next_part(struct copy_read *c)
{
	if (c->has_part)
		return true;
	c->has_part = read_plan_next(&c->plan, &c->part);
	c->pos = c->part.begin;
	return c->has_part;
}

/* 1: chunk can be begun; 0: it waits for a buffer, or there is no more; or an
 * error. */
static int next_chunk(struct copy_read *c, struct read_chunk *chunk)
{
	int r;

	if (!c->batch && !next_part(c)) {
		c->head.ended = true;
		return 0;
	}
	if (!c->batch) {
		r = c->part.straight ? next_straight(c, chunk)
				     : take_batch(c, &c->part);
		if (r <= 0)
			return r;
		c->has_part = c->part.straight &&
			      c->pos < c->part.begin + c->part.size;
	}
	if (c->batch)
		read_batch_next(c, chunk);
	return 1;
}

bool copy_read_all_begun(const struct copy_read *c)
{
	return !c->has_part && !c->batch && c->plan.ended;
}

static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_read *c = (struct copy_read *)copy_op;
	unsigned begun = 0;
	int r = c->begun ? 1 : begin(c);

	if (r < 0)
		copy_op_failed(copy_op, r);
	if (r <= 0)
		return 0;
	while (!copy_op->ended && copy_op->in_flight < limit &&
		c->free_chunks &&
		tarn_io_pending(copy_op->env->io) < TARN_IO_DEPTH) {
		unsigned i = (unsigned)__builtin_ctz(c->free_chunks);

		r = next_chunk(c, &c->chunks[i]);
		if (r < 0)
			copy_op_failed(copy_op, r);
		if (r <= 0)
			break;
		c->free_chunks ^= 1u << i;
		c->chunks[i].retries = 0;
		read_chunk_queue(&c->chunks[i]);
		begun++;
		if (copy_read_all_begun(c))
			copy_op->ended = true;
	}
	return begun;
}

/* ---- life ------------------------------------------------------------ */

static void release(struct copy_op *copy_op)
{
	struct copy_read *c = (struct copy_read *)copy_op;
	struct read_batch *b;

	file_slots_drop(copy_op->env->files, &c->slot);
	while ((b = c->batches)) {
		c->batches = b->next;
		free(b);
	}
}

static void read_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops read_ops = {
	.pump = pump,
	.release = release,
	.free = read_free,
};

/* A single run needs as many requests as its length requires. */
static unsigned chunks_for(const struct copy_op *head)
{
	const struct nest *nest = &head->move.nest;
	uint64_t n = CHUNKS;

	if (head->move.convert.plain && nest->n <= 1 &&
		(nest->n == 0 || (nest->src[0] == 1 && nest->dst[0] == 1)))
		n = head->info.bytes / TARN_IO_REQUEST + 4;
	return (unsigned)MIN(n, (uint64_t)CHUNKS);
}

int copy_read_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	unsigned n = chunks_for(head);
	struct copy_read *c = malloc(sizeof(*c) + n * sizeof(c->chunks[0]));

	if (!c)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(&c->head, env, head, &read_ops);
	c->file = storage_file(head->src->storage);
	c->slot = FILE_SLOT_NONE;
	c->begun = c->has_part = false;
	c->batch = c->batches = NULL;
	c->move = head->move;
	c->error_at = 0;
	c->free_chunks = n == 32 ? UINT32_MAX : (1u << n) - 1;
	for (unsigned i = 0; i < n; i++)
		c->chunks[i].copy = c;
	*ret = &c->head;
	return 0;
}
