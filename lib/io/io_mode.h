/* SPDX-License-Identifier: MIT */
/*
 * The way in which bytes of a file get to memory: copied from the page cache
 * where they are in it, read past it from a local disk, through it from
 * anywhere else. It is chosen range by range, since a file may be partly in the
 * cache.
 *
 *	io_mode_init(&io_mode, fd, direct_fd, TARN_IO_AUTO, io_fs_of(fd));
 *	io_mode.end = ...;			as far as will be read, if known
 *	kind = io_mode_at(&io_mode, begin, end, &upto);
 *
 * The result is advice: the cache may change at any moment, and a read in
 * another way returns the same bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/copy.h>

#include "lib/io/direct.h"

enum io_kind {
	IO_KIND_BUFFERED, /* through the page cache, which must fetch them */
	IO_KIND_CACHED,   /* the same, and they are in it */
	IO_KIND_DIRECT,   /* past it */
};

enum io_fs {
	IO_FS_LOCAL,
	/* Another process or machine serves it: its cache is where reads are
	 * joined, its latency is hidden by many parallel reads, and it may not
	 * answer. */
	IO_FS_REMOTE,
	IO_FS_MEMORY, /* tmpfs: there is nothing but the page cache */
};

/* The methods of querying the cache. */
enum io_probe { IO_PROBE_CACHESTAT, IO_PROBE_NOWAIT, IO_PROBE_NOTHING };

struct io_mode {
	int fd; /* buffered; borrowed */
	enum io_fs fs;
	enum tarn_io_mode wish;
	enum io_probe ask;
	struct tarn_direct align; /* for direct reads; 0: there are none */
	uint64_t end; /* no read goes further; UINT64_MAX at first */
	bool prompt;  /* RWF_NOWAIT does not wait; true at first */

	/* Private to io_mode.c: the last answer, and how much to query at
	 * once. */
	uint64_t known, upto, window;
	enum io_kind kind;
	uint32_t seed;
	unsigned reuses; /* how often io_mode_just may give the last answer */
};

/* Asks the file system, and waits as long as that takes: not for a file that
 * may never answer. An unknown file system counts as local. */
enum io_fs io_fs_of(int fd);

/* Does the file system honour RWF_NOWAIT, with which io_uring begins a read? On
 * others a read may wait in spite of it. Queries the file system, and waits, as
 * io_fs_of does. */
bool io_nowait_works(int fd);

/*
 * fd is open without O_DIRECT, direct_fd with, or -1. Both stay the caller's.
 * -EINVAL: wish is TARN_IO_DIRECT, and the file cannot be read so; the sentence
 * says why.
 */
int io_mode_init(struct io_mode *ret, int fd, int direct_fd,
	enum tarn_io_mode wish, enum io_fs fs);

/* The I/O kind for begin, and up to where (begin < *ret_upto <= end) it is the
 * same. */
enum io_kind io_mode_at(struct io_mode *io_mode, uint64_t begin, uint64_t end,
	uint64_t *ret_upto);

/* The I/O kind for these bytes alone: for small reads all over a file, which a
 * query about more than they read would cost as much as they do. */
enum io_kind io_mode_just(
	struct io_mode *io_mode, uint64_t begin, uint64_t end);

/* Are at least about half of these bytes in the page cache? */
bool io_mostly_cached(int fd, uint64_t begin, uint64_t end);

/* The file has refused a direct read: there will be no more. */
void io_mode_refused(struct io_mode *io_mode);
