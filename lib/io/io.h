/* SPDX-License-Identifier: MIT */
/*
 * An engine moves byte ranges between files and memory, many at once.
 *
 * There are two full engines behind this interface: io_uring, and a few threads
 * with pread and pwrite for systems where io_uring is refused (containers, old
 * kernels). A third, plain pread and pwrite, is for a few small requests. The
 * simple path:
 *
 *	tarn_io_new(-1, &io);
 *	file = tarn_io_add_file(io, fd);
 *	req = (struct tarn_io_request){.file = file, .buffer = -1, ...};
 *	tarn_io_read(io, &req);                 queued
 *	tarn_io_submit_and_wait(io, 1, -1);     calls req.done(&req)
 *	io = tarn_io_free(io);
 *
 * An engine belongs to one thread, the one that called tarn_io_new: the ring is
 * set up like that (IORING_SETUP_SINGLE_ISSUER), and the kernel refuses others
 * with EEXIST. No call allocates memory per request.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum {
	/* Requests at once. An NVMe drive is busy from about 16 requests of
	 * this size; twice that leaves room to collect them in batches. */
	TARN_IO_DEPTH = 32,
	/* The size of a request. Copies from the page cache, which workers
	 * make, and reads into buffers gain nothing from more. */
	TARN_IO_REQUEST = 512 << 10,
	/* The size of a direct read that goes straight to its destination:
	 * nearly all of its cost is per request. A disk that takes less at once
	 * gets it in parts, which costs little; twice as much would leave files
	 * of some MiB too few requests to keep the disk busy. */
	TARN_IO_STRAIGHT = 1 << 20,
	/* Files open in the engine at once. Picked, not tuned: a fill takes
	 * one or two, and RLIMIT_NOFILE (1024 by default) bounds the table. */
	TARN_IO_FILES = 128,
	/* Buffers: a segment each, 256 GiB in segments of the default size. */
	TARN_IO_BUFFERS = 1024,
	/* The most that one registered buffer may hold: io_uring's limit. */
	TARN_IO_BUFFER_MAX = 1 << 30,
};

struct tarn_io;

/*
 * One read or write. The caller owns it and keeps it, and the memory at addr,
 * in place until done is called. done may hand the same request to tarn_io_read
 * or tarn_io_write again (there is always room for that one); it must not wait,
 * nor free the engine.
 */
struct tarn_io_request {
	int file;        /* slot returned by tarn_io_add_file */
	int buffer;      /* slot given to tarn_io_register; -1: none */
	uint64_t offset; /* in the file, bytes */
	void *addr;      /* a write only reads there */
	uint32_t size;
	bool may_block; /* for ever, as a read of a dead FUSE file does in its
			 * submission: it is left to a worker */
	bool write;     /* set by the call that queues it */
	int32_t res;    /* set before done: bytes moved, which may be fewer than
			size (reads: 0 at the end of the file), or -errno */
	void (*done)(struct tarn_io_request *);
	struct tarn_io_request *next; /* the engine's */
};

/*
 * Starts an engine. TARN_ENGINE in the environment chooses: "auto" (the
 * default: io_uring, else threads), "io_uring" (refused is an error),
 * "threads".
 *
 * keep_fd, unless -1, is a descriptor that stays open for as long as the kernel
 * may still write memory on behalf of this engine, even when its process is
 * killed in mid-flight; the write end of a pipe, say, whose reader waits for
 * the end. The engine takes a reference of its own; the caller closes its
 * keep_fd, or else keeps the pipe open itself.
 *
 * -EINVAL: TARN_ENGINE is none of the three. -EPERM, -ENOSYS, -ENOMEM and what
 * else io_uring_setup says, only for "io_uring". -EMFILE, -ENOMEM: neither
 * works.
 */
int tarn_io_new(int keep_fd, struct tarn_io **ret_io) _must_check_;

/*
 * The engine of that name: "io_uring", "threads", or "plain", which does all of
 * its work in tarn_io_submit_and_wait and has no descriptor to poll. NULL: as
 * tarn_io_new. -EINVAL: there is none of that name.
 */
int tarn_io_new_named(
	const char *name, int keep_fd, struct tarn_io **ret_io) _must_check_;

/*
 * Ends it. Takes NULL and returns NULL. Requests not reaped are forgotten: done
 * is not called for them. With threads, this waits for requests under way, for
 * ever if the file blocks for ever; with io_uring the kernel finishes them
 * after this returns, and then closes keep_fd.
 */
struct tarn_io *tarn_io_free(struct tarn_io *io);
DEFINE_CLEANUP(struct tarn_io *, tarn_io_free);
#define _cleanup_io_ _cleanup_(tarn_io_freep)

/* "io_uring", "threads" or "plain". */
const char *tarn_io_name(const struct tarn_io *io);
/* Why it is not io_uring, one sentence; "" when it is. */
const char *tarn_io_why(const struct tarn_io *io);

/*
 * Registers a buffer: its pages are pinned once instead of at each request.
 * Size is 1 byte to TARN_IO_BUFFER_MAX, the slot is free and below
 * TARN_IO_BUFFERS. Returns 0; or 1, not registered, and tarn_fail_message()
 * says why (memlock, or an engine that does not register): the caller goes on
 * with buffer = -1 and may try again later. -EINVAL, -EBUSY, -EFAULT.
 */
int tarn_io_register(
	struct tarn_io *io, unsigned slot, void *addr, size_t size);
/* Frees the slot. Requests under way keep the pages until they are done. */
int tarn_io_unregister(struct tarn_io *io, unsigned slot);

/*
 * A slot for an open file, >= 0. The engine takes its own reference; the
 * caller may close fd at once. -EMFILE: TARN_IO_FILES are in use. -EBADF.
 */
int tarn_io_add_file(struct tarn_io *io, int fd) _must_check_;
/* Frees the slot. Not while a request of it is queued or under way. */
void tarn_io_drop_file(struct tarn_io *io, int file);

/* How an engine closes its copies of descriptors. For processes that must not
 * call close() on a foreign file, since its file system may block in it. */
void tarn_io_set_close(
	struct tarn_io *io, void (*fn)(void *arg, int fd), void *arg);

/* Queues a read: 0, or 1 when TARN_IO_DEPTH are queued and under way. */
int tarn_io_read(struct tarn_io *io, struct tarn_io_request *req) _must_check_;
/* The same, a write. Past RLIMIT_FSIZE it is -EFBIG, and where the kernel sends
 * SIGXFSZ with that, it sends it to this thread. */
int tarn_io_write(struct tarn_io *io, struct tarn_io_request *req) _must_check_;

/* Requests queued or under way, 0 to TARN_IO_DEPTH. */
unsigned tarn_io_pending(const struct tarn_io *io);

/* Submits the queued requests, and calls done for none. A drive that gets many at
 * once ends them together, and has nothing to do until the next come. */
void tarn_io_start(struct tarn_io *io);

/*
 * Submits the queued requests, waits until n requests are done (or all, when
 * there are fewer; or timeout_ms has passed, unless it is negative; or a signal
 * came), and calls done for each. n = 0 does not wait. Returns how many were
 * done, possibly 0; -errno when the engine itself failed.
 */
int tarn_io_submit_and_wait(struct tarn_io *io, unsigned n, int timeout_ms);

/*
 * For an outer poll loop: readable (POLLIN) when submit_and_wait has something
 * to call done for. Level-triggered. Waking for each request costs as much as
 * the request: when it is readable, wait for a batch with a short time-out
 * (submit_and_wait(io, TARN_IO_DEPTH / 4, 2)). The engine keeps the descriptor,
 * which is made by the first call: -EMFILE, -ENFILE, -ENOMEM; -ENOTSUP: it has
 * none.
 */
int tarn_io_fd(struct tarn_io *io);
/* Keeps the descriptor up to date from now on, which costs something at each
 * wait. If requests are pending it may be readable once for nothing. */
void tarn_io_watch(struct tarn_io *io);
