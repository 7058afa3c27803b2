/* SPDX-License-Identifier: MIT */
/*
 * One verb moves every tensor: the elements of src become those of dst,
 * wherever either is: in memory, in a pool, in a file. A view of a file reads
 * (or writes) only the bytes that it reaches.
 *
 * Shapes: src is broadcast to the shape of dst by numpy's rule.
 *
 * Dtypes may differ. Then, source by source:
 *	- to a floating type: to nearest, ties to even. What is too large becomes
 *	  infinite where the type has infinities (F64 to E5M2), else the largest
 *	  finite value of its sign; NaN stays NaN where there is one, else 0.
 *	- to an integer type: cut towards 0 as numpy and C do, or to nearest even
 *	  if asked; what does not fit becomes the nearest that does (numpy wraps
 *	  around there), NaN becomes 0.
 *	- to BOOL: is it not 0? NaN is not.
 *	- to C64: the imaginary part is 0; from C64: the real part.
 *	- E8M0 has no sign and no 0: what is below 2^-127 becomes 2^-127.
 * With the same dtype on both sides and no scale, bytes are copied as they are
 * (NaNs keep their payload, BOOLs that are 2 stay 2).
 *
 * Refused with -EINVAL: a dst that meets itself (a stride of 0), and a dst
 * and src that share bytes. -EROFS: dst may not be written.
 */
#pragma once

#include <tarn/file.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bytes of a file travel. */
enum tarn_road {
	/* By where they are: from the page cache what is in it, directly what
	 * is on a local disk, buffered and many at once from a network. To a
	 * file that others read meanwhile, be it elsewhere in it, write
	 * buffered: the kernel reads ahead, and may go on to show them old
	 * bytes of what was written past its cache. */
	TARN_ROAD_AUTO = 0,
	TARN_ROAD_BUFFERED = 1, /* through the page cache */
	TARN_ROAD_DIRECT = 2,	/* past it; ragged ends that are written go
				   through it. -EINVAL where the file system has
				   no direct I/O */
};

enum tarn_rounding {
	TARN_ROUND_CUT = 0, /* floating to integer: towards 0 */
	TARN_ROUND_EVEN = 1, /* to nearest, ties to even */
};

struct tarn_copy_options {
	/* Of memory to memory: how many threads may work, 0 and 1 are the
	 * caller's alone. They live no longer than the call. */
	int threads;
	enum tarn_road road;
	const char *engine; /* "io_uring", "threads"; NULL: the better one that
			       works (TARN_IO in the environment forces one) */
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
	 * cancels: -ECANCELED, unless all of it was begun, and ends well. Not
	 * for streams, which are asked. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

struct tarn_copy_info {
	uint64_t bytes;	      /* of dst, as elements */
	uint64_t read;	      /* bytes taken from files, gaps included */
	uint64_t written;     /* bytes put into files */
	uint64_t cached;      /* of read: they were in the page cache */
	uint64_t direct;      /* of read and written: past the page cache */
	uint64_t requests;    /* to the engine */
	double seconds;
	double cpu_seconds;   /* of this process (user and system) meanwhile */
	const char *engine;   /* "memory"; "io_uring", "threads"; "plain" where
				 little was moved by plain calls; "mapped"
				 (tarn_file_load); static */
};

/*
 * Copies, and returns when it is done. options and ret_info may be NULL. Any
 * thread; nobody may write src or use dst meanwhile. After a failure dst holds
 * some of the new elements. -EIO and what else read and write say, with file
 * and offset; -ENODATA: a file has shrunk; -ENOSPC, -EDQUOT; -EFBIG: past
 * RLIMIT_FSIZE, told before the kernel would send SIGXFSZ; -ENOTSUP: no
 * executor for this pair of storages, or for this dtype; -EBADF: src is open
 * for writing only.
 */
TARN_PUBLIC int tarn_copy(tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info);

/*
 * A tensor of a file with an address, the quickest way: mapped (see
 * tarn_file_map, also for files that shrink), and what is not in the page cache
 * read into it first; but from a network file system, unless it is cached, read
 * to memory of its own. tarn_storage_kind() tells which, and of the two only
 * memory is writable. name NULL: a U8 tensor over the whole data range (not of
 * an index, -ENOTSUP), which is how a whole file is loaded: each tensor is a
 * view of its storage at file_offset less the range's begin.
 *
 * options and ret_info may be NULL. Who wants memory in any case asks for a
 * road (TARN_ROAD_BUFFERED takes what is cached too), a scale or a bias.
 */
TARN_PUBLIC int tarn_file_load(tarn_file *file, const char *name,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info, tarn_tensor **ret);

/* ---- streams: many copies at once ---------------------------------- */

/*
 * A stream carries out copies while its owner does something else, and hands
 * back each when it is done, in the order in which they end. It belongs to
 * one thread at a time, the one that made it (io_uring insists), and works
 * only inside these calls and in the kernel: it starts no thread of its own
 * but for the thread engine's. Its memory is bounded by its options.
 *
 *	tarn_stream_new(NULL, &s);
 *	tarn_stream_copy(s, dst, src, NULL, my_tag, NULL);       ... more
 *	n = tarn_stream_reap(s, done, ARRAY_SIZE(done), 1, -1);
 *	s = tarn_stream_free(s);
 */
typedef struct tarn_stream tarn_stream;

struct tarn_stream_options {
	const char *engine; /* as in tarn_copy_options, for all of its copies */
	uint32_t copies;    /* not reaped at once; 0: 1024 */
	uint64_t buffer;    /* bytes for what cannot go straight; 0: 16 MiB. As
			       many again for copies from file to file */
};

struct tarn_completion {
	uint64_t id;   /* as tarn_stream_copy gave it */
	uint64_t user; /* as the caller gave it */
	int result;    /* 0 or -errno */
	char message[256]; /* the sentence; "" when result is 0 */
	struct tarn_copy_info info;
};

struct tarn_stream_progress {
	uint64_t copies_done, copies_waiting, copies_running;
	uint64_t bytes_done, bytes_total; /* of all copies ever, of dst */
};

TARN_PUBLIC int tarn_stream_new(const struct tarn_stream_options *options,
	tarn_stream **ret);

/* Cancels what is not done, waits for the kernel to let go of it, and frees.
 * Takes NULL and returns NULL. */
TARN_PUBLIC tarn_stream *tarn_stream_free(tarn_stream *stream);

/* "io_uring" or "threads"; why not io_uring, or "". */
TARN_PUBLIC const char *tarn_stream_engine(const tarn_stream *stream);
TARN_PUBLIC const char *tarn_stream_engine_why(const tarn_stream *stream);

/*
 * Makes memory known to the engine beforehand (io_uring pins it once instead
 * of at every request). 0; 1: not here, and tarn_error_message() says why;
 * copies work all the same. The storage is kept until the stream is freed.
 */
TARN_PUBLIC int tarn_stream_register(tarn_stream *stream,
	tarn_storage *storage);

/*
 * Queues a copy; it keeps references to both tensors until it is reaped.
 * What can be refused beforehand (shapes, overlap, rights) is refused here.
 * *ret_id may be NULL. timeout_ms: from now; when it has passed nothing more
 * is begun, and the copy ends with -ETIMEDOUT, unless all of it was begun: the
 * kernel's requests are waited for, however long. Negative: none. -EAGAIN: as
 * many as the stream takes are not reaped.
 */
TARN_PUBLIC int tarn_stream_copy(tarn_stream *stream, tarn_tensor *dst,
	const tarn_tensor *src, const struct tarn_copy_options *options,
	int timeout_ms, uint64_t user, uint64_t *ret_id);

/*
 * Works until at_least copies are done (or all, when there are fewer), or
 * timeout_ms has passed (negative: never), and takes up to n of them. Returns
 * how many; 0 too. at_least 0 works a little and does not wait.
 */
TARN_PUBLIC int tarn_stream_reap(tarn_stream *stream,
	struct tarn_completion *rets, int n, int at_least, int timeout_ms);

/* One copy, or all of them with id 0: it ends with -ECANCELED as soon as the
 * kernel lets go of it (or as it would have, when all of it was begun), and
 * must be reaped. -ENOENT: it is done, or never was. */
TARN_PUBLIC int tarn_stream_cancel(tarn_stream *stream, uint64_t id);

TARN_PUBLIC void tarn_stream_get_progress(const tarn_stream *stream,
	struct tarn_stream_progress *ret);

/* For poll(): readable when tarn_stream_reap has something to do (seldom, once,
 * for nothing). The stream's. */
TARN_PUBLIC int tarn_stream_fd(const tarn_stream *stream);

#ifdef __cplusplus
}
#endif
