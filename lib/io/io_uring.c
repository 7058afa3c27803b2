/* SPDX-License-Identifier: MIT */
/*
 * The io_uring engine. Everything that a request would look up or pin is
 * registered in advance (the ring, the files, the segments), so that one system
 * call moves megabytes and the kernel only fills in addresses.
 *
 * The keep_fd is a fixed file in the last slot. The ring of a killed process
 * waits for its requests before it releases its files; so the descriptor lives
 * exactly as long as a read can still complete.
 *
 * The descriptor to poll is an eventfd, not the ring. With DEFER_TASKRUN a
 * completed request becomes work in a list of the ring's thread (K1), a flag in
 * the ring is set (K2), and, if it is the first in the list, the eventfd is
 * written (K3); its entry is posted when the thread waits for it, and the
 * eventfd is written then too. The kernel does not wake a poll() on the ring
 * itself for such work, nor an epoll set.
 *
 * A wait makes the kernel post all entries (U1), reads the eventfd empty (U2),
 * since U1 itself has written it, and then reads the flag (U3) before it calls
 * done() for the posted ones (U4). No completion is missed: if K3 was before
 * U2, so was K2, and U3 sees the flag, unless a wait in between has posted the
 * entry, which U4 then sees; with the flag it begins again at U1. If K3 was
 * after U2, the eventfd is readable. Work that is not the first in its list has
 * one before it for which the same holds, and U1 takes both. Without
 * DEFER_TASKRUN there is no flag: then the eventfd is written when the entry
 * has been posted, and U4 sees the entries posted before U2.
 */
#include "lib/io/io.h"

#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "lib/io/io_engine.h"

enum { KEEP_SLOT = TARN_IO_FILES };

/* ENOMEM nearly always means this limit. */
#define MEMLOCK_HINT " (raise the memlock limit, ulimit -l)"

struct uring {
	struct tarn_io io;
	struct io_uring ring;
	pthread_t owner;
	int event_fd; /* -1: not asked for yet */
	bool watched; /* it is written by the kernel, and must be read */
};

static struct uring *uring_of(const struct tarn_io *io)
{
	return (struct uring *)io; /* the head of it */
}

static void uring_free(struct tarn_io *io)
{
	struct uring *u = uring_of(io);

	/* The ring's registered number is valid in its thread only: in another
	 * it may stand for a ring that is still in use. */
	if (!pthread_equal(u->owner, pthread_self()))
		u->ring.enter_ring_fd = -1;
	io_uring_queue_exit(&u->ring);
	fd_close(u->event_fd);
	free(u);
}

/* ---- the descriptor -------------------------------------------------- */

/* It costs nothing before it is polled. */
static int uring_fd(struct tarn_io *io)
{
	struct uring *u = uring_of(io);
	int fd, r;

	if (u->event_fd >= 0)
		return u->event_fd;
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = fd < 0 ? -errno : io_uring_register_eventfd(&u->ring, fd);
	if (r < 0) {
		fd_close(fd);
		return tarn_fail(-r, "io_uring gets no eventfd: %s",
			tarn_errno_text(-r));
	}
	io_uring_cq_eventfd_toggle(&u->ring, false);
	u->event_fd = fd;
	return fd;
}

static void uring_watch(struct tarn_io *io)
{
	struct uring *u = uring_of(io);
	uint64_t one = 1;

	if (u->watched)
		return;
	u->watched = true;
	io_uring_cq_eventfd_toggle(&u->ring, true);
	/* Pairs with the barrier of the kernel between its list and its look at
	 * whether the eventfd is on: work that found it off is in the list for
	 * the next wait, which this write causes. */
	atomic_thread_fence(memory_order_seq_cst);
	if (io->pending && write(u->event_fd, &one, 8) != 8)
		abort(); /* it would have to be full */
}

static bool has_work(const struct uring *u)
{
	return IO_URING_READ_ONCE(*u->ring.sq.kflags) & IORING_SQ_TASKRUN;
}

/* After U1. It ends, since there is a bounded number of requests. If nothing
 * was written, no write is lost. */
static void make_quiet(struct uring *u)
{
	uint64_t count;

	while (read(u->event_fd, &count, 8) == 8 && has_work(u))
		io_uring_get_events(&u->ring);
}

/* ---- files and buffers ----------------------------------------------- */

static int uring_set_file(struct tarn_io *io, unsigned slot, int fd)
{
	int r = io_uring_register_files_update(
		&uring_of(io)->ring, slot, &fd, 1);

	if (r == 1)
		return 0;
	/* 0: the kernel took fd for an empty slot. */
	return tarn_fail(r < 0 ? -r : EBADF,
		"descriptor %d cannot be given to io_uring: %s", fd,
		tarn_errno_text(r < 0 ? -r : EBADF));
}

static void uring_clear_file(struct tarn_io *io, unsigned slot)
{
	int none = -1;

	io_uring_register_files_update(&uring_of(io)->ring, slot, &none, 1);
}

static int update_buffer(
	struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	struct iovec iov = {.iov_base = addr, .iov_len = size};
	__u64 tag = 0;

	return io_uring_register_buffers_update_tag(
		&uring_of(io)->ring, slot, &iov, &tag, 1);
}

static int uring_set_buffer(
	struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	int r = update_buffer(io, slot, addr, size);

	if (r == 1)
		return 0;
	tarn_fail(r ? -r : EINVAL,
		"%zu bytes cannot be registered with io_uring: %s%s", size,
		tarn_errno_text(r ? -r : EINVAL),
		r == -ENOMEM ? MEMLOCK_HINT : "");
	return r == -ENOMEM || r == -EPERM ? 1 : r ? r : -EINVAL;
}

static int uring_clear_buffer(struct tarn_io *io, unsigned slot)
{
	int r = update_buffer(io, slot, NULL, 0);

	if (r == 1)
		return 0;
	return tarn_fail(r ? -r : EINVAL,
		"buffer slot %u cannot be given back to io_uring: %s", slot,
		tarn_errno_text(r ? -r : EINVAL));
}

/* ---- requests -------------------------------------------------------- */

static void uring_queue(struct tarn_io *io, struct tarn_io_request *req)
{
	/* There are as many entries as io.c admits: so there is always one. */
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring_of(io)->ring);
	bool fixed = req->buffer >= 0;

	if (req->write && fixed)
		io_uring_prep_write_fixed(sqe, req->file, req->addr, req->size,
			req->offset, req->buffer);
	else if (req->write)
		io_uring_prep_write(
			sqe, req->file, req->addr, req->size, req->offset);
	else if (fixed)
		io_uring_prep_read_fixed(sqe, req->file, req->addr, req->size,
			req->offset, req->buffer);
	else
		io_uring_prep_read(
			sqe, req->file, req->addr, req->size, req->offset);
	io_uring_sqe_set_flags(
		sqe, IOSQE_FIXED_FILE | (req->may_block ? IOSQE_ASYNC : 0u));
	io_uring_sqe_set_data(sqe, req);
}

static void uring_start(struct tarn_io *io)
{
	io_uring_submit(&uring_of(io)->ring);
}

static void reap(struct uring *u)
{
	struct io_uring_cqe *cqe;

	/* It ends: requests queued by done() are not submitted before the next
	 * wait. Only posted entries are reaped: the kernel must not write the
	 * eventfd again. */
	while (io_uring_cq_ready(&u->ring) &&
		io_uring_peek_cqe(&u->ring, &cqe) == 0) {
		struct tarn_io_request *req = io_uring_cqe_get_data(cqe);
		int32_t res = cqe->res;

		io_uring_cqe_seen(&u->ring, cqe);
		tarn_io_done(&u->io, req, res);
	}
}

static int uring_wait(struct tarn_io *io, unsigned n, int timeout_ms)
{
	struct uring *u = uring_of(io);
	struct __kernel_timespec ts = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000LL,
	};
	struct io_uring_cqe *cqe;
	int r;

	if (n == 0)
		r = io_uring_submit_and_get_events(&u->ring);
	else
		r = io_uring_submit_and_wait_timeout(
			&u->ring, &cqe, n, timeout_ms < 0 ? NULL : &ts, NULL);
	if (u->watched)
		make_quiet(u);
	reap(u);
	/* The first three mean what they say; the others mean that the kernel
	 * has no room now, and that reaping makes some: entries that it did not
	 * take stay in the queue for the next call. */
	if (r >= 0 || r == -ETIME || r == -EINTR || r == -EAGAIN || r == -EBUSY)
		return 0;
	return tarn_fail(-r, "io_uring_enter: %s", tarn_errno_text(-r));
}

static const struct tarn_io_engine uring_engine = {
	.name = "io_uring",
	.free = uring_free,
	.fd = uring_fd,
	.watch = uring_watch,
	.set_file = uring_set_file,
	.clear_file = uring_clear_file,
	.set_buffer = uring_set_buffer,
	.clear_buffer = uring_clear_buffer,
	.queue = uring_queue,
	.start = uring_start,
	.wait = uring_wait,
};

/*
 * From the best to the simplest. DEFER_TASKRUN (6.1) completes requests while
 * the thread waits for them, all at once, instead of interrupting it for each,
 * and TASKRUN_FLAG shows that there are some; COOP_TASKRUN (5.19) only avoids
 * the interrupts.
 */
static int open_ring(struct io_uring *ring)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG,
		IORING_SETUP_COOP_TASKRUN,
		0,
	};
	int r = -EINVAL;

	for (size_t i = 0; i < 3 && r == -EINVAL; i++)
		r = io_uring_queue_init(TARN_IO_DEPTH, ring, flags[i]);
	if (r < 0)
		return tarn_fail(-r, "io_uring is refused here: %s%s",
			tarn_errno_text(-r), r == -ENOMEM ? MEMLOCK_HINT : "");
	return 0;
}

static int probe(struct io_uring *ring)
{
	static const int wanted[] = {
		IORING_OP_READ_FIXED,
		IORING_OP_READ,
		IORING_OP_WRITE_FIXED,
		IORING_OP_WRITE,
	};
	struct io_uring_probe *p = io_uring_get_probe_ring(ring);
	bool fits = p;

	for (size_t i = 0; fits && i < ARRAY_SIZE(wanted); i++)
		fits = io_uring_opcode_supported(p, wanted[i]);
	io_uring_free_probe(p);
	if (!fits)
		return tarn_fail(
			ENOSYS, "this kernel's io_uring cannot read and write");
	return 0;
}

/*
 * Empty tables, to be filled slot by slot. Arrays of empty slots instead of the
 * "sparse" calls: those are newer (5.19) and do the same.
 */
static int make_tables(struct io_uring *ring, int keep_fd)
{
	struct iovec *buffers = calloc(TARN_IO_BUFFERS, sizeof(*buffers));
	int files[TARN_IO_FILES + 1];
	int r = -ENOMEM;

	memset(files, -1, sizeof(files));
	files[KEEP_SLOT] = keep_fd;
	if (buffers)
		r = io_uring_register_files(ring, files, TARN_IO_FILES + 1);
	if (r >= 0)
		r = io_uring_register_buffers(ring, buffers, TARN_IO_BUFFERS);
	free(buffers);
	if (r < 0)
		return tarn_fail(-r,
			"io_uring refuses its tables of files and buffers: %s",
			tarn_errno_text(-r));
	return 0;
}

int tarn_io_uring_new(int keep_fd, struct tarn_io **ret_io)
{
	struct uring *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return tarn_fail(ENOMEM, "no memory for an I/O engine");
	u->io.engine = &uring_engine;
	u->event_fd = -1;
	u->owner = pthread_self();
	r = open_ring(&u->ring);
	if (r < 0) {
		free(u);
		return r;
	}
	r = probe(&u->ring);
	if (r >= 0)
		r = make_tables(&u->ring, keep_fd);
	if (r < 0) {
		uring_free(&u->io);
		return r;
	}
	/* Saves one look-up per call; older kernels do without. */
	io_uring_register_ring_fd(&u->ring);
	*ret_io = &u->io;
	return 0;
}
