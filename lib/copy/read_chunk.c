/* SPDX-License-Identifier: MIT */
/*
 * One request of a copy from a file: it is begun, continued after a short read,
 * tried again after an interruption, and when the last request for a buffer is
 * done the buffer is emptied.
 *
 * A batch that has something left to begin always has a request under way: a
 * request that ends begins the next. So a copy never waits for a buffer on
 * which no request is under way.
 */
#include "lib/copy/copy_read.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* EAGAIN and EINTR in a row before the error counts as permanent. */
enum { RETRIES = 64 };

static void fail_early_end(struct copy_read *c, uint64_t at, uint64_t need)
{
	char name[160];

	copy_read_failed(c, at,
		tarn_fail(ENODATA,
			"copy: %s ends at byte %llu, and bytes up to %llu are "
			"needed: it has shrunk since it was opened",
			storage_file_name(c->file, name, sizeof(name)),
			(unsigned long long)at, (unsigned long long)need));
}

static void fail_read(struct copy_read *c, const struct read_chunk *p, int r)
{
	char name[160];

	copy_read_failed(c, p->pos,
		tarn_fail(-r, "copy: reading %llu bytes at byte %llu of %s: %s",
			(unsigned long long)(p->need - p->pos),
			(unsigned long long)p->pos,
			storage_file_name(c->file, name, sizeof(name)),
			tarn_errno_text(r)));
}

/* Does a failure make further reads at this offset pointless? */
static bool hopeless(const struct copy_read *c, uint64_t at)
{
	return c->head.error && c->error_at <= at;
}

/* ---- batches --------------------------------------------------------- */

static void drop(struct copy_read *c, struct read_batch *b)
{
	bounce_give(c->head.env->bounce, &b->buffer);
	if (c->batch == b)
		c->batch = NULL;
	b->next = c->batches;
	c->batches = b;
}

static void empty_buffer(struct copy_read *c, const struct read_batch *b)
{
	char *dst = tarn_tensor_origin(c->head.dst);
	const char *from = b->buffer.addr + b->part.lead;

	if (b->part.straight) {
		memcpy(dst + b->part.dst, from, b->part.size);
	} else {
		c->move.nest = b->part.box;
		move_run(&c->move, dst, from);
	}
	c->head.done += b->part.bytes;
}

void read_batch_next(struct copy_read *c, struct read_chunk *p)
{
	struct read_batch *b = c->batch;
	uint64_t file, window, stop;

	if (b->part.straight) {
		file = b->part.begin;
		window = b->part.lead;
	} else {
		read_part_range(&b->part, b->range, &file, &window);
	}
	p->batch = b;
	p->place = (uintptr_t)b->buffer.addr + window - file;
	p->pos = file + b->done;
	stop = round_down_u64(p->pos, TARN_IO_REQUEST);
	stop = MIN(file + b->part.size - stop, TARN_IO_REQUEST) + stop;
	p->kind = io_mode_at(&c->io_mode, p->pos, stop, &stop);
	p->need = p->end = stop;
	/* Only a range can end off a block boundary. */
	if (p->kind == IO_KIND_DIRECT &&
		round_up_u64(stop, c->align.offset, &p->end))
		p->kind = IO_KIND_BUFFERED;
	b->done = stop - file;
	if (b->done == b->part.size) {
		b->done = 0;
		b->range++;
	}
	b->more = b->range < b->part.count;
	b->in_flight++;
	if (!b->more)
		c->batch = NULL;
}

/* ---- requests -------------------------------------------------------- */

static void chunk_done(struct tarn_io_request *req);

void read_chunk_queue(struct read_chunk *p)
{
	struct copy_read *c = p->copy;
	uint64_t from = p->pos, to = p->need;
	bool direct = p->kind == IO_KIND_DIRECT;
	int r;

	if (direct) {
		from = round_down_u64(from, c->align.offset);
		to = p->end;
	}
	p->req = (struct tarn_io_request) {
		.file = direct ? c->slot.direct : c->slot.buffered,
		.offset = from,
		.addr = (void *)(p->place + from),
		.size = (uint32_t)(to - from),
		.may_block = !direct && c->io_mode.fs == IO_FS_REMOTE,
		.done = chunk_done,
	};
	p->req.buffer = p->batch ? p->batch->buffer.slot
				 : regions_find(c->head.env->regions,
					   p->req.addr, p->req.size);
	c->head.info.requests++;
	copy_op_submitted(&c->head);
	r = tarn_io_read(c->head.env->io, &p->req);
	assert(r == 0); /* the pump has checked, and a completed request frees a
			 * slot */
	(void)r;
}

/* The chunk is complete, or given up. */
static void retire(struct read_chunk *p)
{
	struct copy_read *c = p->copy;
	struct read_batch *b = p->batch;

	if (b) {
		b->in_flight--;
		if (b->more && !c->head.error) {
			read_batch_next(c, p);
			p->retries = 0;
			read_chunk_queue(p);
			c->head.ended |= copy_read_all_begun(c);
			return;
		}
		if (b->in_flight == 0) {
			if (!c->head.error)
				empty_buffer(c, b);
			drop(c, b);
		}
	}
	c->free_chunks |= 1u << (p - c->chunks);
}

/* Counts the bytes of a read; true when the chunk is complete. */
static bool advance(struct read_chunk *p, uint64_t reached)
{
	struct copy_read *c = p->copy;
	uint64_t upto = MIN(reached, p->need);

	if (upto > p->pos) {
		if (!p->batch)
			c->head.done += upto - p->pos;
		p->pos = upto;
		p->retries = 0;
		return p->pos == p->need;
	}
	/* The read returned nothing, though it began before the end of the
	 * chunk. */
	fail_early_end(c, p->pos, p->need);
	return false;
}

static void count(struct read_chunk *p, uint32_t bytes)
{
	struct tarn_copy_info *info = &p->copy->head.info;

	info->read += bytes;
	if (p->kind == IO_KIND_DIRECT)
		info->direct += bytes;
	else if (p->kind == IO_KIND_CACHED)
		info->cached += bytes;
}

static bool refuses_direct(const struct read_chunk *p, int r)
{
	return p->kind == IO_KIND_DIRECT &&
	       p->copy->head.options.io_mode != TARN_IO_DIRECT &&
	       (r == -EINVAL || r == -EOPNOTSUPP);
}

static void chunk_done(struct tarn_io_request *req)
{
	struct read_chunk *p = (struct read_chunk *)req;
	struct copy_read *c = p->copy;
	int r = req->res;

	copy_op_completed(&c->head);
	if (r >= 0) {
		count(p, (uint32_t)r);
		if (advance(p, req->offset + (uint32_t)r)) {
			retire(p);
			return;
		}
	} else if (refuses_direct(p, r)) {
		io_mode_refused(&c->io_mode);
		p->kind = IO_KIND_BUFFERED;
	} else if ((r != -EAGAIN && r != -EINTR) || ++p->retries > RETRIES) {
		fail_read(c, p, r);
	}
	if (hopeless(c, p->pos))
		retire(p);
	else
		read_chunk_queue(p);
}
