/* SPDX-License-Identifier: MIT */
/*
 * A stream that is driven by poll() alone, as an event loop does it: its
 * descriptor must become readable whenever there is work, even if that ends
 * long after it was submitted. On a ring that defers its work it once did not:
 * an epoll set gets no event of work that is only pending, and a program that
 * wrote to a file, or read one that was not in the page cache, waited for
 * ever.
 */
#include <time.h>

#include "tests/kit/cold.h"
#include "tests/kit/stream.h"

enum { SMALL = 200000, LARGE = 3 << 20 };

static unsigned char wanted[LARGE], seen[LARGE];
static int src_fd, dst_fd;
static tarn_storage *src_file, *dst_file, *src_memory, *dst_memory;

enum direction { WRITE, READ, RELAY };
static const char *const direction_names[] = {
	"from memory to a file",
	"from a cold file to memory",
	"from file to file",
};

static void queue(tarn_stream *s, enum direction d, uint64_t size)
{
	memset(seen, 0, sizeof(seen));
	if (d != READ && ftruncate(dst_fd, 0) < 0)
		bail("ftruncate: %m");
	if (d != WRITE)
		cold_try(src_fd);
	kit_stream_copy(s, d == READ ? dst_memory : dst_file, 0,
		d == WRITE ? src_memory : src_file, 0, size, NULL, 0);
}

static bool arrived(enum direction d, uint64_t size)
{
	if (d != READ && fd_pread(dst_fd, seen, size, 0) < 0)
		bail("pread: %m");
	return memcmp(wanted, seen, size) == 0;
}

static void test_direction(const char *engine, enum direction d, uint64_t size)
{
	tarn_stream *s = kit_stream_stream(engine, 0);
	struct pollfd p = {.fd = tarn_stream_fd(s), .events = POLLIN};
	struct tarn_completion c = {.result = -1};
	const char *name = direction_names[d];

	queue(s, d, size);
	is_int(1, kit_stream_reap_polled(s, &c, 1),
		"%s: %llu bytes %s are copied by poll alone", engine,
		(unsigned long long)size, name);
	ok(c.result == 0 && arrived(d, size),
		"%s: the copy by poll ends with its bytes: %s", engine,
		c.message);
	is_int(0, poll(&p, 1, 0),
		"%s: the stream is not readable after the copy was reaped",
		engine);
	tarn_stream_free(s);
}

/* More than a kernel takes out of its list at a time, all of it done before
 * anybody looks; and the descriptor is asked for only then. */
static void test_late(const char *engine)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	enum { COPIES = 60, PIECE = LARGE / COPIES };
	static struct tarn_completion c[COPIES];
	tarn_stream *s = kit_stream_stream(engine, 0);
	struct pollfd p = {.events = POLLIN};
	int got;

	if (ftruncate(dst_fd, 0) < 0)
		bail("ftruncate: %m");
	for (uint64_t i = 0; i < COPIES; i++)
		kit_stream_copy(s, dst_file, i * PIECE, src_memory, i * PIECE,
			PIECE, NULL, i);
	got = tarn_stream_reap(s, 0, 0, c, COPIES);
	nanosleep(&pause, NULL);
	p.fd = tarn_stream_fd(s);
	got += kit_stream_reap_polled(s, c, COPIES - got);
	is_int(COPIES, got,
		"%s: copies that end before the first poll are reported",
		engine);
	ok(arrived(WRITE, COPIES * PIECE),
		"%s: the copies that ended early have their bytes", engine);
	is_int(0, poll(&p, 1, 0),
		"%s: the stream is not readable after all were reaped", engine);
	tarn_stream_free(s);
}

/* Readable means that there is something to do: else a loop that waits would
 * go round and round. */
static void test_turns(const char *engine)
{
	tarn_stream *s = kit_stream_stream(engine, 0);
	struct pollfd p = {.fd = tarn_stream_fd(s), .events = POLLIN};
	struct tarn_completion c;
	struct tarn_copy_info *info = &c.info;
	int turns = 0, got = 0;

	queue(s, WRITE, LARGE);
	while (got == 0 && poll(&p, 1, PATIENCE_MS) == 1) {
		got = tarn_stream_reap(s, 0, 0, &c, 1);
		turns++;
	}
	ok(got == 1 && turns <= 2 * (int)info->requests + 4,
		"%s: %d turns suffice for %d requests", engine, turns,
		got == 1 ? (int)info->requests : 0);
	tarn_stream_free(s);
}

static void test_engine(const char *engine)
{
	for (enum direction d = WRITE; d <= RELAY; d++) {
		test_direction(engine, d, SMALL);
		test_direction(engine, d, LARGE);
	}
	test_late(engine);
	test_turns(engine);
}

int main(void)
{
	fill_noise(wanted, LARGE, 1);
	src_fd = kit_stream_file("src", wanted, LARGE);
	dst_fd = kit_stream_file("dst", NULL, 0);
	src_file = kit_stream_in_file(src_fd, LARGE);
	dst_file = kit_stream_in_file(dst_fd, LARGE);
	src_memory = kit_stream_in_memory(wanted, LARGE);
	dst_memory = kit_stream_in_memory(seen, LARGE);
	for (unsigned i = 0; i < 2; i++)
		if (engine_works(engines[i]))
			test_engine(engines[i]);
		else
			skip(22, "%s: %s", engines[i], tarn_error_message());
	tarn_storage_unref(src_memory);
	tarn_storage_unref(dst_memory);
	tarn_storage_unref(src_file);
	tarn_storage_unref(dst_file);
	close(src_fd);
	close(dst_fd);
	kit_stream_unlink("src");
	kit_stream_unlink("dst");
	return done(44);
}
