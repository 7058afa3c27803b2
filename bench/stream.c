/* SPDX-License-Identifier: MIT */
/*
 * Many small tensors of one file, by one stream, beside one tensor of the same
 * bytes:
 *
 *	bench/stream FILE COUNT SIZE
 *
 * FILE has COUNT times SIZE bytes at least; what is read is in the page cache,
 * so that the disk does not hide what a copy costs. Both land in the same
 * memory, in turns; the medians of nine rounds. A third line reads them by one
 * pread each, which is what a loop over tensors does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

enum { ROUNDS = 9, REAPED = 256 };

static uint64_t count, size;
static tarn_tensor **dst, **src, *dst_all, *src_all;
static char *room;
static int fd;

static void die(const char *what)
{
	fprintf(stderr, "bench/stream: %s: %s\n", what, tarn_error_message());
	exit(1);
}

static tarn_tensor *piece(tarn_storage *storage, uint64_t at, uint64_t n)
{
	const int64_t shape = (int64_t)n;
	struct tarn_layout layout;
	tarn_tensor *t;

	if (tarn_layout_contiguous(TARN_U8, 1, &shape, &layout) < 0 ||
		tarn_tensor_new(storage, at, &layout, &t) < 0)
		die("tensor");
	return t;
}

static void make_tensors(void)
{
	tarn_storage *file, *memory;
	uint64_t total = count * size;

	room = malloc(total);
	dst = calloc(count, sizeof(*dst));
	src = calloc(count, sizeof(*src));
	if (!room || !dst || !src ||
		tarn_storage_from_fd(fd, 0, total, &file) < 0 ||
		tarn_storage_borrow(room, total, TARN_BORROW_WRITABLE, NULL,
			NULL, &memory) < 0)
		die("memory");
	memset(room, 1, total);
	for (uint64_t i = 0; i < count; i++) {
		dst[i] = piece(memory, i * size, size);
		src[i] = piece(file, i * size, size);
	}
	dst_all = piece(memory, 0, total);
	src_all = piece(file, 0, total);
	tarn_storage_unref(file);
	tarn_storage_unref(memory);
}

static void by_stream(
	tarn_stream *s, tarn_tensor **to, tarn_tensor **from, uint64_t n)
{
	static struct tarn_completion c[REAPED];
	uint64_t next = 0, left = n;

	while (left) {
		int got, r = 0;

		while (next < n && r == 0) {
			r = tarn_stream_copy(
				s, to[next], from[next], NULL, -1, next, NULL);
			next += r == 0;
		}
		if (r < 0 && r != -EAGAIN)
			die("copy");
		got = tarn_stream_reap(s, REAPED, -1, c, REAPED);
		if (got < 0)
			die("reap");
		for (int i = 0; i < got; i++)
			if (c[i].result < 0) {
				fprintf(stderr, "%s\n", c[i].message);
				exit(1);
			}
		left -= (uint64_t)got;
	}
}

static void by_pread(void)
{
	for (uint64_t i = 0; i < count; i++)
		if (pread(fd, room + i * size, size, (off_t)(i * size)) !=
			(ssize_t)size)
			exit(1);
}

int main(int argc, char **argv)
{
	double many[ROUNDS], one[ROUNDS], preads[ROUNDS], cpu[ROUNDS];
	tarn_stream *s;

	if (argc != 4) {
		fprintf(stderr, "usage: bench/stream FILE COUNT SIZE\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	count = strtoull(argv[2], NULL, 10);
	size = strtoull(argv[3], NULL, 10);
	if (fd < 0 || tarn_stream_new(NULL, &s) < 0)
		die(argv[1]);
	make_tensors();
	by_stream(s, &dst_all, &src_all, 1);
	for (int i = 0; i < ROUNDS; i++) {
		double t = seconds(CLOCK_MONOTONIC);

		cpu[i] = -seconds(CLOCK_PROCESS_CPUTIME_ID);
		by_stream(s, dst, src, count);
		cpu[i] += seconds(CLOCK_PROCESS_CPUTIME_ID);
		many[i] = seconds(CLOCK_MONOTONIC) - t;
		t = seconds(CLOCK_MONOTONIC);
		by_stream(s, &dst_all, &src_all, 1);
		one[i] = seconds(CLOCK_MONOTONIC) - t;
		t = seconds(CLOCK_MONOTONIC);
		by_pread();
		preads[i] = seconds(CLOCK_MONOTONIC) - t;
	}
	printf("%s, %llu tensors of %llu bytes, medians of %d:\n",
		tarn_stream_engine(s), (unsigned long long)count,
		(unsigned long long)size, ROUNDS);
	printf("  one copy of all   %7.1f ms\n", median(one, ROUNDS) * 1e3);
	printf("  a pread each      %7.1f ms, %.2f of it\n",
		median(preads, ROUNDS) * 1e3,
		median(preads, ROUNDS) / median(one, ROUNDS));
	printf("  a copy each       %7.1f ms, %.2f of it, %.2f us and %.2f us "
	       "of CPU each\n",
		median(many, ROUNDS) * 1e3,
		median(many, ROUNDS) / median(one, ROUNDS),
		median(many, ROUNDS) / (double)count * 1e6,
		median(cpu, ROUNDS) / (double)count * 1e6);
	tarn_stream_free(s);
	return 0;
}
