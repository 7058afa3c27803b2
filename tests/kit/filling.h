/* SPDX-License-Identifier: MIT */
/* What the tests of fills share: a file whose bytes are known by position, a
 * small pool between canaries, and the question which of them changed. */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "lib/io/fill.h"
#include "tests/kit/tap.h"

enum { SEGMENT = 1 << 20, SEGMENTS = 4, CANARY = 0xA5 };

/* Four segments, each with a mapping of its own, as in a pool. */
struct pool {
	struct tarn_fill_segment segments[SEGMENTS];
};

/* Position p of each file of these tests; no period that a lost or doubled
 * block would fit. */
static inline unsigned char byte_at(uint64_t p)
{
	p = (p + 1) * UINT64_C(0x9E3779B97F4A7C15);
	return (unsigned char)(p >> 56);
}

/* The same as an array, of as many bytes as the pool has. */
static inline const unsigned char *text(void)
{
	static unsigned char bytes[SEGMENTS * SEGMENT];

	if (bytes[0] != byte_at(0) || bytes[1] != byte_at(1))
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = byte_at(i);
	return bytes;
}

struct files {
	char path[4200];
	int direct, buffered; /* direct: -1 where the file system has none */
};

static inline void make_file(struct files *f, const char *name, size_t size)
{
	snprintf(f->path, sizeof(f->path), "%s/%s", test_tmpdir(), name);
	f->buffered =
		open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (f->buffered < 0 || fd_write_all(f->buffered, text(), size) < 0)
		bail("%s cannot be written: %m", f->path);
	fsync(f->buffered);
	f->direct = open(f->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

static inline void drop_files(struct files *f)
{
	fd_close(f->direct);
	fd_close(f->buffered);
	unlink(f->path);
}

static inline void make_pool(struct pool *p, struct tarn_io *io, bool enrol)
{
	for (int i = 0; i < SEGMENTS; i++) {
		struct tarn_fill_segment *s = &p->segments[i];

		/* Not neighbours: a read across the border would show. */
		s->addr = mmap(NULL, SEGMENT + 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (s->addr == MAP_FAILED)
			bail("mmap: %m");
		mprotect((char *)s->addr + SEGMENT, 4096, PROT_NONE);
		s->pool_offset = (uint64_t)i * SEGMENT;
		s->size = SEGMENT;
		s->buffer = -1;
		if (enrol && tarn_io_register(
				     io, (unsigned)i, s->addr, SEGMENT) == 0)
			s->buffer = i;
	}
}

static inline void drop_pool(struct pool *p)
{
	for (int i = 0; i < SEGMENTS; i++)
		munmap(p->segments[i].addr, SEGMENT + 4096);
}

static inline void reset_pool(struct pool *p)
{
	for (int i = 0; i < SEGMENTS; i++)
		memset(p->segments[i].addr, CANARY, SEGMENT);
}

/* Part of the pool that seg holds: n bytes at `at`, at most to its end. */
static inline size_t clip(uint64_t *at, uint64_t end, uint64_t seg)
{
	uint64_t lo = *at > seg ? *at : seg;
	uint64_t hi = end < seg + SEGMENT ? end : seg + SEGMENT;

	*at = lo;
	return lo < hi ? hi - lo : 0;
}

/* The first pool offset that is not as it should be after this fill: wanted
 * bytes in the range, canaries outside the allocation. -1: all are. */
static inline int64_t first_wrong(
	const struct pool *p, const struct tarn_fill_job *j)
{
	static unsigned char want[SEGMENT];

	for (int i = 0; i < SEGMENTS; i++) {
		const unsigned char *seen = p->segments[i].addr;
		uint64_t seg = (uint64_t)i * SEGMENT;
		uint64_t at = j->alloc_offset;
		size_t n = clip(&at, at + j->alloc_size, seg);

		memset(want, CANARY, SEGMENT);
		if (n) /* what is around the range may be anything */
			memcpy(want + (at - seg), seen + (at - seg), n);
		at = j->base;
		n = clip(&at, at + j->size, seg);
		if (n)
			memcpy(want + (at - seg),
				text() + j->file_offset + (at - j->base), n);
		if (!memcmp(want, seen, SEGMENT))
			continue;
		for (at = 0; want[at] == seen[at];)
			at++;
		return (int64_t)(seg + at);
	}
	return -1;
}

/* An allocation of whole pages, and the place in it that is congruent. */
static inline struct tarn_fill_job job_for(const struct files *f,
	const struct pool *p, uint64_t alloc_offset, uint64_t file_offset,
	uint64_t size)
{
	uint64_t lead = file_offset % 4096;

	return (struct tarn_fill_job) {
		.direct_fd = f->direct,
		.buffered_fd = f->buffered,
		.io_mode = TARN_IO_DIRECT,
		.file_offset = file_offset,
		.size = size,
		.alloc_offset = alloc_offset,
		.alloc_size = (lead + size + 4095) / 4096 * 4096,
		.base = alloc_offset + lead,
		.segments = p->segments,
		.n_segments = SEGMENTS,
	};
}

/* An engine of this name, or NULL where it is refused. */
static inline struct tarn_io *engine(const char *name, int keep_fd)
{
	struct tarn_io *io = NULL;

	setenv("TARN_ENGINE", name, 1);
	return tarn_io_new(keep_fd, &io) < 0 ? NULL : io;
}
