/* SPDX-License-Identifier: MIT */
/*
 * Gathers tensors that are not in the file's form in memory, or are too small
 * for a request of their own. Each contributes a run of its elements; plain
 * bytes are copied as such, everything else as boxes of the run, each an
 * ordinary copy between two tensors.
 */
#include "lib/save/staging.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/save/box.h"

struct filling {
	struct staging *staging;
	tarn_stream *stream;
	uint64_t user;
	int (*wait)(void *arg);
	void *arg;
	unsigned *queued;
};

static int queue(struct filling *f, tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options)
{
	int r;

	for (;;) {
		r = tarn_stream_copy(
			f->stream, dst, src, options, -1, f->user, NULL);
		if (r != -EAGAIN)
			break;
		r = f->wait(f->arg);
		if (r < 0)
			return r;
	}
	if (r >= 0)
		++*f->queued;
	return r;
}

/* Copies a box of part to byte `at` of the staging buffer. */
static int copy_box(struct filling *f, const struct part *p,
	const struct box *box, uint64_t at)
{
	_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
	struct tarn_copy_options options = p->convert;
	struct tarn_layout to, from;
	int r = box_narrow(tarn_tensor_layout(p->src), box, &from);

	if (r >= 0)
		r = tarn_layout_contiguous(
			p->file.dtype, p->file.ndim, box->extent, &to);
	if (r >= 0)
		r = tarn_tensor_with_layout(p->src, &from, &src);
	if (r >= 0)
		r = tarn_tensor_new(f->staging->storage, at, &to, &dst);
	if (r < 0)
		return r;
	if (options.channel_dim >= 0) {
		int64_t first = box->start[options.channel_dim];

		options.scale += options.scale ? first : 0;
		options.bias += options.bias ? first : 0;
		options.channels = box->extent[options.channel_dim];
	}
	if (p->memory)
		return tarn_copy(dst, src, &options, NULL);
	return queue(f, dst, src, &options);
}

/* Copies bytes from .. to of part: whole units of it. */
static int copy_run(
	struct filling *f, const struct part *p, uint64_t from, uint64_t to)
{
	char *memory = tarn_storage_data(f->staging->storage);
	uint64_t at = p->offset + from - f->staging->offset;
	int64_t first, end;

	if (p->bytes) {
		memcpy(memory + at, p->bytes + from, to - from);
		return 0;
	}
	first = (int64_t)(from / p->unit * p->pack);
	end = (int64_t)(to / p->unit * p->pack);
	while (first < end) {
		struct box box;
		int r;

		box_next(&p->file, first, end - first, &box);
		r = copy_box(f, p, &box, at);
		if (r < 0)
			return r;
		first += box.count;
		at += (uint64_t)box.count / p->pack * p->unit;
	}
	return 0;
}

int staging_fill(struct staging *w, const struct save_plan *plan,
	tarn_stream *stream, uint64_t user, int (*wait)(void *arg), void *arg,
	unsigned *ret_queued)
{
	struct filling f = {w, stream, user, wait, arg, ret_queued};
	uint64_t end = w->offset + w->size;
	int r = 0;

	for (size_t i = save_plan_find(plan, w->offset); r >= 0 && i < plan->n;
		i++) {
		const struct part *p = &plan->parts[i];
		uint64_t from = MAX(w->offset, p->offset);
		uint64_t to = MIN(end, p->offset + p->nbytes);

		if (p->offset >= end)
			break;
		if (from < to)
			r = copy_run(&f, p, from - p->offset, to - p->offset);
	}
	return r;
}
