/* SPDX-License-Identifier: MIT */
/*
 * For tests of writes: a file of known bytes, and beside it the same bytes in
 * memory. Everything that is copied to the file is copied to that memory too,
 * and both must be equal afterwards, including all bytes that must not change.
 */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/copy.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/io/io.h"
#include "lib/tensor/tensor.h"
#include "tests/kit/tap.h"

static const char *const engines[] = {"threads", "io_uring"};

static inline bool engine_works(const char *name)
{
	struct tarn_io *io = NULL;
	int r = tarn_io_new_named(name, -1, &io);

	tarn_io_free(io);
	return r >= 0;
}

struct written {
	char path[4200];
	int fd;
	size_t size;
	unsigned char *model; /* room bytes, of which size are in the file */
	size_t room;
	tarn_storage *file, *memory;
};

static inline unsigned char noise(uint64_t p)
{
	p = (p + 1) * UINT64_C(0x9E3779B97F4A7C15);
	return (unsigned char)(p >> 56);
}

static inline void fill_noise(void *buf, size_t size, uint64_t seed)
{
	unsigned char *b = buf;

	for (size_t i = 0; i < size; i++)
		b[i] = noise(i + seed * 1000003);
}

/* The file has size bytes of noise; tensors in it may reach to room. */
static inline void make_written(struct written *w, size_t size, size_t room)
{
	snprintf(w->path, sizeof(w->path), "%s/written", test_tmpdir());
	w->fd = open(w->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	w->size = size;
	w->room = room;
	w->model = calloc(1, room ? room : 1);
	if (w->fd < 0 || !w->model)
		bail("%s: %m", w->path);
	fill_noise(w->model, size, 0);
	if (fd_write_all(w->fd, w->model, size) < 0)
		bail("%s: %m", w->path);
	if (tarn_storage_to_fd(w->fd, 0, room, &w->file) < 0 ||
		tarn_storage_borrow(w->model, room, TARN_BORROW_WRITABLE, NULL,
			NULL, &w->memory) < 0)
		bail("%s", tarn_error_message());
}

static inline void drop_written(struct written *w)
{
	tarn_storage_unref(w->file);
	tarn_storage_unref(w->memory);
	free(w->model);
	fd_close(w->fd);
	unlink(w->path);
}

/* The first byte in which the file is not as the memory; -1: none. Bytes past
 * its end count as zeros. */
static inline int64_t first_unlike(const struct written *w)
{
	unsigned char *seen = calloc(1, w->room + 1);
	ssize_t n = fd_pread(w->fd, seen, w->room + 1, 0);
	int64_t at = -1;

	if (n < 0)
		bail("%s: %m", w->path);
	for (size_t i = 0; i < w->room && at < 0; i++)
		if (seen[i] != w->model[i])
			at = (int64_t)i;
	if (at < 0 && n > (ssize_t)w->room)
		at = (int64_t)w->room;
	free(seen);
	return at;
}

/* A tensor over a storage; the test ends where that cannot be. */
static inline tarn_tensor *tensor_over(
	tarn_storage *s, uint64_t base, const struct tarn_layout *l)
{
	tarn_tensor *t = NULL;

	if (tarn_tensor_new(s, base, l, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

/* Copies src to the file and to the memory beside it; the copy's result. */
static inline int write_both(struct written *w, uint64_t base,
	const struct tarn_layout *l, const tarn_tensor *src,
	const struct tarn_copy_options *o, struct tarn_copy_info *info)
{
	tarn_tensor *dst = tensor_over(w->file, base, l);
	tarn_tensor *model = tensor_over(w->memory, base, l);
	struct tarn_copy_options plain =
		o ? *o : (struct tarn_copy_options) {0};
	int r;

	plain.progress = NULL;
	if (tarn_copy(model, src, &plain, NULL) < 0)
		bail("%s", tarn_error_message());
	r = tarn_copy(dst, src, o, info);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(model);
	return r;
}

/* Noise in memory of its own, shift bytes past a page. */
static inline tarn_tensor *noise_tensor(
	const struct tarn_layout *l, size_t size, size_t shift, uint64_t seed)
{
	char *raw = aligned_alloc(4096, (size + shift + 8191) / 4096 * 4096);
	tarn_storage *s = NULL;
	tarn_tensor *t;

	if (!raw)
		bail("no memory");
	fill_noise(raw + shift, size, seed);
	if (tarn_storage_borrow(raw + shift, size, 0, NULL, NULL, &s) < 0)
		bail("%s", tarn_error_message());
	t = tensor_over(s, 0, l);
	tarn_storage_unref(s);
	return t;
}

static inline void drop_noise(tarn_tensor *t, size_t shift)
{
	char *raw = tarn_storage_data(tarn_tensor_storage(t));

	tarn_tensor_unref(t);
	free(raw - shift);
}
