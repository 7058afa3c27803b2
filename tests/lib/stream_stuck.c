/* SPDX-License-Identifier: MIT */
/*
 * Copies that wait for resources of others, which give them back while no
 * request is under way: no completion wakes the stream then, so it must
 * continue by itself. Once it failed an assertion in its user's process, or
 * never became readable for a caller that polled.
 */
#include <sys/mman.h>

#include "tests/kit/limit.h"
#include "tests/kit/stream.h"

enum { LARGE = 2 << 20, SMALL = 200 << 10, SIZE = LARGE + 2 * SMALL };

static unsigned char wanted[SIZE], seen[SIZE];

typedef int (*reap_fn)(tarn_stream *s, struct tarn_completion *rets, int n);

static int reap_all(tarn_stream *s, struct tarn_completion *rets, int n)
{
	return tarn_stream_reap(s, n, -1, rets, n);
}

static const struct {
	reap_fn reap;
	const char *name;
} ways[] = {
	{kit_stream_reap_polled, "by poll"},
	{reap_all, "by reap"},
};

/* Copies from file to file have windows. Of three the second finds no room for
 * its own while the first has some, and asks again before the third, which has
 * found some, gives it back. */
static void test_windows(const char *engine, reap_fn reap, const char *way)
{
	static const uint64_t sizes[] = {SMALL, LARGE, SMALL};
	struct tarn_completion c[3];
	tarn_stream *s = kit_stream_stream(engine, 2 << 20);
	int src_fd = kit_stream_file("src", wanted, SIZE), wrong = 0, n;
	int dst_fd = kit_stream_file("dst", NULL, 0);
	tarn_storage *src = kit_stream_in_file(src_fd, SIZE);
	tarn_storage *dst = kit_stream_in_file(dst_fd, SIZE);
	uint64_t at = 0;

	for (uint64_t i = 0; i < 3; at += sizes[i++])
		kit_stream_copy(s, dst, at, src, at, sizes[i], NULL, i);
	n = reap(s, c, 3);
	is_int(3, n, "%s: all copies from file to file end, %s", engine, way);
	for (int i = 0; i < n; i++)
		wrong += c[i].result != 0;
	is_int(0, wrong, "%s: all copies from file to file succeed", engine);
	ok(fd_pread(dst_fd, seen, SIZE, 0) == SIZE &&
			!memcmp(wanted, seen, SIZE),
		"%s: all copies from file to file have their bytes", engine);
	tarn_stream_free(s);
	tarn_storage_unref(src);
	tarn_storage_unref(dst);
	close(src_fd);
	close(dst_fd);
	kit_stream_unlink("src");
	kit_stream_unlink("dst");
}

/* Small reads are gathered; these fail before anything is read, together and
 * then each for itself. */
enum { MEMBERS = 4, MEMBER = 32 << 10 };

static int count_results(const char *engine, int fd, enum tarn_io_mode io_mode,
	reap_fn reap, int result)
{
	const struct tarn_copy_options o = {.io_mode = io_mode};
	tarn_storage *src = kit_stream_in_file(fd, SIZE);
	tarn_storage *dst = kit_stream_in_memory(seen, SIZE);
	tarn_stream *s = kit_stream_stream(engine, 0);
	struct rlimit all;
	struct tarn_completion c[MEMBERS];
	int n, right = 0;

	for (uint64_t i = 0; i < MEMBERS; i++)
		kit_stream_copy(
			s, dst, i * MEMBER, src, i * MEMBER, MEMBER, &o, i);
	getrlimit(RLIMIT_NOFILE, &all);
	if (result == -EMFILE)
		limit_to(RLIMIT_NOFILE, limit_next_fd());
	n = reap(s, c, MEMBERS);
	setrlimit(RLIMIT_NOFILE, &all);
	for (int i = 0; i < n; i++) {
		right += c[i].result == result;
		if (c[i].result != result)
			diag("%d: %s", c[i].result, c[i].message);
	}
	tarn_stream_free(s);
	tarn_storage_unref(src);
	tarn_storage_unref(dst);
	return right;
}

static void test_gathered(const char *engine, reap_fn reap, const char *way)
{
	int in_memory = memfd_create("src", MFD_CLOEXEC);
	int on_disk = kit_stream_file("src", wanted, SIZE);

	if (in_memory < 0 || fd_write_all(in_memory, wanted, SIZE) < 0)
		bail("memfd: %m");
	is_int(MEMBERS,
		count_results(engine, in_memory, TARN_IO_DIRECT, reap, -EINVAL),
		"%s: a file system without direct I/O is an error, %s", engine,
		way);
	/* A ring takes a file without a number for it. */
	if (!strcmp(engine, "threads"))
		is_int(MEMBERS,
			count_results(engine, on_disk, TARN_IO_BUFFERED, reap,
				-EMFILE),
			"%s: a file that the engine cannot add is an error, %s",
			engine, way);
	close(in_memory);
	close(on_disk);
	kit_stream_unlink("src");
}

static void test_engine(const char *engine)
{
	for (unsigned i = 0; i < 2; i++) {
		test_windows(engine, ways[i].reap, ways[i].name);
		test_gathered(engine, ways[i].reap, ways[i].name);
	}
}

int main(void)
{
	fill_noise(wanted, SIZE, 1);
	for (unsigned i = 0; i < 2; i++)
		if (engine_works(engines[i]))
			test_engine(engines[i]);
		else
			skip(8, "%s: %s", engines[i], tarn_error_message());
	return done(18);
}
