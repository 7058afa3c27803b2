// SPDX-License-Identifier: MIT
/*
 * The plain engine: nothing is under way between two calls. Requests are
 * queued, and the wait carries them out, one after the other, in the caller's
 * thread. For requests so small that setting up a ring, or waking a thread,
 * would take longer than the I/O.
 */
#include "lib/io/io_engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"

struct plain {
	struct tarn_io io;
	struct tarn_io_request *head, **tail; /* in the order they came */
	int keep_fd;
	int fd[TARN_IO_FILES]; /* valid where io.files has the slot */
};

static struct plain *plain_of(const struct tarn_io *io)
{
	return (struct plain *)io; /* the head of it */
}

static int32_t transfer(struct plain *p, struct tarn_io_request *req)
{
	int fd = p->fd[req->file];
	off_t at = (off_t)req->offset;
	ssize_t n = req->write ? pwrite(fd, req->addr, req->size, at)
			       : pread(fd, req->addr, req->size, at);

	return n < 0 ? -errno : (int32_t)n;
}

/* Whatever n is, all are done: there is no one else to do them meanwhile.
 * Requests that done() queues are for the next call, as with the other
 * engines. */
static int plain_wait(struct tarn_io *io, unsigned n, int timeout_ms)
{
	struct plain *p = plain_of(io);
	struct tarn_io_request *req = p->head, *next;

	p->head = NULL;
	p->tail = &p->head;
	for (; req; req = next) {
		next = req->next;
		tarn_io_done(io, req, transfer(p, req));
	}
	return 0;
}

static void plain_queue(struct tarn_io *io, struct tarn_io_request *req)
{
	struct plain *p = plain_of(io);

	req->next = NULL;
	*p->tail = req;
	p->tail = &req->next;
}

/* There is never anything to wait for. */
static int plain_fd(struct tarn_io *io)
{
	return tarn_fail(ENOTSUP, "the plain engine has no descriptor");
}

static int plain_set_file(struct tarn_io *io, unsigned slot, int fd)
{
	int copy = fd_dup(fd);

	if (copy < 0)
		return tarn_fail(-copy,
			"descriptor %d cannot be duplicated: %s", fd,
			tarn_errno_text(-copy));
	plain_of(io)->fd[slot] = copy;
	return 0;
}

static void plain_clear_file(struct tarn_io *io, unsigned slot)
{
	int fd = plain_of(io)->fd[slot];

	if (io->close)
		io->close(io->close_arg, fd);
	else
		fd_close(fd);
}

static int plain_set_buffer(
	struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	tarn_fail(ENOTSUP, "the plain engine registers no buffers");
	return 1;
}

static int plain_clear_buffer(struct tarn_io *io, unsigned slot)
{
	return 0;
}

static void plain_free(struct tarn_io *io)
{
	struct plain *p = plain_of(io);

	for (unsigned i = 0; i < TARN_IO_FILES; i++)
		if (io->files[i / 64] >> i % 64 & 1)
			fd_close(p->fd[i]);
	fd_close(p->keep_fd);
	free(p);
}

static const struct tarn_io_engine plain_engine = {
	.name = "plain",
	.free = plain_free,
	.fd = plain_fd,
	.set_file = plain_set_file,
	.clear_file = plain_clear_file,
	.set_buffer = plain_set_buffer,
	.clear_buffer = plain_clear_buffer,
	.queue = plain_queue,
	.wait = plain_wait,
};

int tarn_io_plain_new(int keep_fd, struct tarn_io **ret_io)
{
	struct plain *p = calloc(1, sizeof(*p));

	if (!p)
		return tarn_fail(ENOMEM, "no memory for an I/O engine");
	p->io.engine = &plain_engine;
	p->tail = &p->head;
	p->keep_fd = keep_fd < 0 ? -1 : fd_dup(keep_fd);
	if (keep_fd >= 0 && p->keep_fd < 0) {
		int err = -p->keep_fd;

		free(p);
		return tarn_fail(err, "the plain engine gets no descriptor: %s",
			tarn_errno_text(err));
	}
	*ret_io = &p->io;
	return 0;
}
