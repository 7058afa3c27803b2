/* SPDX-License-Identifier: MIT */
/*
 * A loader: the process that touches clients' files, one for each uid.
 *
 * It waits for messages of the server and for completions of its engine, and
 * never for a file: if one file blocks, the reads of others go on; other
 * processes do the closing, which may block (closer.h). Only statx can still
 * block, on a file whose file system is dead: the server notices that and
 * starts another loader. For a file that was just written the loader waits for
 * the next tick of the kernel's clock, some milliseconds.
 *
 * Its memory is that of the keeper it was forked from: the segments are mapped
 * writable, and it writes to no part of them but the allocation of a job.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loader/internal.h"
#include "daemon/loop/loop.h"

/* Completions awaited together, and for how long: a message of the server
 * waits no longer than this; only when a file stalls, up to STALL_MS, so that
 * a dead one does not cost five hundred wake-ups a second. */
#define BATCH ((unsigned)TARN_IO_DEPTH / 4)
#define BATCH_MS 2
#define STALL_MS 50
/* Messages that are taken before bytes are copied again. Picked. */
#define MESSAGES 16
/* Pages that threads still make are looked at again. Picked. */
#define PAGES_MS 20

void loader_send(struct loader_process *loader, enum daemon_message type,
	const void *body, size_t size)
{
	if (!loader->ended &&
		wire_send(loader->sock,
			WIRE_OUT((uint16_t)type, 0, body, size)) < 0)
		loader->ended = true;
}

bool loader_has_uring(const struct loader_process *loader)
{
	return !strcmp(tarn_io_name(loader->io), "io_uring");
}

void loader_send_failed(struct loader_process *loader, uint64_t job, int error)
{
	union {
		struct msg_failed head;
		char bytes[sizeof(struct msg_failed) + TARN_MESSAGE_MAX];
	} body;
	size_t size = strlen(tarn_fail_message());

	body.head = (struct msg_failed) {
		.job = job, .error = error < 0 ? -error : error};
	memcpy(body.head.text, tarn_fail_message(), size);
	loader_send(loader, L_FAILED, &body, sizeof(struct msg_failed) + size);
}

static uint32_t limit(uint16_t type)
{
	switch (type) {
	case L_FILE:
		return sizeof(struct msg_file);
	case L_DROP:
		return sizeof(struct msg_job);
	case L_FORGET:
		return sizeof(struct msg_forget);
	case L_FILL:
		return sizeof(struct msg_fill) +
		       LOAD_RANGES_MAX * sizeof(struct msg_fill_range);
	default:
		return 0;
	}
}

static void handle(struct loader_process *loader, struct wire_message *message)
{
	switch (message->type) {
	case L_FILE:
		job_file(loader, message);
		break;
	case L_FILL:
		job_fill(loader, message);
		break;
	case L_DROP:
		job_drop(loader, message);
		break;
	case L_FORGET:
		loader_forget(loader, message);
		break;
	}
	for (int i = 0; i < message->n_fds; i++)
		closer_close(loader->closer, wire_take_fd(message, i));
	wire_message_clear(message);
}

/* One message; poll reports when there is another. */
static void receive(struct loader_process *loader)
{
	static const struct wire_reader reader = {.limit = limit};
	struct wire_message message;
	int r = wire_receive(loader->sock, &reader, &message);

	if (r > 0)
		handle(loader, &message);
	if (r >= 0 || r == -EAGAIN || r == -ENOBUFS)
		return;
	loader->ended = true;
	if (r != -EPIPE)
		loader->status = 1;
}

/* The time until files that cannot be closed are looked at again; -1: there are
 * none. */
static int pause_ms(const struct loader_process *loader)
{
	uint64_t now = loop_now(), at = closer_poll(loader->closer, now);

	return at ? (int)((at - now) / 1000000) : -1;
}

/*
 * Nothing is read: registers a segment, if the pages of one have come, and
 * returns how long to wait for a message before the next. What comes first is
 * served first.
 */
static int idle_ms(struct loader_process *loader)
{
	int ms = pause_ms(loader);

	if (copies_going_on(loader))
		return 0;
	if (!loader->io)
		return ms;
	if (loader_register_next(loader))
		return 0;
	if (!pages_are_coming(loader->pages))
		return ms;
	return ms < 0 ? PAGES_MS : MIN(ms, PAGES_MS);
}

/*
 * Waits for completions while there are any to come, else for a message. The
 * engine is waited for inside the engine, which wakes us once a batch; waking
 * for each request would cost as much CPU as all the rest. Messages are looked
 * for in between.
 */
static int wait(struct loader_process *loader)
{
	struct pollfd sock = {.fd = loader->sock, .events = POLLIN};
	bool reading = loader->io && tarn_io_pending(loader->io);
	int r = 0;

	if (reading) {
		r = tarn_io_submit_and_wait(loader->io, BATCH,
			copies_going_on(loader) ? 0 : loader->patience);
		if (r < 0)
			return r;
		loader->patience =
			r ? BATCH_MS : MIN(loader->patience * 2, STALL_MS);
	}
	if (poll(&sock, 1, reading ? 0 : idle_ms(loader)) < 0 && errno != EINTR)
		return tarn_fail(errno, "poll: %s", tarn_errno_text(errno));
	for (int i = 0; i < MESSAGES && sock.revents && !loader->ended; i++) {
		receive(loader);
		loader->patience = BATCH_MS;
		sock.revents = 0;
		(void)poll(&sock, 1, 0);
	}
	return 0;
}

/* Until nothing is in flight: then, and only then, may the memory be used for
 * something else. */
static int drain(struct loader_process *loader)
{
	while (!jobs_end(loader)) {
		int r = tarn_io_submit_and_wait(loader->io, 1, -1);

		if (r < 0)
			return r;
	}
	return 0;
}

static int serve(struct loader_process *loader)
{
	int r = 0;

	while (!loader->ended && r >= 0) {
		jobs_advance(loader);
		if (!loader->ended)
			r = wait(loader);
	}
	if (r >= 0)
		r = drain(loader);
	return r;
}

static void close_for(void *arg, int fd)
{
	closer_close(arg, fd);
}

/* In the process that starts closers. */
static void drop_segments(void *arg)
{
	const struct loader_process *loader = arg;

	for (uint32_t i = 0; i < loader->n_segments; i++)
		if (loader->segments[i].addr)
			munmap(loader->segments[i].addr,
				loader->segments[i].size);
}

static int start(struct loader_process *loader, int pipe_fd)
{
	int r = closers_begin(1, drop_segments, loader);

	if (r < 0)
		return r;
	loader->closer = closer_get(0);
	loader->registered = calloc(
		MAX(loader->n_segments, 1u), sizeof(*loader->registered));
	loader->tried =
		calloc(MAX(loader->n_segments, 1u), sizeof(*loader->tried));
	if (!loader->registered || !loader->tried)
		return tarn_fail(ENOMEM, "no memory for %u segments",
			loader->n_segments);
	r = pages_new(loader->n_segments, &loader->pages);
	if (r < 0)
		return r;
	/* Without an engine each load fails with the reason. */
	loader->io_error = tarn_io_new(pipe_fd, &loader->io);
	if (loader->io)
		tarn_io_set_close(loader->io, close_for, loader->closer);
	if (loader->io_error < 0)
		snprintf(loader->io_text, sizeof(loader->io_text), "%s",
			tarn_fail_message());
	return 0;
}

int loader_run(int sock, int pipe_fd, struct mapped_segment *segments,
	uint32_t n_segments)
{
	struct loader_process loader = {
		.sock = sock,
		.segments = segments,
		.n_segments = n_segments,
		.patience = BATCH_MS,
		.node = -1,
	};
	int r;

	prctl(PR_SET_NAME, "tarn-loader");
	signal(SIGPIPE, SIG_IGN);
	/* A writer that meets loader_writers' lease. */
	signal(SIGIO, SIG_IGN);
	if (sched_getaffinity(0, sizeof(loader.all), &loader.all) < 0)
		CPU_ZERO(&loader.all);
	r = start(&loader, pipe_fd);
	/* The engine has its own hold on the pipe, which lasts as long as the
	 * kernel may write. */
	fd_close(pipe_fd);
	if (r >= 0)
		r = serve(&loader);
	tarn_io_free(loader.io);
	pages_free(loader.pages);
	free(loader.registered);
	free(loader.tried);
	fd_close(sock);
	return r < 0 ? 1 : loader.status;
}
