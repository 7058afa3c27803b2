/* SPDX-License-Identifier: MIT */
/*
 * A fill reads one byte range of a file into one allocation of a pool.
 *
 * It is a state machine driven by completions: it never blocks, and one thread
 * may run many on one engine. The simple path:
 *
 *	r = tarn_fill_new(io, &job, &fill);
 *	while (!tarn_fill_finished(fill)) {
 *		tarn_fill_pump(fill, TARN_IO_DEPTH);
 *		tarn_io_submit_and_wait(io, 1, -1);
 *	}
 *	r = tarn_fill_result(fill);
 *	fill = tarn_fill_free(fill);
 *
 * Direct reads go straight to their destination, because that was chosen
 * congruent to the file offset: both have the same remainder modulo 4096. Then
 * a request that is rounded outward to the disk's blocks in the file is also
 * rounded in memory, and the surplus bytes land in the slack of the same
 * allocation, never outside it.
 */
#pragma once

#include <tarn/copy.h>

#include "lib/io/io.h"

/* A part of a pool that is mapped here, and registered (buffer >= 0) or not. */
struct tarn_fill_segment {
	void *addr;
	uint64_t pool_offset; /* where it begins in the pool */
	uint64_t size;
	int buffer; /* the slot of tarn_io_register with this buffer; -1 */
};

struct tarn_fill_job {
	/* The source. direct_fd is open with O_DIRECT, or -1; buffered_fd is
	 * open without, or -1. At least one is required. They stay the
	 * caller's: the engine has references of its own, but the fill asks
	 * buffered_fd which bytes are cached, as long as it has chunks to
	 * begin. */
	int direct_fd;
	int buffered_fd;
	/* The file system starts a direct read without waiting for anything
	 * (io_nowait_works). Reads from others are left to workers of the
	 * engine, as buffered reads are: a dead file system would block the
	 * caller for ever. */
	bool prompt;
	/* Cached bytes are copied from the page cache, others are read directly
	 * where possible; or all reads are buffered; or all are direct where
	 * possible. */
	enum tarn_io_mode io_mode;
	uint64_t file_offset;
	uint64_t size;

	/* The target: [alloc_offset, alloc_offset + alloc_size) of the pool
	 * may be written; the byte at file_offset lands at base. Segments are
	 * in ascending order and cover [base, base + size); they are copied. */
	uint64_t alloc_offset;
	uint64_t alloc_size;
	uint64_t base;
	const struct tarn_fill_segment *segments;
	size_t n_segments;
};

struct tarn_fill;

/* Nothing is read before the first pump. -EINVAL: the job is inconsistent (the
 * sentence says how). -EMFILE, -ENOMEM, -EBADF. */
int tarn_fill_new(struct tarn_io *io, const struct tarn_fill_job *job,
	struct tarn_fill **ret_fill) _must_check_;

/* Only for a fill that is finished, or was never pumped: otherwise the kernel
 * may still write to its memory, and the engine call it back. Takes NULL and
 * returns NULL. */
struct tarn_fill *tarn_fill_free(struct tarn_fill *fill);
DEFINE_CLEANUP(struct tarn_fill *, tarn_fill_free);
#define _cleanup_fill_ _cleanup_(tarn_fill_freep)

/*
 * Queues requests until `limit` of this fill are under way, or the engine is
 * full. Several fills share the engine by their limits: TARN_IO_DEPTH / fills,
 * and at least 1. Returns how many it queued; the next submit_and_wait starts
 * them.
 */
unsigned tarn_fill_pump(struct tarn_fill *fill, unsigned limit);

/* Queues nothing more; requests under way still complete. The result will be
 * -ECANCELED, unless the fill finished or failed before. */
void tarn_fill_cancel(struct tarn_fill *fill);

/* No request is under way, and none will be. */
bool tarn_fill_finished(const struct tarn_fill *fill);

/*
 * Of a finished fill: 0, every byte is there; or -errno and a sentence that
 * names the file offset. -ENODATA: the file ended too early. -EIO and other
 * errors of read. -ECANCELED. Of an unfinished fill: -EINPROGRESS.
 */
int tarn_fill_result(const struct tarn_fill *fill);

/* Pumps and waits until it is finished: for a thread that has one fill and
 * nothing else to do. Returns the result. */
int tarn_fill_run(struct tarn_fill *fill);

/* Bytes of the range that have landed, in no order, 0 to size. */
uint64_t tarn_fill_landed(const struct tarn_fill *fill);

/* Are all bytes read directly? False from the moment that the file refuses, or
 * that some come from the page cache. */
bool tarn_fill_direct(const struct tarn_fill *fill);

/* Is every segment that it fills registered? */
bool tarn_fill_registered(const struct tarn_fill *fill);
