/* SPDX-License-Identifier: MIT */
/*
 * Reads a byte range of a file to its destination in a pool.
 *
 * All positions are file offsets; memory follows from them by one addition,
 * since the target is congruent. Chunks of at most 1 MiB are cut from front to
 * back; each stays in a request slot until all of it is there, and the slot is
 * then used for the next chunk.
 */
#include "lib/io/fill.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/fill_internal.h"

/* EAGAIN and EINTR in a row before the error counts as permanent. */
enum { RETRIES = 64 };

/* Completions awaited at once when there is nothing else to do. A quarter of
 * the depth: one system call then refills it while the rest keeps the disk
 * busy. Waiting for each singly costs a fifth more CPU; waiting for a half is
 * no cheaper. */
enum { BATCH = TARN_IO_DEPTH / 4 };

/* The segment with this pool offset; they are ascending. */
static const struct tarn_fill_segment *find_segment(
	const struct tarn_fill *f, uint64_t pool)
{
	size_t lo = 0, hi = f->n_segments;

	while (hi - lo > 1) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->segments[mid].pool_offset <= pool)
			lo = mid;
		else
			hi = mid;
	}
	return &f->segments[lo];
}

/*
 * Of two failures the one at the lower offset is the cause: past the end of a
 * file every request fails, and only the first shows where it ended.
 */
static void fail_at(struct tarn_fill *f, uint64_t at, int r)
{
	if (f->error && f->error_at <= at)
		return;
	f->error = r;
	f->error_at = at;
	snprintf(f->error_text, sizeof(f->error_text), "%s",
		tarn_fail_message());
}

static void fail_early_end(struct tarn_fill *f, uint64_t at)
{
	fail_at(f, at,
		tarn_fail(ENODATA,
			"the file ended at byte %llu, %llu bytes were promised",
			(unsigned long long)at, (unsigned long long)f->end));
}

static void fail_read(struct tarn_fill *f, uint64_t at, int r)
{
	fail_at(f, at,
		tarn_fail(-r, "reading at byte %llu of the file: %s",
			(unsigned long long)at, tarn_errno_text(r)));
}

/* Does a failure make further reads at this offset pointless? */
static bool hopeless(const struct tarn_fill *f, uint64_t at)
{
	return f->cancelled || (f->error && f->error_at <= at);
}

static void chunk_done(struct tarn_io_request *req);

/* Queues the rest of the chunk; there is always room for it. */
static int issue(struct fill_chunk *p)
{
	struct tarn_fill *f = p->fill;
	uint64_t from = p->pos, to = p->end, pool;
	const struct tarn_fill_segment *s;

	if (p->direct)
		from = round_down_u64(from, f->align);
	else
		to = p->need;
	pool = from + f->to_pool;
	s = find_segment(f, pool);
	p->req.file = p->direct ? f->direct_file : f->buffered_file;
	p->req.buffer = s->buffer;
	p->req.offset = from;
	p->req.addr = (char *)s->addr + (pool - s->pool_offset);
	p->req.size = (uint32_t)(to - from);
	p->req.may_block = !p->direct || !f->prompt;
	p->req.done = chunk_done;
	return tarn_io_read(f->io, &p->req);
}

static void retire(struct fill_chunk *p)
{
	struct tarn_fill *f = p->fill;

	f->free_chunks |= 1u << (p - f->chunks);
	f->in_flight--;
}

static void reissue_or_retire(struct fill_chunk *p)
{
	if (hopeless(p->fill, p->pos) || issue(p) != 0)
		retire(p);
}

/* Counts the bytes of a read; true when the chunk is complete. */
static bool advance(struct fill_chunk *p, uint64_t reached)
{
	struct tarn_fill *f = p->fill;
	uint64_t upto = MIN(reached, p->need);

	if (upto > p->pos) {
		f->landed += upto - p->pos;
		p->pos = upto;
		p->retries = 0;
		return p->pos == p->need;
	}
	/* The read returned nothing, though it began before the end of the
	 * chunk. */
	fail_early_end(f, p->pos);
	return false;
}

static bool refuses_direct(const struct fill_chunk *p, int r)
{
	return p->direct && p->fill->buffered_file >= 0 &&
	       (r == -EINVAL || r == -EOPNOTSUPP);
}

static void chunk_done(struct tarn_io_request *req)
{
	struct fill_chunk *p = (struct fill_chunk *)req;
	struct tarn_fill *f = p->fill;
	int r = req->res;

	if (r >= 0) {
		if (advance(p, req->offset + (uint32_t)r))
			retire(p);
		else
			reissue_or_retire(p);
		return;
	}
	if (refuses_direct(p, r)) {
		f->direct = p->direct = false;
	} else if ((r != -EAGAIN && r != -EINTR) || ++p->retries > RETRIES) {
		fail_read(f, p->pos, r);
	}
	reissue_or_retire(p);
}

/* The end of the next chunk of at most that many bytes: at a multiple of them
 * in the file, which keeps requests on the boundaries of stripes and extents,
 * and not beyond the segment. */
static uint64_t chunk_end(const struct tarn_fill *f, uint64_t most)
{
	uint64_t pool = f->next + f->to_pool;
	const struct tarn_fill_segment *s = find_segment(f, pool);
	uint64_t stop = round_down_u64(f->next, most);
	uint64_t left = s->pool_offset + s->size - pool;

	stop = MIN(f->end - stop, most) + stop;
	return MIN(stop - f->next, left) + f->next;
}

/* Bytes in the page cache are copied from there, not read again. *stop may be
 * moved closer: as far as the state is known, in whole blocks. */
static bool choose_direct(struct tarn_fill *f, uint64_t *stop)
{
	if (!f->direct)
		return false;
	if (f->buffered_file < 0 ||
		io_mode_at(&f->io_mode, f->next, *stop, stop) == IO_KIND_DIRECT)
		return true;
	f->went_buffered = true;
	return false;
}

/* Cuts the next chunk. The I/O mode is chosen for all of it at once: blocks
 * would not end where the cached bytes do. */
static void cut(struct tarn_fill *f, struct fill_chunk *p)
{
	uint64_t stop = chunk_end(f, TARN_IO_STRAIGHT);

	p->direct = choose_direct(f, &stop);
	if (!p->direct)
		stop = MIN(stop, chunk_end(f, TARN_IO_REQUEST));
	p->pos = f->next;
	p->need = p->end = stop;
	p->retries = 0;
	/* Only the last chunk ends off a block boundary. */
	if (p->direct && round_up_u64(stop, f->align, &p->end))
		p->direct = false;
	f->next = stop;
}

unsigned tarn_fill_pump(struct tarn_fill *f, unsigned limit)
{
	unsigned queued = 0;

	limit = MIN(limit, (unsigned)TARN_IO_DEPTH);
	while (f->in_flight < limit && f->next < f->end && !f->cancelled &&
		!f->error && tarn_io_pending(f->io) < TARN_IO_DEPTH) {
		unsigned i = (unsigned)__builtin_ctz(f->free_chunks);

		f->free_chunks ^= 1u << i;
		f->in_flight++;
		cut(f, &f->chunks[i]);
		reissue_or_retire(&f->chunks[i]);
		queued++;
	}
	return queued;
}

void tarn_fill_cancel(struct tarn_fill *f)
{
	f->cancelled = true;
}

bool tarn_fill_finished(const struct tarn_fill *f)
{
	return f->in_flight == 0 &&
	       (f->error || f->cancelled || f->next == f->end);
}

int tarn_fill_result(const struct tarn_fill *f)
{
	if (!tarn_fill_finished(f))
		return tarn_fail(EINPROGRESS,
			"%llu of %llu bytes have landed so far",
			(unsigned long long)f->landed,
			(unsigned long long)(f->end - f->begin));
	if (f->error)
		return tarn_fail_verbatim(-f->error, f->error_text);
	if (f->landed < f->end - f->begin)
		return tarn_fail(ECANCELED,
			"cancelled when %llu of %llu bytes had landed",
			(unsigned long long)f->landed,
			(unsigned long long)(f->end - f->begin));
	return 0;
}

int tarn_fill_run(struct tarn_fill *f)
{
	while (!tarn_fill_finished(f)) {
		int r;

		tarn_fill_pump(f, TARN_IO_DEPTH);
		r = tarn_io_submit_and_wait(
			f->io, MIN(f->in_flight, BATCH), -1);
		if (r < 0)
			return r;
	}
	return tarn_fill_result(f);
}

uint64_t tarn_fill_landed(const struct tarn_fill *f)
{
	return f->landed;
}

bool tarn_fill_direct(const struct tarn_fill *f)
{
	return f->direct && !f->went_buffered;
}

bool tarn_fill_registered(const struct tarn_fill *f)
{
	return f->registered;
}

struct tarn_fill *tarn_fill_free(struct tarn_fill *f)
{
	if (!f)
		return NULL;
	assert(f->in_flight == 0);
	tarn_io_drop_file(f->io, f->direct_file);
	tarn_io_drop_file(f->io, f->buffered_file);
	free(f);
	return NULL;
}
