/* SPDX-License-Identifier: MIT */
/*
 * Chooses the engine, and does the bookkeeping that all would do alike: which
 * slots are taken, how many requests are pending. Whether io_uring works is
 * determined by trying it, never from a version: a container returns EPERM
 * while /proc/sys/kernel/io_uring_disabled reads 0.
 */
#include "lib/io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/io/io_engine.h"

static int new_auto(int keep_fd, struct tarn_io **ret_io)
{
	char why[sizeof((*ret_io)->why)];
	int r = tarn_io_uring_new(keep_fd, ret_io);

	if (r >= 0)
		return r;
	snprintf(why, sizeof(why), "%s", tarn_fail_message());
	r = tarn_io_threads_new(keep_fd, ret_io);
	if (r >= 0)
		memcpy((*ret_io)->why, why, sizeof(why));
	return r;
}

int tarn_io_new(int keep_fd, struct tarn_io **ret_io)
{
	const char *choice = getenv("TARN_ENGINE");
	int r;

	if (!choice || !*choice || !strcmp(choice, "auto"))
		return new_auto(keep_fd, ret_io);
	if (!strcmp(choice, "io_uring"))
		return tarn_io_uring_new(keep_fd, ret_io);
	if (strcmp(choice, "threads"))
		return tarn_fail(EINVAL,
			"TARN_ENGINE is \"%.40s\"; it must be auto, io_uring "
			"or threads",
			choice);
	r = tarn_io_threads_new(keep_fd, ret_io);
	if (r >= 0)
		snprintf((*ret_io)->why, sizeof((*ret_io)->why),
			"TARN_ENGINE=threads was asked for");
	return r;
}

int tarn_io_new_named(const char *name, int keep_fd, struct tarn_io **ret_io)
{
	int r;

	if (!name)
		return tarn_io_new(keep_fd, ret_io);
	if (!strcmp(name, "io_uring"))
		return tarn_io_uring_new(keep_fd, ret_io);
	if (!strcmp(name, "plain"))
		r = tarn_io_plain_new(keep_fd, ret_io);
	else if (!strcmp(name, "threads"))
		r = tarn_io_threads_new(keep_fd, ret_io);
	else
		return tarn_fail(EINVAL,
			"there is no I/O engine \"%.40s\"; it must be "
			"io_uring or threads",
			name);
	if (r >= 0)
		snprintf((*ret_io)->why, sizeof((*ret_io)->why),
			"the engine \"%s\" was asked for", name);
	return r;
}

struct tarn_io *tarn_io_free(struct tarn_io *io)
{
	if (io)
		io->engine->free(io);
	return NULL;
}

const char *tarn_io_name(const struct tarn_io *io)
{
	return io->engine->name;
}

const char *tarn_io_why(const struct tarn_io *io)
{
	return io->why;
}

int tarn_io_fd(struct tarn_io *io)
{
	return io->engine->fd(io);
}

void tarn_io_watch(struct tarn_io *io)
{
	if (io->engine->watch)
		io->engine->watch(io);
}

unsigned tarn_io_pending(const struct tarn_io *io)
{
	return io->pending;
}

static bool taken(const uint64_t *map, unsigned slot)
{
	return map[slot / 64] >> slot % 64 & 1;
}

static void flip(uint64_t *map, unsigned slot)
{
	map[slot / 64] ^= UINT64_C(1) << slot % 64;
}

int tarn_io_register(struct tarn_io *io, unsigned slot, void *addr, size_t size)
{
	int r;

	if (slot >= TARN_IO_BUFFERS)
		return tarn_fail(EINVAL,
			"buffer slot %u is past the last of %u", slot,
			TARN_IO_BUFFERS);
	if (size == 0 || size > TARN_IO_BUFFER_MAX)
		return tarn_fail(EINVAL,
			"a registered buffer has 1 to %u bytes, not %zu",
			TARN_IO_BUFFER_MAX, size);
	if (taken(io->buffers, slot))
		return tarn_fail(
			EBUSY, "buffer slot %u is already registered", slot);
	r = io->engine->set_buffer(io, slot, addr, size);
	if (r == 0)
		flip(io->buffers, slot);
	return r;
}

int tarn_io_unregister(struct tarn_io *io, unsigned slot)
{
	int r;

	if (slot >= TARN_IO_BUFFERS || !taken(io->buffers, slot))
		return tarn_fail(
			EINVAL, "buffer slot %u is not registered", slot);
	r = io->engine->clear_buffer(io, slot);
	if (r == 0)
		flip(io->buffers, slot);
	return r;
}

int tarn_io_add_file(struct tarn_io *io, int fd)
{
	unsigned slot = 0;
	int r;

	while (slot < TARN_IO_FILES && taken(io->files, slot))
		slot++;
	if (slot == TARN_IO_FILES)
		return tarn_fail(EMFILE,
			"all %u file slots of the I/O engine are in use; "
			"wait for a load to end",
			TARN_IO_FILES);
	r = io->engine->set_file(io, slot, fd);
	if (r < 0)
		return r;
	flip(io->files, slot);
	return (int)slot;
}

void tarn_io_drop_file(struct tarn_io *io, int file)
{
	if (file < 0 || file >= TARN_IO_FILES ||
		!taken(io->files, (unsigned)file))
		return;
	io->engine->clear_file(io, (unsigned)file);
	flip(io->files, (unsigned)file);
}

void tarn_io_set_close(
	struct tarn_io *io, void (*fn)(void *arg, int fd), void *arg)
{
	io->close = fn;
	io->close_arg = arg;
}

static int queue(struct tarn_io *io, struct tarn_io_request *req, bool write)
{
	if (io->pending == TARN_IO_DEPTH)
		return 1;
	io->pending++;
	req->write = write;
	io->engine->queue(io, req);
	return 0;
}

int tarn_io_read(struct tarn_io *io, struct tarn_io_request *req)
{
	return queue(io, req, false);
}

int tarn_io_write(struct tarn_io *io, struct tarn_io_request *req)
{
	return queue(io, req, true);
}

void tarn_io_start(struct tarn_io *io)
{
	if (io->engine->start)
		io->engine->start(io);
}

int tarn_io_submit_and_wait(struct tarn_io *io, unsigned n, int timeout_ms)
{
	int r;

	io->reaped = 0;
	r = io->engine->wait(io, n < io->pending ? n : io->pending, timeout_ms);
	return r < 0 ? r : (int)io->reaped;
}
