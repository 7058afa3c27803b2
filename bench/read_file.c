/* SPDX-License-Identifier: MIT */
/*
 * Tensors of a safetensors file come into memory:
 *
 *	bench/read_file FILE [VIEW]
 *
 * of every tensor in turn, or of that view of the first. Each line of standard
 * input is a round: "cold" (the file is dropped from the page cache before),
 * "warm" (it is read into it before), or "touch" (warm, and every byte is
 * looked at once more when it is there, as a user would); a second word forces
 * the I/O mode. Each is answered by a line with the rate and the price in CPU.
 *
 * The process lives on between rounds because of its memory: guests get theirs
 * when it is first touched, which costs more than to fill it. It is congruent
 * to the file modulo the page, as in a pool.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "bench/times.h"

#define GIB 1073741824.0

static struct tensors {
	tarn_tensor **src, **dst;
	size_t n;
	char *memory;
	uint64_t size;
	tarn_storage *storage;
	tarn_stream *stream;
} all;

static void die(const char *what)
{
	fprintf(stderr, "bench/read_file: %s: %s\n", what,
		tarn_error_message());
	exit(1);
}

static uint64_t sum(const char *p, uint64_t size)
{
	uint64_t s[8] = {0}, v[8];

	for (uint64_t i = 0; i + 64 <= size; i += 64) {
		memcpy(v, p + i, 64);
		for (int k = 0; k < 8; k++)
			s[k] += v[k];
	}
	return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

/* Touched, so that no round pays for that. */
static void make_memory(uint64_t size)
{
	all.memory = mmap(NULL, size + 8192, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all.memory == MAP_FAILED) {
		perror("bench/read_file: mmap");
		exit(1);
	}
	madvise(all.memory, size + 8192, MADV_HUGEPAGE);
	memset(all.memory, 1, size + 8192);
}

static tarn_tensor *place(
	tarn_storage *memory, uint64_t at, const struct tarn_layout *like)
{
	struct tarn_layout l;
	tarn_tensor *t;

	if (tarn_layout_contiguous(like->dtype, like->ndim, like->shape, &l) <
			0 ||
		tarn_tensor_new(memory, at, &l, &t) < 0)
		die("place");
	return t;
}

/* Each at its place in the file. */
static void take_all(tarn_file *file)
{
	uint64_t begin, size;

	tarn_file_data_range(file, &begin, &size);
	make_memory(size);
	if (tarn_storage_borrow(all.memory + begin % 4096, size,
		    TARN_BORROW_WRITABLE, NULL, NULL, &all.storage) < 0)
		die("memory");
	all.n = tarn_file_count(file);
	all.src = calloc(all.n, sizeof(tarn_tensor *));
	all.dst = calloc(all.n, sizeof(tarn_tensor *));
	for (size_t i = 0; i < all.n; i++) {
		const struct tarn_file_entry *t = tarn_file_at(file, i);

		if (tarn_file_tensor(file, t->name, &all.src[i]) < 0)
			die(t->name);
		all.dst[i] = place(all.storage, t->file_offset - begin,
			tarn_tensor_layout(all.src[i]));
	}
	all.size = size;
}

static void take_view(tarn_file *file, const char *view)
{
	const struct tarn_layout *l;
	tarn_tensor *whole;

	all.n = 1;
	all.src = calloc(1, sizeof(tarn_tensor *));
	all.dst = calloc(1, sizeof(tarn_tensor *));
	if (tarn_file_tensor(file, tarn_file_at(file, 0)->name, &whole) < 0 ||
		tarn_tensor_eval(whole, view, &all.src[0]) < 0)
		die(view);
	l = tarn_tensor_layout(all.src[0]);
	all.size = (uint64_t)tarn_layout_nbytes(l);
	make_memory(all.size);
	if (tarn_storage_borrow(all.memory, all.size, TARN_BORROW_WRITABLE,
		    NULL, NULL, &all.storage) < 0)
		die("memory");
	all.dst[0] = place(all.storage, 0, l);
}

static void prepare(int fd, bool cold)
{
	static char buf[1 << 20];
	off_t at = 0;
	ssize_t n;

	if (cold) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		return;
	}
	while ((n = pread(fd, buf, sizeof(buf), at)) > 0)
		at += n;
}

static void add(struct tarn_copy_info *to, const struct tarn_copy_info *info)
{
	to->read += info->read;
	to->cached += info->cached;
	to->direct += info->direct;
	to->requests += info->requests;
}

static void reap(tarn_stream *stream, int at_least, struct tarn_copy_info *ret)
{
	struct tarn_completion done[64];
	int n = tarn_stream_reap(stream, at_least, -1, done, 64);

	if (n < 0)
		die("reap");
	for (int i = 0; i < n; i++) {
		if (done[i].result < 0) {
			fprintf(stderr, "bench/read_file: %s\n",
				done[i].message);
			exit(1);
		}
		add(ret, &done[i].info);
	}
}

/* All through one stream, of this round; the memory is made known to it
 * before, as a pool's would be. */
static const char *copy_all(const struct tarn_copy_options *options,
	struct tarn_copy_info *ret, double *ret_start, double *ret_cpu)
{
	static char engine[32];
	struct tarn_stream_progress progress;
	tarn_stream *stream;

	if (tarn_stream_new(NULL, &stream) < 0 ||
		tarn_stream_register(stream, all.storage) < 0)
		die("stream");
	*ret_start = seconds(CLOCK_MONOTONIC);
	*ret_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (size_t i = 0; i < all.n; i++) {
		int r = tarn_stream_copy(
			stream, all.dst[i], all.src[i], options, -1, 0, NULL);

		if (r == -EAGAIN) {
			reap(stream, 1, ret);
			i--;
		} else if (r < 0) {
			die("copy");
		}
	}
	do {
		reap(stream, 64, ret);
		tarn_stream_progress(stream, &progress);
	} while (progress.copies_done < all.n);
	reap(stream, 0, ret);
	snprintf(engine, sizeof(engine), "%s", tarn_stream_engine(stream));
	all.stream = stream;
	return engine;
}

static void run_round(int fd, const char *how, const char *mode)
{
	struct tarn_copy_options o = {
		.io_mode = !strcmp(mode, "direct")     ? TARN_IO_DIRECT
			   : !strcmp(mode, "buffered") ? TARN_IO_BUFFERED
						       : TARN_IO_AUTO,
	};
	struct tarn_copy_info info = {0};
	double gib = (double)all.size / GIB, t, c;
	volatile uint64_t seen = 0;
	const char *engine;

	prepare(fd, !strcmp(how, "cold"));
	engine = copy_all(&o, &info, &t, &c);
	if (!strcmp(how, "touch"))
		seen += sum(all.memory, all.size);
	t = seconds(CLOCK_MONOTONIC) - t;
	c = seconds(CLOCK_PROCESS_CPUTIME_ID) - c;
	all.stream = tarn_stream_free(all.stream);
	printf("tarn %s: %.3f GiB/s, %.1f ms of CPU per GiB (%s, read %.2f, "
	       "cached %.2f, direct %.2f GiB, %llu requests)\n",
		how, gib / t, c / gib * 1e3, engine, (double)info.read / GIB,
		(double)info.cached / GIB, (double)info.direct / GIB,
		(unsigned long long)info.requests);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	tarn_file *file;
	char line[64];

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench/read_file FILE [VIEW]\n");
		return 2;
	}
	if (tarn_file_open(argv[1], &file) < 0)
		die(argv[1]);
	if (argc == 3)
		take_view(file, argv[2]);
	else
		take_all(file);
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		char how[32] = "cold", mode[32] = "auto";

		sscanf(line, "%31s %31s", how, mode);
		run_round(tarn_file_fd(file), how, mode);
	}
	return 0;
}
