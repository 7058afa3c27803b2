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

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How bytes of a file travel. */
enum tarn_road {
	/* By where they are: from the page cache what is in it, directly what
	 * is on a local disk, buffered and many at once from a network. */
	TARN_ROAD_AUTO = 0,
	TARN_ROAD_BUFFERED = 1, /* through the page cache */
	TARN_ROAD_DIRECT = 2,	/* past it; ragged ends go through it. -EINVAL
				   where the file system has no direct I/O */
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
	 * cancels: -ECANCELED. Not for streams, which are asked. */
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
				 little was moved by plain calls; static */
};

/*
 * Copies, and returns when it is done. options and ret_info may be NULL. Any
 * thread; nobody may write src or use dst meanwhile. After a failure dst holds
 * some of the new elements. -EIO and what else read and write say, with file
 * and offset; -ENODATA: a file has shrunk; -ENOSPC, -EDQUOT; -ENOTSUP: no
 * executor for this pair of storages, or for this dtype.
 */
TARN_PUBLIC int tarn_copy(tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options,
	struct tarn_copy_info *ret_info);

#ifdef __cplusplus
}
#endif
