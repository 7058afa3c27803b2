/* SPDX-License-Identifier: MIT */
/* For tests of streams: files of noise, views of them and of memory, and how a
 * stream's copies are reaped. */
#pragma once

#include <poll.h>

#include "tests/kit/written.h"

/* Silence of a descriptor that is longer than this is for ever. */
enum { PATIENCE_MS = 60000 };

/* A file of that name in the test's folder, which kit_stream_unlink removes. */
static inline int kit_stream_file(
	const char *name, const void *bytes, size_t size)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, bytes, size) < 0)
		bail("%s: %m", path);
	return fd;
}

static inline void kit_stream_unlink(const char *name)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	unlink(path);
}

/* Of the first size bytes; may be written. */
static inline tarn_storage *kit_stream_in_file(int fd, uint64_t size)
{
	tarn_storage *s;

	if (tarn_storage_to_fd(fd, 0, size, &s) < 0)
		bail("%s", tarn_error_message());
	return s;
}

static inline tarn_storage *kit_stream_in_memory(void *bytes, uint64_t size)
{
	tarn_storage *s;

	if (tarn_storage_borrow(
		    bytes, size, TARN_BORROW_WRITABLE, NULL, NULL, &s) < 0)
		bail("%s", tarn_error_message());
	return s;
}

/* So many bytes of it. */
static inline tarn_tensor *kit_stream_bytes(
	tarn_storage *s, uint64_t at, uint64_t size)
{
	const int64_t shape = (int64_t)size;
	struct tarn_layout l;

	if (tarn_layout_contiguous(TARN_U8, 1, &shape, &l) < 0)
		bail("%s", tarn_error_message());
	return tensor_over(s, at, &l);
}

/* buffer 0: the default. */
static inline tarn_stream *kit_stream_stream(
	const char *engine, uint64_t buffer)
{
	const struct tarn_stream_options o = {
		.engine = engine, .buffer = buffer};
	tarn_stream *s;

	if (tarn_stream_new(&o, &s) < 0)
		bail("%s: %s", engine, tarn_error_message());
	return s;
}

/* Bytes at src_at of src to dst_at of dst. */
static inline void kit_stream_copy(tarn_stream *s, tarn_storage *dst,
	uint64_t dst_at, tarn_storage *src, uint64_t src_at, uint64_t size,
	const struct tarn_copy_options *o, uint64_t user)
{
	tarn_tensor *to = kit_stream_bytes(dst, dst_at, size);
	tarn_tensor *from = kit_stream_bytes(src, src_at, size);

	if (tarn_stream_copy(s, to, from, o, -1, user, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(to);
	tarn_tensor_unref(from);
}

/* Reaps n copies, only ever when the descriptor is readable. How many there
 * were when it had been silent for too long, or n. */
static inline int kit_stream_reap_polled(
	tarn_stream *s, struct tarn_completion *rets, int n)
{
	struct pollfd p = {.fd = tarn_stream_fd(s), .events = POLLIN};
	int got = 0, r = 0;

	while (got < n && r >= 0 && poll(&p, 1, PATIENCE_MS) == 1) {
		r = tarn_stream_reap(s, 0, 0, rets + got, n - got);
		got += r;
	}
	return got;
}
