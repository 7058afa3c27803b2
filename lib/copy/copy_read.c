/* SPDX-License-Identifier: MIT */
/*
 * From a file to memory. The plan (read_plan.h) says what belongs together;
 * here each part of it becomes requests: straight to its place where the bytes
 * lie there as they do in the file, else to a buffer, from which they are moved
 * when all of the part has come. The road (lib/io/road.h) is asked for each
 * request anew.
 *
 * Direct reads want aligned places. A straight run that has one is read
 * straight to it but for its ragged ends, less than a block each; they, and a
 * run that has none, go through a buffer, which costs a pass over memory that
 * is in the cache. (Through the page cache an end would cost its readahead.)
 */
#include "lib/copy/copy_read.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

enum {
	/* Below this a direct read saves nothing: the page cache reads ahead,
	 * and the kernel copies it as quickly as it would pin its pages. */
	DIRECT_LEAST = 64 << 10,
	PIECES = TARN_IO_DEPTH,
};

/*
 * What another request costs, in bytes, by where the first byte is. A local
 * disk that reads 2 GiB/s answers 60,000 small requests in a second; out of
 * the page cache it is a system call at most against 10 GiB/s. Straight costs
 * ragged ends, a window a pass over memory.
 */
static const struct read_price prices[] = {
	[ROAD_BUFFERED] = {.gap = 32 << 10, .straight = 16 << 10},
	[ROAD_CACHED] = {.gap = 4 << 10, .straight = 4 << 10},
	[ROAD_DIRECT] = {.gap = 32 << 10, .straight = DIRECT_LEAST},
};

/* A round trip to another machine is worth more. */
static const struct read_price remote_price = {
	.gap = 128 << 10, .straight = 16 << 10};

void copy_read_failed(struct copy_read *c, uint64_t at, int error)
{
	/* Of two failures the one at the lower offset is the cause: past the
	 * end of a file all requests fail, the first says where it ended. */
	if (c->head.error && c->error_at <= at)
		return;
	c->head.error = 0;
	c->error_at = at;
	mover_failed(&c->head, error);
}

/* ---- beginning ------------------------------------------------------- */

/* 1; 0: not now, there is no slot for the file; -errno. */
static int open_road(struct copy_read *c, uint64_t begin, uint64_t end)
{
	struct file_slots *files = c->head.env->files;
	tarn_storage *storage = c->head.src->storage;
	enum tarn_road wish = c->head.options.road;
	bool small = end - begin < DIRECT_LEAST && wish != TARN_ROAD_DIRECT;
	enum road_fs fs = ROAD_FS_LOCAL;
	int direct = -1, r;

	/* What is small is not read directly: then there is nothing to ask;
	 * nor to open, where it would not be used. */
	if (!small)
		fs = road_file_system(c->file->fd);
	if (wish == TARN_ROAD_DIRECT ||
		(wish == TARN_ROAD_AUTO && !small && fs == ROAD_FS_LOCAL))
		direct = storage_file_direct(storage);
	r = road_init(&c->road, c->file->fd, direct, wish, fs);
	c->road.end = end;
	c->align = c->road.align;
	c->block = MAX(MAX(c->align.offset, c->align.memory), 1);
	if (r < 0)
		return r;
	return file_slots_take(files, storage, c->file->fd,
		c->align.offset ? direct : -1, &c->slot);
}

/* On the first pump: nothing shared is taken by those who wait for it. As
 * open_road. */
static int begin(struct copy_read *c)
{
	struct mover *m = &c->head;
	uint64_t file = c->file->offset + m->src->base;
	uint64_t from, end, upto;
	struct read_price price;
	struct nest nest;
	enum road_way way;
	int r;

	nest_plan(&nest, &m->dst->layout, &m->from, m->options.channel_dim,
		NEST_BY_SRC);
	read_plan_span(&nest, file, &from, &end);
	r = open_road(c, from, end);
	if (r <= 0)
		return r;
	way = road_at(&c->road, from, MIN(end, from + TARN_IO_REQUEST), &upto);
	price = c->road.fs == ROAD_FS_REMOTE ? remote_price : prices[way];
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

/* A buffer for the part, and the record of it. 1, 0: none is free, or an
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

/* Of a straight part what is left before end, as far as a buffer holds it,
 * goes through one: a part of its own. */
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

/* Where a piece of at most so many bytes ends: at a multiple of them in the
 * file. */
static uint64_t piece_end(
	const struct copy_read *c, uint64_t end, uint64_t most)
{
	uint64_t stop = round_down_u64(c->pos, most);

	return MIN(end - stop, most) + stop;
}

/* The next piece of a straight part. 1: it is filled in, or goes through a
 * buffer, which was taken; 0: which is to be waited for; or an error. */
static int next_straight(struct copy_read *c, struct read_piece *p)
{
	const struct tarn_direct *align = &c->align;
	uint64_t end = c->part.begin + c->part.size, first, last;
	uint64_t stop = piece_end(c, end, TARN_IO_STRAIGHT);

	p->batch = NULL;
	p->place = (uintptr_t)dst_origin(c) + (uintptr_t)c->part.dst -
		   c->part.begin;
	p->pos = c->pos;
	p->way = road_at(&c->road, c->pos, stop, &stop);
	if (p->way != ROAD_DIRECT) {
		stop = MIN(stop, piece_end(c, end, TARN_IO_REQUEST));
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

/* 1: piece is to be begun; 0: it waits for a buffer, or there is no more; or
 * an error. */
static int next_piece(struct copy_read *c, struct read_piece *piece)
{
	int r;

	if (!c->batch && !next_part(c)) {
		c->head.ended = true;
		return 0;
	}
	if (!c->batch) {
		r = c->part.straight ? next_straight(c, piece)
				     : take_batch(c, &c->part);
		if (r <= 0)
			return r;
		c->has_part = c->part.straight &&
			      c->pos < c->part.begin + c->part.size;
	}
	if (c->batch)
		read_batch_next(c, piece);
	return 1;
}

bool copy_read_all_begun(const struct copy_read *c)
{
	return !c->has_part && !c->batch && c->plan.ended;
}

static unsigned pump(struct mover *mover, unsigned limit)
{
	struct copy_read *c = (struct copy_read *)mover;
	unsigned begun = 0;
	int r = c->begun ? 1 : begin(c);

	if (r < 0)
		mover_failed(mover, r);
	if (r <= 0)
		return 0;
	while (!mover->ended && mover->in_flight < limit && c->free_pieces &&
		tarn_io_pending(mover->env->io) < TARN_IO_DEPTH) {
		unsigned i = (unsigned)__builtin_ctz(c->free_pieces);

		r = next_piece(c, &c->pieces[i]);
		if (r < 0)
			mover_failed(mover, r);
		if (r <= 0)
			break;
		c->free_pieces ^= 1u << i;
		c->pieces[i].retries = 0;
		read_piece_queue(&c->pieces[i]);
		begun++;
		if (copy_read_all_begun(c))
			mover->ended = true;
	}
	return begun;
}

/* ---- life ------------------------------------------------------------ */

static void let_go(struct mover *mover)
{
	struct copy_read *c = (struct copy_read *)mover;
	struct read_batch *b;

	file_slots_drop(mover->env->files, &c->slot);
	while ((b = c->batches)) {
		c->batches = b->next;
		free(b);
	}
}

static void read_free(struct mover *mover)
{
	mover_drop(mover);
	free(mover);
}

static const struct mover_ops read_ops = {
	.pump = pump,
	.let_go = let_go,
	.free = read_free,
};

/* One run needs as many requests as it is long. */
static unsigned pieces_for(const struct mover *head)
{
	const struct nest *nest = &head->move.nest;
	uint64_t n = PIECES;

	if (head->move.convert.plain && nest->n <= 1 &&
		(nest->n == 0 || (nest->src[0] == 1 && nest->dst[0] == 1)))
		n = head->info.bytes / TARN_IO_REQUEST + 4;
	return (unsigned)MIN(n, (uint64_t)PIECES);
}

int copy_read_new(
	struct mover_env *env, const struct mover *head, struct mover **ret)
{
	unsigned n = pieces_for(head);
	struct copy_read *c = malloc(sizeof(*c) + n * sizeof(c->pieces[0]));

	if (!c)
		return tarn_fail(ENOMEM, "copy: out of memory");
	mover_begin(&c->head, env, head, &read_ops);
	c->file = storage_file(head->src->storage);
	c->slot = FILE_SLOT_NONE;
	c->begun = c->has_part = false;
	c->batch = c->batches = NULL;
	c->move = head->move;
	c->error_at = 0;
	c->free_pieces = n == 32 ? UINT32_MAX : (1u << n) - 1;
	for (unsigned i = 0; i < n; i++)
		c->pieces[i].copy = c;
	*ret = &c->head;
	return 0;
}
