/* SPDX-License-Identifier: MIT */
/*
 * One verb moves every tensor: the elements of src become those of dst,
 * wherever either is: in memory, in a pool, in a file. A view of a file reads
 * (or writes) only the bytes that it reaches.
 *
 * Shapes: src is broadcast to the shape of dst by numpy's rule.
 *
 * Dtypes may differ. Then, source by source:
 *	- to a floating type: to nearest, ties to even. What is too large
 *	  becomes infinite where the type has infinities (F64 to E5M2), else
 *	  the largest finite value of its sign; NaN stays NaN where there is
 *	  one, else 0.
 *	- to an integer type: truncated towards 0 as numpy and C do, or to
 *	  nearest even if asked; what does not fit becomes the nearest that
 *	  does (numpy wraps around there), NaN becomes 0.
 *	- to BOOL: is it not 0? NaN counts as 0.
 *	- to C64: the imaginary part is 0; from C64: the real part.
 *	- E8M0 has no sign and no 0: what is below 2^-127 becomes 2^-127.
 * With the same dtype on both sides and no scale, bytes are copied as they are
 * (NaNs keep their payload, BOOLs that are 2 stay 2).
 *
 * Refused with -EINVAL: a dst that overlaps itself (a stride of 0), and a dst
 * and src that share bytes. -EROFS: dst may not be written.
 */
#pragma once

#include <tarn/file.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bytes of a file are read and written. */
enum tarn_io_mode {
	/* The library chooses by where the bytes are: from the page cache if
	 * they are in it, directly from a local disk, buffered and many at once
	 * from a network. While another process reads any part of the file,
	 * write it with TARN_IO_BUFFERED: the kernel reads ahead, and may show
	 * that process old bytes of a range that was written past its cache. */
	TARN_IO_AUTO = 0,
	TARN_IO_BUFFERED = 1, /* through the page cache */
	TARN_IO_DIRECT = 2,	/* past it; unaligned ends of writes go through
				 * it. -EINVAL where the file system has no
				 * direct I/O */
};

enum tarn_rounding {
	TARN_ROUND_TRUNCATE = 0, /* floating to integer: towards 0 */
	TARN_ROUND_EVEN = 1,	 /* to nearest, ties to even */
};

struct tarn_copy_options {
	/* Memory to memory: how many threads may work; 0 and 1 mean the
	 * caller's alone. They live no longer than the call. */
	int threads;
	enum tarn_io_mode io_mode;
	const char *engine; /* "io_uring", "threads"; NULL: the better one that
			       works (TARN_ENGINE in the environment forces
			       one) */
	enum tarn_rounding rounding;
	/*
	 * dst = src * scale[c] + bias[c], either may be NULL (1, 0). c is the
	 * index in dimension channel_dim (negative: from the end) of dst;
	 * channels must be its extent, or 1 for the same everywhere. Both are
	 * read during the call, or until the copy is reaped. One
	 * multiplication and one addition, each rounded: in F64 if either side
	 * has F64 or an integer of 32 bits or more, else in F32 (to which
	 * scale and bias are rounded first). C64 is -ENOTSUP.
	 */
	const double *scale, *bias;
	int64_t channels;
	int channel_dim;
	/* Called now and then in the calling thread with bytes of dst; non-zero
	 * cancels: -ECANCELED, unless all of it was begun already, and
	 * succeeds. Not for streams, which have tarn_stream_progress. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* A CUstream (or cudaStream_t) of the device that dst, or else src, is
	 * on: the copy begins after the work that is in it by now. NULL: the
	 * legacy default stream. When the copy is done, so is all that the
	 * device did for it. */
	void *cuda_stream;
	/* Memory to memory: not 0 if dst is not read soon. Then it is written
	 * past the processor's cache, as it is by itself where both sides
	 * together are more than that holds: faster for one of many tensors
	 * that are copied in a row. The elements are the same. */
	uint64_t past_cache;
	uint64_t reserved[6]; /* 0 */
};

struct tarn_copy_info {
	uint64_t bytes;	      /* of dst, as elements */
	uint64_t read;	      /* bytes taken from files, gaps included */
	uint64_t written;     /* bytes put into files */
	uint64_t cached;      /* of read: they were in the page cache */
	uint64_t direct;      /* of read and written: past the page cache */
	uint64_t requests;    /* to the engine */
	double seconds;
	double cpu_seconds;   /* of this process (user and system) during the
			       * copy */
	const char *engine;   /* "memory"; "io_uring", "threads"; "plain" where
			       * a small copy was made by plain calls; "mapped"
			       * (tarn_file_load); "cuda" with a device;
			       * static */
	uint64_t reserved[8]; /* 0 */
};

/*
 * Copies, and returns when it is done. options and ret_info may be NULL. Any
 * thread; no other thread may write src or use dst meanwhile. After a failure
 * dst holds some of the new elements. -EIO and other errors of read and write,
 * with file and offset; -ENODATA: a file has shrunk; -ESTALE: it is another
 * version than the one whose header was parsed; -ENOSPC, -EDQUOT; -EFBIG: past
 * RLIMIT_FSIZE, returned before the kernel would send SIGXFSZ; -ENOTSUP: no
 * executor for this pair of storages, or for this dtype; -EBADF: src is open
 * for writing only.
 */
TARN_PUBLIC int tarn_copy(tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Loads a tensor of a file so that it has an address, in the fastest way: it is
 * mapped (see tarn_file_map, also for files that shrink), and bytes that are
 * not in the page cache are read into it first; but from a network file system,
 * unless it is cached, it is read to memory. tarn_storage_kind() returns which,
 * and of the two only memory is writable. name NULL: a U8 tensor over the whole
 * data range (not of an index, -ENOTSUP), which is how a whole file is loaded:
 * each tensor is a view of its storage at file_offset less the range's begin.
 *
 * options and ret_info may be NULL. A caller that wants memory in any case sets
 * an I/O mode (TARN_IO_BUFFERED uses cached bytes too), a scale or a bias.
 */
TARN_PUBLIC int tarn_file_load(tarn_file *file, const char *name,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret)
	TARN_NONNULL(1, 5) TARN_MUST_CHECK;

/* ---- streams: many copies at once ---------------------------------- */

/*
 * A stream carries out copies while its owner does something else, and returns
 * each when it is done, in the order in which they end. It belongs to the
 * thread that made it (io_uring requires that), and works only inside these
 * calls and in the kernel: it starts no thread except those of the thread
 * engine. Its memory is bounded by its options.
 *
 *	tarn_stream_new(NULL, &s);
 *	tarn_stream_copy(s, dst, src, NULL, -1, my_tag, NULL);   ... more
 *	n = tarn_stream_reap(s, 1, -1, done, n_done);
 *	s = tarn_stream_free(s);
 */
typedef struct tarn_stream tarn_stream;

struct tarn_stream_options {
	const char *engine; /* as in tarn_copy_options, for all of its copies */
	uint32_t copies;    /* not reaped at once; 0: 1024 */
	uint64_t buffer;    /* for bytes that cannot go straight to dst; 0: 16
			     * MiB. As many again for copies from file to
			     * file */
	uint64_t reserved[8]; /* 0 */
};

struct tarn_completion {
	uint64_t id;   /* as returned by tarn_stream_copy */
	uint64_t user; /* as given to tarn_stream_copy */
	int result;    /* 0 or -errno */
	char message[256]; /* the sentence; "" when result is 0 */
	struct tarn_copy_info info;
	uint64_t reserved[4]; /* 0 */
};

struct tarn_stream_progress {
	uint64_t copies_done, copies_waiting, copies_running;
	uint64_t bytes_done, bytes_total; /* of all copies so far, of dst */
	uint64_t reserved[8]; /* 0 */
};

/* Makes a stream. options may be NULL. The caller gives *ret to
 * tarn_stream_free. -EINVAL: an option is invalid; -ENOMEM; and the errors of
 * the engine. */
TARN_PUBLIC int tarn_stream_new(const struct tarn_stream_options *options,
	tarn_stream **ret) TARN_NONNULL(2) TARN_MUST_CHECK;

/* Cancels unfinished copies, waits until the kernel has finished their
 * requests, and frees the stream. Takes NULL and returns NULL. */
TARN_PUBLIC tarn_stream *tarn_stream_free(tarn_stream *stream);

/* The engine, "io_uring" or "threads"; and why it is not io_uring, or "".
 * Borrowed: valid as long as the stream is. */
TARN_PUBLIC const char *tarn_stream_engine(const tarn_stream *stream)
	TARN_NONNULL(1) TARN_NOT_NULL;
TARN_PUBLIC const char *tarn_stream_engine_why(const tarn_stream *stream)
	TARN_NONNULL(1) TARN_NOT_NULL;

/*
 * Registers a storage's memory with the engine in advance (io_uring pins it once
 * instead of at every request). 0; 1: not possible here, and
 * tarn_error_message() says why; copies work all the same. The storage is kept
 * until the stream is freed.
 */
TARN_PUBLIC int tarn_stream_register(tarn_stream *stream,
	tarn_storage *storage)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/*
 * Queues a copy; it keeps references to both tensors until it is reaped.
 * Invalid copies (shapes, overlap, rights) are refused here. *ret_id may be
 * NULL. timeout_ms counts from now; when it has passed no further request of
 * the copy is begun, and it ends with -ETIMEDOUT, unless all of it was begun:
 * requests in the kernel are waited for, however long they take. Negative: no
 * limit. -EAGAIN: the stream has its maximum of copies that were not reaped.
 */
TARN_PUBLIC int tarn_stream_copy(tarn_stream *stream, tarn_tensor *dst,
	const tarn_tensor *src, const struct tarn_copy_options *options,
	int timeout_ms, uint64_t user, uint64_t *ret_id)
	TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

/*
 * Works until at_least copies are done (or all, when there are fewer), or
 * timeout_ms has passed (negative: no limit), and returns up to n of them in
 * rets. Returns how many, possibly 0. With at_least 0 it works a little and
 * does not wait.
 */
TARN_PUBLIC int tarn_stream_reap(tarn_stream *stream, size_t at_least,
	int timeout_ms, struct tarn_completion *rets, size_t n)
	TARN_NONNULL(1) TARN_MUST_CHECK;

/* Cancels one copy, or all of them with id 0: it ends with -ECANCELED as soon
 * as its requests in the kernel have ended (or with its own result, when all of
 * it was begun), and must be reaped. -ENOENT: it is done, or there never was
 * one. The result may be ignored: what the copy came to is in its completion. */
TARN_PUBLIC int tarn_stream_cancel(tarn_stream *stream, uint64_t id)
	TARN_NONNULL(1);

/* How many copies are done, waiting and running, and their bytes. */
TARN_PUBLIC void tarn_stream_progress(const tarn_stream *stream,
	struct tarn_stream_progress *ret)
	TARN_NONNULL(1, 2);

/* A descriptor for poll(): readable when tarn_stream_reap has work to do, and
 * rarely, once, when it has none. It belongs to the stream, which always has
 * one: this cannot fail. */
TARN_PUBLIC int tarn_stream_fd(const tarn_stream *stream)
	TARN_NONNULL(1);

#ifdef __cplusplus
}
#endif
