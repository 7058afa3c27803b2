/* SPDX-License-Identifier: MIT */
/*
 * The interface between lib/io/io.c and an engine. io.c checks slots and counts
 * requests, so that an engine need not; it passes on only valid requests, and
 * never more than TARN_IO_DEPTH at once.
 */
#pragma once

#include "lib/io/io.h"

struct tarn_io_engine {
	const char *name;
	void (*free)(struct tarn_io *io);
	int (*fd)(struct tarn_io *io);
	void (*watch)(struct tarn_io *io); /* NULL: there is nothing to do */
	int (*set_file)(struct tarn_io *io, unsigned slot, int fd);
	void (*clear_file)(struct tarn_io *io, unsigned slot);
	int (*set_buffer)(
		struct tarn_io *io, unsigned slot, void *addr, size_t size);
	int (*clear_buffer)(struct tarn_io *io, unsigned slot);
	/* Queues a request, in the direction of req->write. */
	void (*queue)(struct tarn_io *io, struct tarn_io_request *req);
	/* Submits what is queued; NULL: the next wait does. What does not
	 * succeed is done by that wait, too. */
	void (*start)(struct tarn_io *io);
	/* Submits and waits for n <= the requests pending; calls
	 * tarn_io_done for each that is done. 0 or -errno. */
	int (*wait)(struct tarn_io *io, unsigned n, int timeout_ms);
};

/* The head of each engine's own structure. */
struct tarn_io {
	const struct tarn_io_engine *engine;
	unsigned pending;
	unsigned reaped; /* in this submit_and_wait */
	uint64_t files[TARN_IO_FILES / 64];
	uint64_t buffers[TARN_IO_BUFFERS / 64];
	char why[256];
	void (*close)(void *arg, int fd); /* NULL: fd_close */
	void *close_arg;
};

/* Makes an engine and gives it keep_fd. -errno and a sentence when refused. */
int tarn_io_uring_new(int keep_fd, struct tarn_io **ret_io);
int tarn_io_threads_new(int keep_fd, struct tarn_io **ret_io);
int tarn_io_plain_new(int keep_fd, struct tarn_io **ret_io);

/* Counts a completion and calls done(). */
static inline void tarn_io_done(
	struct tarn_io *io, struct tarn_io_request *req, int32_t res)
{
	/* First, so that there is room for req again. */
	io->pending--;
	io->reaped++;
	req->res = res;
	req->done(req);
}
