/* SPDX-License-Identifier: MIT */
/*
 * How fast, and at what price in CPU, memory becomes a file:
 *
 *	bench/write FILE MIB [--once] [--buffered]
 *
 * The memory is mapped as a pool's is (shared, page-aligned) and touched before
 * the clock starts; the file is new each time, as a save's is. TARN_ENGINE
 * chooses the engine. Prints one line.
 *
 * A stream whose engine knows the memory beforehand; or, --once, tarn_copy,
 * which pins it page by page.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

static int fail(const char *what)
{
	fprintf(stderr, "bench/write: %s: %s\n", what, tarn_error_message());
	return 1;
}

static int by_stream(tarn_tensor *dst, const tarn_tensor *src,
	const struct tarn_copy_options *options, struct tarn_copy_info *ret)
{
	struct tarn_completion done = {0};
	tarn_stream *s = NULL;
	double wall, cpu;
	int r = tarn_stream_new(NULL, &s);

	if (r >= 0)
		r = tarn_stream_register(s, tarn_tensor_storage(src));
	wall = seconds(CLOCK_MONOTONIC);
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	if (r >= 0)
		r = tarn_stream_copy(s, dst, src, options, -1, 0, NULL);
	if (r >= 0)
		r = tarn_stream_reap(s, 1, -1, &done, 1);
	if (r == 1 && done.result < 0)
		fprintf(stderr, "%s\n", done.message);
	*ret = done.info;
	ret->seconds = seconds(CLOCK_MONOTONIC) - wall;
	ret->cpu_seconds = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	tarn_stream_free(s);
	return r == 1 ? done.result : r;
}

int main(int argc, char **argv)
{
	int64_t size = argc > 2 ? atoll(argv[2]) << 20 : 0;
	struct tarn_copy_options options = {0};
	struct tarn_copy_info info;
	tarn_storage *memory = NULL, *file = NULL;
	tarn_tensor *src = NULL, *dst = NULL;
	struct tarn_layout l;
	uint64_t *p;
	bool once = false;
	double gib;
	int fd;

	if (size <= 0) {
		fprintf(stderr, "usage: %s FILE MIB [--once] [--buffered]\n",
			argv[0]);
		return 2;
	}
	for (int i = 3; i < argc; i++) {
		once |= !strcmp(argv[i], "--once");
		if (!strcmp(argv[i], "--buffered"))
			options.io_mode = TARN_IO_BUFFERED;
	}
	p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (p == MAP_FAILED || fd < 0) {
		perror(argv[1]);
		return 1;
	}
	for (int64_t i = 0; i < size / 8; i++) /* not what a disk packs */
		p[i] = (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15);
	if (tarn_layout_contiguous(TARN_U8, 1, &size, &l) < 0 ||
		tarn_storage_borrow(p, (uint64_t)size, 0, NULL, NULL, &memory) <
			0 ||
		tarn_storage_to_fd(fd, 0, (uint64_t)size, &file) < 0 ||
		tarn_tensor_new(memory, 0, &l, &src) < 0 ||
		tarn_tensor_new(file, 0, &l, &dst) < 0)
		return fail("tensors");
	if ((once ? tarn_copy(dst, src, &options, &info)
		  : by_stream(dst, src, &options, &info)) < 0)
		return fail("copy");
	gib = (double)size / (1 << 30);
	printf("%s %s %s: %.3f GiB/s, %.1f ms of CPU per GiB\n", info.engine,
		once ? "once" : "stream",
		info.direct > info.written / 2 ? "direct" : "buffered",
		gib / info.seconds, 1000 * info.cpu_seconds / gib);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
	tarn_storage_unref(file);
	tarn_storage_unref(memory);
	close(fd);
	return 0;
}
