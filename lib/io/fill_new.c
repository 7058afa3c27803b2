/* SPDX-License-Identifier: MIT */
/*
 * Makes a fill: checks that the job is consistent, and chooses the I/O mode.
 *
 * Everything is checked here, once, so that the machine in lib/io/fill.c can
 * add and subtract positions without further checks.
 */
#include "lib/io/fill.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/io/fill_internal.h"

typedef unsigned long long llu;

static int check_ranges(const struct tarn_fill_job *job)
{
	uint64_t end, alloc_end;

	if (job->direct_fd < 0 && job->buffered_fd < 0)
		return tarn_fail(EINVAL, "a fill needs a file to read");
	if (add_u64(job->file_offset, job->size, &end) || end > INT64_MAX)
		return tarn_fail(EINVAL,
			"%llu bytes at byte %llu are more than a file can have",
			(llu)job->size, (llu)job->file_offset);
	if (add_u64(job->alloc_offset, job->alloc_size, &alloc_end) ||
		add_u64(job->base, job->size, &end) ||
		job->base < job->alloc_offset || end > alloc_end)
		return tarn_fail(EINVAL,
			"%llu bytes at pool offset %llu are not inside the "
			"allocation of %llu bytes at %llu",
			(llu)job->size, (llu)job->base, (llu)job->alloc_size,
			(llu)job->alloc_offset);
	return 0;
}

static int check_segments(const struct tarn_fill_job *job)
{
	uint64_t upto = job->base, end = job->base + job->size;

	for (size_t i = 0; i < job->n_segments; i++) {
		const struct tarn_fill_segment *s = &job->segments[i];
		uint64_t s_end;

		if (add_u64(s->pool_offset, s->size, &s_end) ||
			s->pool_offset > upto ||
			(i > 0 && s->pool_offset != upto))
			break;
		upto = s_end;
	}
	if (upto < end)
		return tarn_fail(EINVAL,
			"the segments cover pool offsets up to %llu without a "
			"gap, the fill needs [%llu, %llu)",
			(llu)upto, (llu)job->base, (llu)end);
	return 0;
}

/* Is rounding outward in the file also rounding outward in memory, within the
 * allocation? */
static bool congruent(const struct tarn_fill_job *job, uint64_t align)
{
	uint64_t end, mask = align - 1;

	if ((job->base ^ job->file_offset) & mask)
		return false;
	if (round_down_u64(job->base, align) < job->alloc_offset ||
		round_up_u64(job->base + job->size, align, &end) ||
		end > job->alloc_offset + job->alloc_size)
		return false;
	for (size_t i = 0; i < job->n_segments; i++) {
		const struct tarn_fill_segment *s = &job->segments[i];

		if (((uintptr_t)s->addr | s->pool_offset | s->size) & mask)
			return false;
	}
	return true;
}

/*
 * The alignment with which a fill may read directly, 0 if it may not. The file
 * system is not queried: it might not answer, and the sender of the descriptors
 * has done so (a file of a network comes without the direct one).
 */
static uint32_t choose_io_mode(
	struct tarn_fill *f, const struct tarn_fill_job *job)
{
	uint32_t align;

	if (job->direct_fd < 0 ||
		(job->io_mode == TARN_IO_BUFFERED && job->buffered_fd >= 0))
		return 0;
	if (io_mode_init(&f->io_mode, job->buffered_fd, job->direct_fd,
		    job->io_mode == TARN_IO_DIRECT ? TARN_IO_DIRECT
						   : TARN_IO_AUTO,
		    IO_FS_LOCAL) < 0)
		return 0;
	f->io_mode.end = job->file_offset + job->size;
	f->io_mode.prompt = job->prompt;
	/* Powers of two: the larger serves both. */
	align = MAX(f->io_mode.align.offset, f->io_mode.align.memory);
	return align && congruent(job, align) ? align : 0;
}

static int take_files(struct tarn_fill *f, const struct tarn_fill_job *job)
{
	if (f->direct) {
		f->direct_file = tarn_io_add_file(f->io, job->direct_fd);
		if (f->direct_file < 0)
			return f->direct_file;
	}
	if (job->buffered_fd >= 0) {
		f->buffered_file = tarn_io_add_file(f->io, job->buffered_fd);
		if (f->buffered_file < 0)
			return f->buffered_file;
	}
	if (!f->direct && job->buffered_fd < 0)
		return tarn_fail(EINVAL,
			"the file cannot be read directly to pool offset %llu, "
			"and there is no buffered descriptor",
			(llu)job->base);
	return 0;
}

/* The segments that the range touches, at most. */
static void take_segments(struct tarn_fill *f, const struct tarn_fill_job *job)
{
	uint64_t end = job->base + job->size;

	f->registered = job->size > 0;
	for (size_t i = 0; i < job->n_segments; i++) {
		const struct tarn_fill_segment *s = &job->segments[i];

		if (s->pool_offset >= end ||
			s->pool_offset + s->size <= job->base)
			continue;
		f->segments[f->n_segments++] = *s;
		if (s->buffer < 0)
			f->registered = false;
	}
}

int tarn_fill_new(struct tarn_io *io, const struct tarn_fill_job *job,
	struct tarn_fill **ret_fill)
{
	_cleanup_fill_ struct tarn_fill *f = NULL;
	uint64_t size;
	int r = check_ranges(job);

	if (r >= 0)
		r = check_segments(job);
	if (r < 0)
		return r;
	if (!mul_u64(job->n_segments, sizeof(f->segments[0]), &size) &&
		!add_u64(size, sizeof(*f), &size))
		f = calloc(1, size);
	if (!f)
		return tarn_fail(ENOMEM, "no memory for a fill");
	f->io = io;
	f->direct_file = f->buffered_file = -1;
	f->prompt = job->prompt;
	f->align = choose_io_mode(f, job);
	f->direct = f->align > 0;
	f->begin = f->next = job->file_offset;
	f->end = job->file_offset + job->size;
	f->to_pool = job->base - job->file_offset;
	f->free_chunks = UINT32_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(f->chunks); i++)
		f->chunks[i].fill = f;
	take_segments(f, job);
	r = take_files(f, job);
	if (r < 0)
		return r;
	*ret_fill = STEAL(f);
	return 0;
}
