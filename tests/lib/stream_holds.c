/* SPDX-License-Identifier: MIT */
/*
 * The resources that a stream holds, and for how long. Other copies must not
 * wait for those that are done and not yet reaped. Once 136 of 200 copies out
 * of as many files failed, because those that were done held all slots of the
 * engine.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "lib/copy/copy_env.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

enum { FILES = 200, SIZE = 100000 };

static struct tarn_completion done_copies[FILES];

static void name_file(int i, char path[static 4200])
{
	snprintf(path, 4200, "%s/%d", test_tmpdir(), i);
}

static void make_file(int i)
{
	static unsigned char bytes[SIZE];
	char path[4200];
	int fd;

	name_file(i, path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	memset(bytes, i, SIZE);
	if (fd < 0 || fd_write_all(fd, bytes, SIZE) < 0)
		bail("%s: %m", path);
	close(fd);
}

static tarn_tensor *open_file(int i, bool write)
{
	const int64_t shape = SIZE;
	tarn_storage *storage;
	struct tarn_layout l;
	tarn_tensor *t;
	char path[4200];
	int fd;

	name_file(i, path);
	fd = open(
		path, (write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0600);
	if (fd < 0)
		bail("%s: %m", path);
	if ((write ? tarn_storage_to_fd : tarn_storage_from_fd)(
		    fd, 0, SIZE, &storage) < 0 ||
		tarn_layout_contiguous(TARN_U8, 1, &shape, &l) < 0 ||
		tarn_tensor_new(storage, 0, &l, &t) < 0)
		bail("%s", tarn_error_message());
	close(fd);
	tarn_storage_unref(storage);
	return t;
}

static tarn_tensor *memory(void)
{
	const int64_t shape = SIZE;
	tarn_tensor *t;

	if (tarn_tensor_zeros(TARN_U8, 1, &shape, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static tarn_stream *stream_of(const char *engine)
{
	const struct tarn_stream_options o = {.engine = engine};
	tarn_stream *s = NULL;

	if (tarn_stream_new(&o, &s) < 0)
		bail("%s: %s", engine, tarn_error_message());
	return s;
}

static void queue(
	tarn_stream *s, tarn_tensor *dst, tarn_tensor *src, uint64_t user)
{
	if (tarn_stream_copy(s, dst, src, NULL, -1, user, NULL) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Reaped when all are done, and not before. */
static int count_failures(tarn_stream *s)
{
	int n = tarn_stream_reap(s, FILES, -1, done_copies, FILES), wrong = 0;

	for (int i = 0; i < n; i++) {
		if (done_copies[i].result < 0 && wrong++ == 0)
			diag("%s", done_copies[i].message);
	}
	return n == FILES ? wrong : -1;
}

static void test_files(const char *engine)
{
	tarn_tensor *read[FILES];
	tarn_stream *s = stream_of(engine);
	int wrong = 0;

	for (int i = 0; i < FILES; i++) {
		read[i] = tarn_tensor_ref(memory());
		queue(s, read[i], open_file(i, false), (uint64_t)i);
	}
	is_int(0, count_failures(s), "%s: copies out of many files succeed",
		engine);
	for (int i = 0; i < FILES; i++) {
		const unsigned char *bytes = tarn_tensor_data(read[i]);

		wrong += bytes[0] != i || bytes[SIZE - 1] != i;
		tarn_tensor_unref(read[i]);
	}
	is_int(0, wrong, "%s: each copy has the bytes of its own file", engine);
	for (int i = 0; i < FILES; i++)
		queue(s, open_file(FILES + i, true), memory(), 0);
	is_int(0, count_failures(s), "%s: copies into many files succeed",
		engine);
	for (int i = 0; i < FILES; i++)
		queue(s, open_file(FILES + i, true), open_file(i, false), 0);
	is_int(0, count_failures(s),
		"%s: copies from many files to many files succeed", engine);
	tarn_stream_free(s);
}

/* Of those it has forgotten it has no descriptors either. */
static void test_idle(const char *engine)
{
	tarn_stream *s = stream_of(engine);
	int before = open_descriptors();

	for (int i = 0; i < 20; i++)
		queue(s, memory(), open_file(i, false), 0);
	is_int(20, tarn_stream_reap(s, 20, -1, done_copies, 20),
		"%s: twenty of the copies are reaped", engine);
	is_int(before, open_descriptors(),
		"%s: the files of reaped copies are closed", engine);
	tarn_stream_free(s);
}

/* View i of a file that is so long, with nothing in it. */
static tarn_tensor *part_of(const char *name, int64_t i, int64_t size)
{
	tarn_storage *storage;
	struct tarn_layout l;
	tarn_tensor *t;
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", test_tmpdir(), name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 64 * size) < 0)
		bail("%s: %m", path);
	if (tarn_storage_to_fd(
		    fd, (uint64_t)(i * size), (uint64_t)size, &storage) < 0 ||
		tarn_layout_contiguous(TARN_U8, 1, &size, &l) < 0 ||
		tarn_tensor_new(storage, 0, &l, &t) < 0)
		bail("%s", tarn_error_message());
	close(fd);
	tarn_storage_unref(storage);
	return t;
}

/* From file to file copies have windows of their own: as many as the stream
 * may have, and those of one in any case. */
static void test_windows(void)
{
	enum { PART = 16 << 20 };
	tarn_tensor *dst = part_of("to", 1, PART),
		    *src = part_of("from", 0, PART);
	struct copy_op *m[2] = {NULL, NULL};
	struct copy_env env;

	if (copy_env_open(&env, "plain", 4 << 20, false) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < 2; i++)
		if (copy_op_new(&env, dst, src, NULL, &m[i]) < 0)
			bail("%s", tarn_error_message());
	ok(m[0]->ops->pump(m[0], 1) > 0, "a copy from file to file begins");
	is_int(0, m[1]->ops->pump(m[1], 1),
		"the second copy waits, since there is no room for its "
		"windows");
	copy_op_cancel(m[0]);
	if (copy_env_drain(&env) < 0)
		bail("%s", tarn_error_message());
	copy_op_release(m[0]);
	ok(m[1]->ops->pump(m[1], 1) > 0,
		"the second copy begins when the first one is done");
	copy_op_cancel(m[1]);
	if (copy_env_drain(&env) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < 2; i++)
		copy_op_free(m[i]);
	is_int(0, (int64_t)env.windows, "all buffer is given back");
	copy_env_close(&env);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

/* What is read through the page cache needs no second descriptor. */
static void test_buffered(void)
{
	const struct tarn_copy_options o = {.io_mode = TARN_IO_BUFFERED};
	tarn_tensor *dst = memory(), *src = open_file(0, false);
	int before = open_descriptors();

	is_int(0, tarn_copy(dst, src, &o, NULL),
		"a file that is open for buffered reads is read");
	is_int(before, open_descriptors(),
		"the file is read by the descriptor that it has");
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

static void test_first_seconds(const char *engine)
{
	tarn_stream *s = stream_of(engine);
	double begun = seconds(), took;

	queue(s, memory(), open_file(0, false), 0);
	must(tarn_stream_reap(s, 1, -1, done_copies, 1));
	took = done_copies[0].info.seconds;
	ok(took >= 0 && took <= seconds() - begun,
		"%s: the first copy reports no more time than it took", engine);
	tarn_stream_free(s);
}

static void *free_it(void *arg)
{
	tarn_stream *own = stream_of("io_uring");

	tarn_stream_free(arg);
	queue(own, memory(), open_file(1, false), 0);
	must(tarn_stream_reap(own, 1, -1, done_copies, 1));
	tarn_stream_free(own);
	return NULL;
}

/* Copies wait to be gathered; nothing is under way. */
static void test_free_elsewhere(void)
{
	const int64_t shape = 100;
	tarn_stream *s = stream_of("io_uring");
	tarn_tensor *whole = open_file(0, false), *part, *small;
	struct tarn_layout l;
	pthread_t thread;

	if (tarn_layout_contiguous(TARN_U8, 1, &shape, &l) < 0 ||
		tarn_tensor_zeros(TARN_U8, 1, &shape, &small) < 0 ||
		tarn_tensor_new(tarn_tensor_storage(whole), 0, &l, &part) < 0)
		bail("%s", tarn_error_message());
	tarn_tensor_unref(whole);
	queue(s, tarn_tensor_ref(small), tarn_tensor_ref(part), 0);
	queue(s, small, part, 0);
	done_copies[0].result = -1;
	if (pthread_create(&thread, NULL, free_it, s) != 0)
		bail("no thread");
	pthread_join(thread, NULL);
	is_int(0, done_copies[0].result,
		"a stream is freed by another thread that has its own stream");
}

int main(void)
{
	static const char *const engines[] = {"threads", "io_uring"};

	for (int i = 0; i < FILES; i++)
		make_file(i);
	for (int i = 0; i < 2; i++) {
		const struct tarn_stream_options o = {.engine = engines[i]};
		tarn_stream *s;

		if (tarn_stream_new(&o, &s) < 0) {
			skip(8, "%s: %s", engines[i], tarn_error_message());
			continue;
		}
		tarn_stream_free(s);
		test_files(engines[i]);
		test_idle(engines[i]);
		test_first_seconds(engines[i]);
		if (i == 1)
			test_free_elsewhere();
	}
	test_windows();
	test_buffered();
	for (int i = 0; i < 2 * FILES; i++) {
		char path[4200];

		name_file(i, path);
		unlink(path);
	}
	if (chdir(test_tmpdir()) == 0) {
		unlink("from");
		unlink("to");
	}
	return done(21);
}
