// SPDX-License-Identifier: MIT
/*
 * Cuts the elements to be written into chunks, in the order of the file.
 *
 * Positions are bytes of a run; elements are counted over all runs, without the
 * gaps, which is also how a window holds them. A direct chunk begins and ends
 * at the granule, wherever elements begin and end: its window then holds every
 * element of which it contains a part, and begins a little before an aligned
 * address.
 */
#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/copy/copy_write.h"

/* Shorter lines of adjacent memory are packed together with the next ones
 * rather than written separately. */
enum { LINE_MIN = 64 << 10 };

/* Where the run's bytes begin in the file. */
static uint64_t run_at(const struct copy_write *w)
{
	/* For a sub-byte dtype, write_plan has made sure of whole bytes. */
	return w->origin + (uint64_t)(w->run_dst * w->bits / 8);
}

static int64_t floor_element(const struct copy_write *w, uint64_t byte)
{
	int64_t pack = tarn_dtype_pack(w->pack.move.nest.dst_dtype);
	int64_t n = (int64_t)(byte * 8) / w->bits;

	return n - n % pack;
}

static int64_t ceil_element(const struct copy_write *w, uint64_t byte)
{
	int64_t pack = tarn_dtype_pack(w->pack.move.nest.dst_dtype);
	int64_t n = ((int64_t)(byte * 8) + w->bits - 1) / w->bits;

	return (n + pack - 1) / pack * pack;
}

static uint64_t bytes_of(const struct copy_write *w, int64_t elements)
{
	return (uint64_t)(elements * w->bits / 8);
}

int write_plan(struct copy_write *w)
{
	const struct copy_op *m = &w->head;
	const struct move *move = &m->move;
	struct nest nest;
	bool whole;

	nest_plan(&nest, &m->dst->layout, &m->from, m->options.channel_dim,
		NEST_BY_DST);
	pack_plan(&w->pack, &nest, &move->convert);
	w->bits = tarn_dtype_bits(nest.dst_dtype);
	w->run_dst = nest.dst0;
	w->run = 1;
	w->outer = nest.n;
	while (w->outer > 0 && nest.dst[w->outer - 1] == w->run)
		w->run *= nest.extent[--w->outer];
	w->run_bytes = bytes_of(w, w->run);
	w->line = 0;
	if (move->convert.plain)
		w->line = 1;
	if (w->line && w->outer < nest.n && nest.src[nest.n - 1] == 1)
		w->line = nest.extent[nest.n - 1];
	if (w->line * w->bits % 8 != 0)
		w->line = 0;
	memcpy(w->dst, nest.dst, sizeof(w->dst));
	whole = w->run * w->bits % 8 == 0 && nest.dst0 * w->bits % 8 == 0;
	for (int i = 0; i < w->outer; i++)
		whole &= nest.dst[i] * w->bits % 8 == 0;
	if (!whole)
		return tarn_fail(ENOTSUP,
			"copy: dst has elements of %d bits that share bytes of "
			"the file with elements outside dst; only whole bytes "
			"are written",
			w->bits);
	return 0;
}

static void next_run(struct copy_write *w)
{
	const struct nest *nest = &w->pack.move.nest;
	int i = w->outer - 1;

	w->run_first += w->run;
	w->next = 0;
	for (; i >= 0 && ++w->index[i] == nest->extent[i]; i--) {
		w->run_dst -= w->dst[i] * (nest->extent[i] - 1);
		w->index[i] = 0;
	}
	if (i >= 0)
		w->run_dst += w->dst[i];
}

/* How far a chunk that begins at pos may extend, as bytes of the file, and its
 * I/O mode. limit: how far others of its kind may follow it. */
static uint64_t reach(const struct copy_write *w, uint64_t pos,
	bool *ret_direct, uint64_t *ret_limit)
{
	uint64_t at = run_at(w), end = at + w->run_bytes;
	uint64_t stop =
		round_down_u64(pos, STRAIGHT_REQUEST) + STRAIGHT_REQUEST;
	uint64_t from, to = round_down_u64(end, w->granule);

	*ret_direct = false;
	*ret_limit = end;
	if (w->direct && !round_up_u64(at, w->granule, &from) && from < to) {
		*ret_direct = pos >= from && pos < to;
		*ret_limit = pos < from ? from : pos < to ? to : end;
	}
	return MIN(stop, *ret_limit);
}

/* A chunk that has the file's form in memory, up to *stop, which may be moved
 * closer. */
static const char *straight(
	const struct copy_write *w, const struct write_chunk *p, uint64_t *stop)
{
	uint64_t at = run_at(w), line_end;
	int64_t e, bit;
	const char *addr;

	if (w->line == 0)
		return NULL;
	e = floor_element(w, p->pos - at);
	e -= e % w->line;
	line_end = at + bytes_of(w, e + w->line);
	if (line_end < *stop && p->direct)
		line_end = round_down_u64(line_end, w->granule);
	if (line_end < *stop && line_end < p->pos + LINE_MIN)
		return NULL;
	bit = pack_source(&w->pack, w->run_first + e) * w->bits;
	addr = w->src + bit / 8 + (p->pos - at - bytes_of(w, e));
	if (bit % 8 != 0 ||
		(p->direct && (uintptr_t)addr % w->memory_align != 0))
		return NULL;
	*stop = MIN(*stop, line_end);
	return addr;
}

void write_leave_window(struct copy_write *w, struct window *window)
{
	if (--window->users > 0 || window == w->current)
		return;
	bounce_give(w->head.env->bounce, &window->buffer);
	w->free_windows |= UINT64_C(1) << (window - w->windows);
}

void write_close_window(struct copy_write *w)
{
	struct window *window = w->current;

	if (!window)
		return;
	w->current = NULL;
	window->users++;
	write_leave_window(w, window);
}

/* The elements of a window that begins at first, for this chunk and, where they
 * will surely be cut from it, those that follow. */
static int64_t window_end(const struct copy_write *w,
	const struct write_chunk *p, uint64_t stop, uint64_t limit,
	uint64_t room, int64_t first)
{
	uint64_t at = run_at(w);

	if (w->line * w->bits / 8 >= LINE_MIN)
		limit = stop;
	if (!w->direct && limit != stop)
		return MIN(first + floor_element(w, room), w->pack.count);
	if (limit > p->pos + room)
		limit = MAX(stop, round_down_u64(p->pos + room, WRITE_REQUEST));
	return w->run_first + ceil_element(w, limit - at);
}

static int open_window(struct copy_write *w, const struct write_chunk *p,
	uint64_t stop, uint64_t limit)
{
	struct window *window = &w->windows[__builtin_ctzll(w->free_windows)];
	uint64_t inside = p->pos - run_at(w), before, room = BOUNCE_SIZE;
	int64_t first = floor_element(w, inside);
	int r = bounce_take(w->head.env->bounce, &window->buffer);

	if (r <= 0)
		return r;
	/* Of the first element the chunk contains only the end. */
	before = inside - bytes_of(w, first);
	if (before)
		before = BOUNCE_ALIGN - before;
	/* The last element, too, may extend beyond the chunk. */
	if (before || tarn_dtype_pack(w->pack.move.nest.dst_dtype) > 1)
		room -= 2 * BOUNCE_ALIGN;
	window->addr = window->buffer.addr + before;
	window->first = w->run_first + first;
	window->end = window_end(w, p, stop, limit, room, window->first);
	assert(before + bytes_of(w, window->end - window->first) <=
		BOUNCE_SIZE);
	window->users = 0;
	w->free_windows ^= UINT64_C(1) << (window - w->windows);
	w->current = window;
	pack_run(&w->pack, window->first, window->end - window->first,
		window->addr, w->src);
	return 1;
}

/* Can the chunk be cut from the current window, up to *stop, which may be moved
 * closer where a chunk may end anywhere? */
static bool in_window(
	const struct copy_write *w, const struct write_chunk *p, uint64_t *stop)
{
	uint64_t at = run_at(w), end;

	if (!w->current ||
		w->run_first + floor_element(w, p->pos - at) >= w->current->end)
		return false;
	end = at + bytes_of(w, w->current->end - w->run_first);
	if (w->direct && end < *stop)
		return false;
	*stop = MIN(*stop, end);
	return true;
}

int write_cut(struct copy_write *w, struct write_chunk *p)
{
	uint64_t at = run_at(w), stop, limit;
	int r;

	p->pos = at + w->next;
	stop = reach(w, p->pos, &p->direct, &limit);
	p->window = NULL;
	p->addr = straight(w, p, &stop);
	if (!p->addr) {
		stop = MIN(stop,
			round_down_u64(p->pos, WRITE_REQUEST) + WRITE_REQUEST);
		if (!in_window(w, p, &stop)) {
			write_close_window(w);
			r = open_window(w, p, stop, limit);
			if (r <= 0)
				return r;
			in_window(w, p, &stop);
		}
		p->window = w->current;
		p->window->users++;
		p->addr = p->window->addr + (p->pos - at) +
			  bytes_of(w, w->run_first - p->window->first);
	}
	p->end = stop;
	assert(p->pos < stop && stop <= at + w->run_bytes);
	w->next = stop - at;
	if (w->next == w->run_bytes)
		next_run(w);
	if (write_all_cut(w))
		write_close_window(w);
	return 1;
}
