// SPDX-License-Identifier: MIT
/*
 * Memory to file, any view of it: chunks are cut and written, many at once, and
 * each is continued until all of it is written. Bytes outside dst are never
 * written, so each gap between runs costs a request.
 */
#include "lib/copy/copy_write.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

/* EAGAIN and EINTR in a row before the error counts as permanent. */
enum { RETRIES = 64 };

static void retire(struct write_chunk *p)
{
	struct copy_write *w = p->write;

	if (p->window)
		write_leave_window(w, p->window);
	w->free_chunks |= 1u << (p - w->chunks);
	/* It is not cut any further. */
	if (w->head.ended)
		write_close_window(w);
}

static void chunk_done(struct tarn_io_request *req);

/* Queues the rest of the chunk; there is always room. */
static int issue(struct write_chunk *p)
{
	struct copy_write *w = p->write;
	struct copy_op *m = &w->head;
	uint32_t size = (uint32_t)(p->end - p->pos);

	p->req.file = p->direct ? w->slot.direct : w->slot.buffered;
	p->req.buffer = p->window
				? p->window->buffer.slot
				: regions_find(m->env->regions, p->addr, size);
	p->req.offset = p->pos;
	p->req.addr = (void *)p->addr; /* a write only reads there */
	p->req.size = size;
	p->req.may_block = !p->direct;
	p->req.done = chunk_done;
	if (tarn_io_write(m->env->io, &p->req) != 0)
		return 1;
	copy_op_submitted(m);
	m->info.requests++;
	return 0;
}

/* Counts n written bytes, as the kernel reports; true when the chunk is
 * complete. */
static bool advance(struct write_chunk *p, uint32_t n)
{
	struct copy_write *w = p->write;

	p->pos += n;
	p->addr += n;
	p->retries = 0;
	w->head.done += n;
	w->head.info.written += n;
	if (p->direct)
		w->head.info.direct += n;
	/* The rest of a short write need not be aligned. */
	if (p->pos % w->granule != 0)
		p->direct = false;
	return p->pos == p->end;
}

static void fail(struct write_chunk *p, int error)
{
	struct copy_write *w = p->write;
	char name[160];

	copy_op_failed(&w->head,
		tarn_fail(error, "copy: writing at byte %llu of %s: %s",
			(unsigned long long)p->pos,
			storage_file_name(w->file, name, sizeof(name)),
			tarn_errno_text(error)));
}

static bool refuses_direct(const struct write_chunk *p, int r)
{
	return p->direct && (r == -EINVAL || r == -EOPNOTSUPP) &&
	       p->write->head.options.io_mode != TARN_IO_DIRECT;
}

static void chunk_done(struct tarn_io_request *req)
{
	struct write_chunk *p = (struct write_chunk *)req;
	struct copy_write *w = p->write;
	int r = req->res;

	copy_op_completed(&w->head);
	if (r > 0 && advance(p, (uint32_t)r)) {
		retire(p);
		return;
	}
	if (refuses_direct(p, r))
		w->direct = p->direct = false;
	else if (r == 0)
		fail(p, EIO); /* the next try returns the cause, if there is
			       * one */
	else if (r < 0 &&
		 ((r != -EAGAIN && r != -EINTR) || ++p->retries > RETRIES))
		fail(p, -r);
	if (w->head.error || issue(p) != 0)
		retire(p);
}

static int begin(struct copy_write *w)
{
	int r = w->begun ? 1 : write_begin(w);

	if (r < 0)
		copy_op_failed(&w->head, r);
	return r;
}

static unsigned pump(struct copy_op *copy_op, unsigned limit)
{
	struct copy_write *w = (struct copy_write *)copy_op;
	unsigned begun = 0;

	if (begin(w) <= 0)
		return 0;
	while (copy_op->in_flight < limit && w->free_chunks &&
		!copy_op->ended &&
		tarn_io_pending(copy_op->env->io) < TARN_IO_DEPTH) {
		struct write_chunk *p =
			&w->chunks[__builtin_ctz(w->free_chunks)];
		int r = write_cut(w, p);

		if (r == 0)
			break;
		if (r < 0) {
			copy_op_failed(copy_op, r);
			write_close_window(w);
			break;
		}
		p->retries = 0;
		w->free_chunks &= w->free_chunks - 1;
		issue(p);
		begun++;
		if (write_all_cut(w))
			copy_op->ended = true;
	}
	return begun;
}

static void release(struct copy_op *copy_op)
{
	struct copy_write *w = (struct copy_write *)copy_op;

	write_close_window(w);
	write_end(w);
}

static void write_free(struct copy_op *copy_op)
{
	copy_op_drop(copy_op);
	free(copy_op);
}

static const struct copy_op_ops write_ops = {
	.pump = pump,
	.release = release,
	.free = write_free,
};

int copy_write_new(
	struct copy_env *env, const struct copy_op *head, struct copy_op **ret)
{
	struct copy_write *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return tarn_fail(ENOMEM, "copy: out of memory");
	copy_op_begin(&w->head, env, head, &write_ops);
	w->src = tarn_tensor_origin(head->src);
	w->file = storage_file(head->dst->storage);
	w->origin = w->file->offset + head->dst->base;
	w->slot = FILE_SLOT_NONE;
	w->granule = BOUNCE_ALIGN;
	w->free_windows = (UINT64_C(1) << WINDOWS) - 1;
	w->free_chunks = UINT32_MAX;
	for (unsigned i = 0; i < TARN_IO_DEPTH; i++)
		w->chunks[i].write = w;
	r = write_plan(w);
	if (r < 0) {
		copy_op_free(&w->head);
		return r;
	}
	*ret = &w->head;
	return 0;
}
