// SPDX-License-Identifier: MIT
/*
 * Memory to file, any view of it: pieces are cut and written, many at once,
 * each until all of it is there. What is not dst is never written, so gaps
 * between runs cost a request each.
 */
#include "lib/copy/copy_write.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"

/* EAGAIN and EINTR in a row before we believe that it will not pass. */
enum { RETRIES = 64 };

static void retire(struct piece *p)
{
	struct copy_write *w = p->write;

	if (p->window)
		write_leave_window(w, p->window);
	w->free_pieces |= 1u << (p - w->pieces);
	/* Nothing more is cut from it. */
	if (w->head.ended)
		write_close_window(w);
}

static void piece_done(struct tarn_io_request *req);

/* Queues what is left of it; there is always room. */
static int issue(struct piece *p)
{
	struct copy_write *w = p->write;
	struct mover *m = &w->head;
	uint32_t size = (uint32_t)(p->end - p->pos);

	p->req.file = p->direct ? w->slot.direct : w->slot.buffered;
	p->req.buffer = p->window
				? p->window->buffer.slot
				: regions_find(m->env->regions, p->addr, size);
	p->req.offset = p->pos;
	p->req.addr = (void *)p->addr; /* a write only reads there */
	p->req.size = size;
	p->req.may_block = !p->direct;
	p->req.done = piece_done;
	if (tarn_io_write(m->env->io, &p->req) != 0)
		return 1;
	mover_launched(m);
	m->info.requests++;
	return 0;
}

/* What was written, as the kernel says; true when that is the whole piece. */
static bool advance(struct piece *p, uint32_t n)
{
	struct copy_write *w = p->write;

	p->pos += n;
	p->addr += n;
	p->retries = 0;
	w->head.done += n;
	w->head.info.written += n;
	if (p->direct)
		w->head.info.direct += n;
	/* What is left of a piece that came short need not be aligned. */
	if (p->pos % w->grain != 0)
		p->direct = false;
	return p->pos == p->end;
}

static void fail(struct piece *p, int error)
{
	struct copy_write *w = p->write;
	char name[160];

	mover_failed(&w->head,
		tarn_fail(error, "copy: writing at byte %llu of %s: %s",
			(unsigned long long)p->pos,
			storage_file_name(w->file, name, sizeof(name)),
			tarn_errno_text(error)));
}

static bool refuses_direct(const struct piece *p, int r)
{
	return p->direct && (r == -EINVAL || r == -EOPNOTSUPP) &&
	       p->write->head.options.road != TARN_ROAD_DIRECT;
}

static void piece_done(struct tarn_io_request *req)
{
	struct piece *p = (struct piece *)req;
	struct copy_write *w = p->write;
	int r = req->res;

	mover_landed(&w->head);
	if (r > 0 && advance(p, (uint32_t)r)) {
		retire(p);
		return;
	}
	if (refuses_direct(p, r))
		w->direct = p->direct = false;
	else if (r == 0)
		fail(p, EIO); /* the kernel says why next time, if ever */
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
		mover_failed(&w->head, r);
	return r;
}

static unsigned pump(struct mover *mover, unsigned limit)
{
	struct copy_write *w = (struct copy_write *)mover;
	unsigned begun = 0;

	if (begin(w) <= 0)
		return 0;
	while (mover->in_flight < limit && w->free_pieces && !mover->ended &&
		tarn_io_pending(mover->env->io) < TARN_IO_DEPTH) {
		struct piece *p = &w->pieces[__builtin_ctz(w->free_pieces)];
		int r = write_cut(w, p);

		if (r == 0)
			break;
		if (r < 0) {
			mover_failed(mover, r);
			write_close_window(w);
			break;
		}
		p->retries = 0;
		w->free_pieces &= w->free_pieces - 1;
		issue(p);
		begun++;
		if (write_all_cut(w))
			mover->ended = true;
	}
	return begun;
}

static void let_go(struct mover *mover)
{
	struct copy_write *w = (struct copy_write *)mover;

	write_close_window(w);
	write_end(w);
}

static void write_free(struct mover *mover)
{
	mover_drop(mover);
	free(mover);
}

static const struct mover_ops write_ops = {
	.pump = pump,
	.let_go = let_go,
	.free = write_free,
};

int copy_write_new(
	struct mover_env *env, const struct mover *head, struct mover **ret)
{
	struct copy_write *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return tarn_fail(ENOMEM, "copy: out of memory");
	mover_begin(&w->head, env, head, &write_ops);
	w->src = tarn_tensor_origin(head->src);
	w->file = storage_file(head->dst->storage);
	w->origin = w->file->offset + head->dst->base;
	w->slot = FILE_SLOT_NONE;
	w->grain = BOUNCE_ALIGN;
	w->free_windows = (UINT64_C(1) << WINDOWS) - 1;
	w->free_pieces = UINT32_MAX;
	for (unsigned i = 0; i < TARN_IO_DEPTH; i++)
		w->pieces[i].write = w;
	r = write_plan(w);
	if (r < 0) {
		mover_free(&w->head);
		return r;
	}
	*ret = &w->head;
	return 0;
}
