/* SPDX-License-Identifier: MIT */
/*
 * An engine has a limited number of slots for files. A copy that finds all in
 * use waits, even if no request is under way that could give one back. It
 * takes either both of its slots or none, and its stream starts it when slots
 * come free.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "lib/copy/stream.h"
#include "tests/kit/tap.h"

enum { SIZE = 100000, SMALL = 20000 };

static const struct tarn_copy_options buffered = {.io_mode = TARN_IO_BUFFERED};

static int fds[TARN_IO_FILES];
static struct file_slot slots[TARN_IO_FILES];

static void name_file(char letter, char path[static 4200])
{
	snprintf(path, 4200, "%s/%c", test_tmpdir(), letter);
}

static int open_file(char letter)
{
	static unsigned char bytes[SIZE];
	char path[4200];
	int fd;

	name_file(letter, path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	memset(bytes, letter, SIZE);
	if (fd < 0 || pwrite(fd, bytes, SIZE, 0) != SIZE)
		bail("%s: %m", path);
	return fd;
}

static tarn_storage *storage_of(char letter)
{
	int fd = open_file(letter);
	tarn_storage *storage;

	if (tarn_storage_from_fd(fd, 0, SIZE, &storage) < 0)
		bail("%s", tarn_error_message());
	close(fd);
	return storage;
}

/* Part i of so many bytes. */
static tarn_tensor *part_of(tarn_storage *storage, int64_t i, int64_t size)
{
	struct tarn_layout l;
	tarn_tensor *t;

	if (tarn_layout_contiguous(TARN_U8, 1, &size, &l) < 0 ||
		tarn_tensor_new(storage, (uint64_t)(i * size), &l, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static tarn_tensor *memory(int64_t size)
{
	tarn_tensor *t;

	if (tarn_tensor_zeros(TARN_U8, 1, &size, &t) < 0)
		bail("%s", tarn_error_message());
	return t;
}

static bool all_are(const tarn_tensor *t, char letter)
{
	const char *bytes = tarn_tensor_data(t);
	int64_t n = tarn_layout_numel(tarn_tensor_layout(t));

	for (int64_t i = 0; i < n; i++)
		if (bytes[i] != letter)
			return false;
	return true;
}

/* As many slots as n are the test's, each of another descriptor. */
static void take(struct file_slots *files, tarn_storage *storage, int n)
{
	for (int i = 0; i < n; i++) {
		fds[i] = open_file('a');
		slots[i] = FILE_SLOT_NONE;
		if (file_slots_take(files, storage, fds[i], -1, &slots[i]) != 1)
			bail("slot %d: %s", i, tarn_error_message());
	}
}

static void give(struct file_slots *files, int i)
{
	file_slots_drop(files, &slots[i]);
}

static void give_all(struct file_slots *files, int n)
{
	for (int i = 0; i < n; i++)
		give(files, i);
	file_slots_trim(files);
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* ---- one copy -------------------------------------------------------- */

static void test_wait(tarn_storage *storage)
{
	tarn_tensor *dst = memory(SIZE), *src = part_of(storage, 0, SIZE);
	struct copy_env env;
	struct copy_op *m;

	if (copy_env_open(&env, "plain", 4 << 20, false) < 0 ||
		copy_op_new(&env, dst, src, &buffered, &m) < 0)
		bail("%s", tarn_error_message());
	take(env.files, storage, TARN_IO_FILES);
	is_int(0, m->ops->pump(m, 1),
		"a copy does not begin while all slots are in use");
	is_int(0, m->error, "a copy without a slot does not fail: %s",
		m->error_text);
	ok(!m->ended, "a copy without a slot waits");
	ok(!file_slots_came_free(env.files),
		"a copy without a slot waits as long as none comes free");
	give(env.files, 7);
	ok(file_slots_came_free(env.files),
		"a slot comes free when a copy ends");
	is_int(1, m->ops->pump(m, 1),
		"the waiting copy begins when a slot comes free");
	if (copy_env_drain(&env) < 0)
		bail("%s", tarn_error_message());
	ok(copy_op_finished(m) && copy_op_result(m) == 0 && all_are(dst, 'b'),
		"the waiting copy ends with its bytes");
	copy_op_free(m);
	ok(!file_slots_came_free(env.files), "no other copy was made to wait");
	give_all(env.files, TARN_IO_FILES);
	copy_env_close(&env);
	tarn_tensor_unref(dst);
	tarn_tensor_unref(src);
}

/* ---- two slots ------------------------------------------------------- */

static void test_both(tarn_storage *storage)
{
	struct file_slot two = FILE_SLOT_NONE, one = FILE_SLOT_NONE;
	int fd = open_file('b'), direct = open_file('b');
	struct copy_env env;

	if (copy_env_open(&env, "plain", 4 << 20, false) < 0)
		bail("%s", tarn_error_message());
	take(env.files, storage, TARN_IO_FILES - 1);
	is_int(0, file_slots_take(env.files, storage, fd, direct, &two),
		"a copy that needs two slots does not take the last one");
	is_int(1, file_slots_take(env.files, storage, direct, -1, &one),
		"a copy that needs one slot takes the last one");
	give(env.files, 0);
	is_int(1, file_slots_take(env.files, storage, fd, direct, &two),
		"a copy of an open file needs only one more slot");
	is_int(one.buffered, two.direct, "two copies of one file share a slot");
	file_slots_drop(env.files, &one);
	file_slots_drop(env.files, &two);
	is_int(1, file_slots_take(env.files, storage, fd, -1, &one),
		"all slots are given back and can be used again");
	file_slots_drop(env.files, &one);
	give_all(env.files, TARN_IO_FILES - 1);
	copy_env_close(&env);
	close(fd);
	close(direct);
}

/* ---- a stream -------------------------------------------------------- */

/* Gathered copies come before the one that has the last slot, whichever was
 * first: they ask in vain before it gives it back. */
static void test_stream(tarn_storage *storage, const char *engine)
{
	enum { N = SIZE / SMALL };
	const struct tarn_stream_options o = {.engine = engine};
	tarn_storage *other = storage_of('c');
	struct tarn_completion done_copies[N + 1];
	tarn_tensor *dst[N + 1], *src[N + 1];
	tarn_stream *s;
	int n = 0, wrong = 0;

	if (tarn_stream_new(&o, &s) < 0) {
		tarn_storage_unref(other);
		skip(1, "%s: %s", engine, tarn_error_message());
		return;
	}
	take(s->env.files, storage, TARN_IO_FILES - 1);
	for (int i = 0; i <= N; i++) {
		dst[i] = memory(i ? SMALL : SIZE);
		src[i] = i ? part_of(other, i - 1, SMALL)
			   : part_of(storage, 0, SIZE);
		if (tarn_stream_copy(
			    s, dst[i], src[i], &buffered, -1, 0, NULL) < 0)
			bail("%s", tarn_error_message());
	}
	while (n <= N)
		n += tarn_stream_reap(s, N + 1 - n, -1, done_copies + n, 1);
	for (int i = 0; i <= N; i++) {
		wrong += done_copies[i].result < 0;
		wrong += !all_are(dst[i], i ? 'c' : 'b');
		tarn_tensor_unref(dst[i]);
		tarn_tensor_unref(src[i]);
	}
	is_int(0, wrong, "%s: all copies that share one slot end", engine);
	give_all(s->env.files, TARN_IO_FILES - 1);
	tarn_stream_free(s);
	tarn_storage_unref(other);
}

/* What waits for nothing is our own mistake. It costs a copy, not the process;
 * and it is said, not kept silent about. Here it is the test that has all slots
 * and gives none back. */
static void test_stuck(tarn_storage *storage, const char *engine)
{
	enum { SMALLS = SIZE / SMALL, N = SMALLS + 2 };
	const struct tarn_stream_options o = {.engine = engine};
	struct tarn_completion c[N];
	tarn_tensor *dst[N], *src[N];
	tarn_stream *s;
	int n, wrong = 0;

	if (tarn_stream_new(&o, &s) < 0) {
		skip(3, "%s: %s", engine, tarn_error_message());
		return;
	}
	take(s->env.files, storage, TARN_IO_FILES);
	for (int i = 0; i < N; i++) {
		bool small = i < SMALLS;

		dst[i] = memory(small ? SMALL : SIZE);
		src[i] = part_of(storage, small ? i : 0, small ? SMALL : SIZE);
		if (tarn_stream_copy(
			    s, dst[i], src[i], &buffered, -1, 0, NULL) < 0)
			bail("%s", tarn_error_message());
	}
	n = tarn_stream_reap(s, N, -1, c, N);
	is_int(N, n, "%s: a copy that waits for nothing ends", engine);
	for (int i = 0; i < n; i++)
		wrong += c[i].result != -EIO || !strstr(c[i].message, "bug");
	is_int(0, wrong, "%s: a copy that waits for nothing fails as a bug",
		engine);
	give_all(s->env.files, TARN_IO_FILES);
	for (int i = 0; i < N; i++)
		if (tarn_stream_copy(
			    s, dst[i], src[i], &buffered, -1, 0, NULL) < 0)
			bail("%s", tarn_error_message());
	n = tarn_stream_reap(s, N, -1, c, N);
	for (int i = 0; i < n; i++)
		wrong += c[i].result != 0;
	for (int i = 0; i < N; i++) {
		wrong += !all_are(dst[i], 'b');
		tarn_tensor_unref(dst[i]);
		tarn_tensor_unref(src[i]);
	}
	is_int(0, wrong, "%s: the stream still serves other copies", engine);
	tarn_stream_free(s);
}

int main(void)
{
	tarn_storage *storage = storage_of('b');

	test_wait(storage);
	test_both(storage);
	test_stream(storage, "threads");
	test_stream(storage, "io_uring");
	test_stuck(storage, "threads");
	test_stuck(storage, "io_uring");
	tarn_storage_unref(storage);
	for (char c = 'a'; c <= 'c'; c++) {
		char path[4200];

		name_file(c, path);
		unlink(path);
	}
	return done(21);
}
