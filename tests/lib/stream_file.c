/* SPDX-License-Identifier: MIT */
/*
 * Streams of copies out of a file, on either engine: many at once all arrive,
 * whatever is called off at whatever moment; what was called off is never
 * written after it was reaped, nor anything after the stream is freed.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { SIZE = 8 << 20, CANARY = 0xA5 };

static unsigned char *bytes; /* of the file */
static unsigned char *room;  /* as large: where they go */
static tarn_storage *file, *memory;
static char path[4200];

static uint64_t seed = 20260606;

static uint64_t below(uint64_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (seed >> 33) % n;
}

static void make_file(void)
{
	int fd;

	bytes = malloc(SIZE);
	room = malloc(SIZE);
	snprintf(path, sizeof(path), "%s/stream", test_tmpdir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (!bytes || !room || fd < 0)
		bail("%s: %m", path);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (unsigned char)((i + 1) * 0x9E3779B97F4A7C15 >> 56);
	if (fd_write_all(fd, bytes, SIZE) < 0 ||
		tarn_storage_from_fd(fd, 0, SIZE, &file) < 0 ||
		tarn_storage_borrow(room, SIZE, TARN_BORROW_WRITABLE, NULL,
			NULL, &memory) < 0)
		bail("%s: %m, %s", path, tarn_error_message());
	close(fd);
}

static tarn_stream *stream_of(const char *engine, uint32_t copies)
{
	const struct tarn_stream_options o = {
		.engine = engine,
		.copies = copies,
		.buffer = 4 << 20,
	};
	tarn_stream *s = NULL;

	return tarn_stream_new(&o, &s) < 0 ? NULL : s;
}

/* Bytes at .. at + size of the file to the same place in memory; every other
 * byte of them if sparse. */
static int queue(tarn_stream *s, uint64_t at, uint64_t size, bool sparse,
	int timeout_ms, uint64_t user, uint64_t *ret_id)
{
	const int64_t shape = (int64_t)(sparse ? (size + 1) / 2 : size);
	const int64_t stride = sparse ? 2 : 1;
	tarn_tensor *dst, *src;
	struct tarn_layout l;
	int r;

	if (tarn_layout_strided(TARN_U8, 1, &shape, &stride, 0, &l) < 0 ||
		tarn_tensor_new(file, at, &l, &src) < 0 ||
		tarn_tensor_new(memory, at, &l, &dst) < 0)
		bail("%s", tarn_error_message());
	r = tarn_stream_copy(s, dst, src, NULL, timeout_ms, user, ret_id);
	tarn_tensor_unref(src);
	tarn_tensor_unref(dst);
	return r;
}

static bool arrived(uint64_t at, uint64_t size, bool sparse)
{
	if (!sparse)
		return !memcmp(room + at, bytes + at, size);
	for (uint64_t i = 0; i < size; i++)
		if (room[at + i] != (i % 2 ? CANARY : bytes[at + i]))
			return false;
	return true;
}

/* ---- many, and all of them ------------------------------------------- */

enum { PIECE = 1024, PIECES = SIZE / PIECE };

static void test_many(const char *engine)
{
	tarn_stream *s = stream_of(engine, 0);
	static struct tarn_completion c[300];
	struct tarn_stream_progress p;
	uint64_t next = 0, done_count = 0;
	int wrong = 0, n;

	memset(room, CANARY, SIZE);
	while (done_count < PIECES) {
		while (next < PIECES && queue(s, next * PIECE, PIECE, false, -1,
						next, NULL) == 0)
			next++;
		n = tarn_stream_reap(s, 100, -1, c, 300);
		if (n <= 0)
			bail("nothing is reaped: %s", tarn_error_message());
		for (int i = 0; i < n; i++)
			wrong += c[i].result != 0 || c[i].info.bytes != PIECE ||
				 strcmp(c[i].info.engine, engine) != 0;
		done_count += (uint64_t)n;
	}
	is_int(0, wrong, "%s: %d small copies out of a file end without error",
		engine, PIECES);
	ok(arrived(0, SIZE, false), "%s: all small copies have their bytes",
		engine);
	tarn_stream_progress(s, &p);
	is_int(PIECES, (int64_t)p.copies_done,
		"%s: the progress counts all small copies", engine);
	is_int(SIZE, (int64_t)p.bytes_done,
		"%s: the progress counts all bytes of the small copies",
		engine);
	is_int(0, (int64_t)(p.copies_waiting + p.copies_running),
		"%s: no small copy is left waiting or running", engine);
	tarn_stream_free(s);
}

/* ---- called off at any moment ---------------------------------------- */

enum { COPIES = 60 };

struct copy {
	uint64_t id, at, size;
	bool sparse, called_off, ended;
};

/* Of those that ended: well, all there; else, nothing lands any more. */
static int judge(struct copy *copy, const struct tarn_completion *c)
{
	if (copy->ended || c->id != copy->id)
		return 1;
	copy->ended = true;
	if (c->result == 0)
		return !arrived(copy->at, copy->size, copy->sparse);
	memset(room + copy->at, CANARY, copy->size);
	return !copy->called_off ||
	       (c->result != -ECANCELED && c->result != -ETIMEDOUT);
}

static int round_of_cancels(tarn_stream *s)
{
	struct copy copies[COPIES];
	struct tarn_completion c[8];
	uint64_t at = 0;
	int wrong = 0, left = COPIES, n;

	memset(room, CANARY, SIZE);
	for (int i = 0; i < COPIES; i++) {
		bool timed = below(10) == 0;

		copies[i] = (struct copy) {
			.at = at,
			.size = 1 + below(below(4) ? 9000 : 300000),
			.sparse = below(3) == 0,
			.called_off = timed,
		};
		wrong += queue(s, at, copies[i].size, copies[i].sparse,
				 timed ? (int)below(3) : -1, (uint64_t)i,
				 &copies[i].id) != 0;
		at += copies[i].size;
	}
	while (left > 0) {
		struct copy *victim = &copies[below(COPIES)];

		if (below(2) && tarn_stream_cancel(s, victim->id) == 0)
			victim->called_off = true;
		n = tarn_stream_reap(s, (int)below(3), (int)below(3), c, 8);
		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			wrong += judge(&copies[c[i].user], &c[i]);
		left -= n;
	}
	for (int i = 0; i < COPIES; i++)
		for (uint64_t k = 0; k < copies[i].size; k++)
			wrong += room[copies[i].at] == CANARY &&
				 room[copies[i].at + k] != CANARY &&
				 copies[i].called_off &&
				 bytes[copies[i].at] != CANARY;
	return wrong;
}

static void test_cancel(const char *engine)
{
	tarn_stream *s = stream_of(engine, COPIES);
	int wrong = 0;

	for (int i = 0; i < 25; i++)
		wrong += round_of_cancels(s) != 0;
	is_int(0, wrong, "%s: copies are cancelled at any moment", engine);
	tarn_stream_free(s);
}

/* Freed with everything under way: not a byte lands afterwards. */
static void test_free(const char *engine)
{
	const struct timespec pause = {.tv_nsec = 3000000};
	int wrong = 0;

	for (int i = 0; i < 20; i++) {
		tarn_stream *s = stream_of(engine, 0);

		for (uint64_t k = 0; k < 20; k++)
			wrong += queue(s, k * 400000, 399999, k % 2, -1, k,
					 NULL) != 0;
		if (below(3))
			may_fail(
				tarn_stream_reap(s, (int)below(3), 1, NULL, 0));
		tarn_stream_free(s);
		memset(room, CANARY, SIZE);
		nanosleep(&pause, NULL);
		for (size_t k = 0; k < SIZE; k++)
			wrong += room[k] != CANARY;
	}
	is_int(0, wrong, "%s: no byte is written after a stream was freed",
		engine);
}

/* ---- the rest --------------------------------------------------------- */

static void test_poll(const char *engine)
{
	tarn_stream *s = stream_of(engine, 0);
	struct pollfd p = {.fd = tarn_stream_fd(s), .events = POLLIN};
	struct tarn_completion c;
	int reaped = 0, quiet;

	queue(s, 0, SIZE, false, -1, 0, NULL);
	while (reaped == 0 && poll(&p, 1, 60000) == 1)
		reaped = tarn_stream_reap(s, 0, 0, &c, 1);
	is_int(1, reaped, "%s: poll reports a copy until it is done", engine);
	is_int(0, c.result, "%s: the copy ends without error", engine);
	quiet = poll(&p, 1, 0);
	is_int(0, quiet, "%s: poll is quiet after the copy was reaped", engine);
	tarn_stream_free(s);
}

static void test_register(const char *engine)
{
	tarn_stream *s = stream_of(engine, 0);
	struct tarn_completion c = {.result = -1};
	int r = tarn_stream_register(s, memory);

	if (!strcmp(engine, "threads"))
		is_int(1, r,
			"threads: the engine of threads registers no memory");
	else if (!ok(r == 0 || r == 1,
			 "%s: memory is registered, or need not be", engine))
		diag("%s", tarn_error_message());
	is_int(1, tarn_stream_register(s, file),
		"%s: a file's storage is not registered", engine);
	memset(room, CANARY, SIZE);
	queue(s, 4096, SIZE - 4096, false, -1, 0, NULL);
	is_int(1, tarn_stream_reap(s, 1, -1, &c, 1),
		"%s: a copy into registered memory ends", engine);
	ok(c.result == 0 && arrived(4096, SIZE - 4096, false),
		"%s: registered memory has the file's bytes", engine);
	tarn_stream_free(s);
}

/* Each fails for itself; the next is not harmed. */
static void test_short_file(const char *engine)
{
	tarn_stream *s = stream_of(engine, 0);
	struct tarn_completion c[2];

	if (truncate(path, SIZE / 2) < 0)
		bail("%s: %m", path);
	memset(room, CANARY, SIZE);
	queue(s, SIZE / 2 - 100, 3000, false, -1, 0, NULL);
	queue(s, 1000, 3000, false, -1, 1, NULL);
	is_int(2, tarn_stream_reap(s, 2, -1, c, 2),
		"%s: a copy past the file's end and another one end", engine);
	for (int i = 0; i < 2; i++)
		if (c[i].user == 0)
			ok(c[i].result < 0 && c[i].message[0],
				"%s: the copy past the file's end is an "
				"error: %s",
				engine, c[i].message);
		else
			ok(c[i].result == 0 && arrived(1000, 3000, false),
				"%s: the copy inside the file has its bytes",
				engine);
	tarn_stream_free(s);
	if (truncate(path, SIZE) < 0)
		bail("%s: %m", path);
}

/* Small ones are read together; where that fails, each is told for itself. */
static void test_short_company(const char *engine)
{
	enum { MANY = 400, FIRST = SIZE / 2 - 200 * PIECE };
	tarn_stream *s = stream_of(engine, 0);
	static struct tarn_completion c[MANY];
	int wrong = 0;

	if (truncate(path, SIZE / 2) < 0)
		bail("%s: %m", path);
	memset(room, CANARY, SIZE);
	for (uint64_t i = 0; i < MANY; i++)
		queue(s, FIRST + i * PIECE, PIECE, false, -1, i, NULL);
	is_int(MANY, tarn_stream_reap(s, MANY, -1, c, MANY),
		"%s: all copies from a file that shrank end", engine);
	for (int i = 0; i < MANY; i++)
		if (c[i].user < 200)
			wrong += c[i].result != 0 ||
				 !arrived(FIRST + c[i].user * PIECE, PIECE,
					 false);
		else
			wrong += c[i].result >= 0 ||
				 !strstr(c[i].message, "shrunk");
	is_int(0, wrong, "%s: only copies inside the shrunk file succeed",
		engine);
	tarn_stream_free(s);
	if (truncate(path, SIZE) < 0)
		bail("%s: %m", path);
}

int main(void)
{
	static const char *const engines[] = {"threads", "io_uring"};

	make_file();
	for (int i = 0; i < 2; i++) {
		tarn_stream *s = stream_of(engines[i], 1);

		if (!s) {
			skip(14, "%s: %s", engines[i], tarn_error_message());
			continue;
		}
		tarn_stream_free(s);
		test_many(engines[i]);
		test_cancel(engines[i]);
		test_free(engines[i]);
		test_poll(engines[i]);
		test_register(engines[i]);
	}
	test_short_file("threads");
	test_short_company("threads");
	unlink(path);
	tarn_storage_unref(file);
	tarn_storage_unref(memory);
	free(bytes);
	free(room);
	return done(33);
}
