/* SPDX-License-Identifier: MIT */
/*
 * Files that cannot be read: reads that come short or fail once are made again;
 * errors that stay are those of tarn_data_get, with file and byte, in each process,
 * and the loader goes on where it was when the file can be read again. Files that
 * shrink or are written give errors, and never wrong samples.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "base/fd.h"
#include "tests/data/batches.h"
#include "tests/data/datasets.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/fault_engine.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

/* ---- faults ------------------------------------------------------------------- */

static struct fault faults[16];
static size_t n_faults;
static atomic_bool broken; /* every read that a caller makes itself fails */

int __real_tarn_io_new(int keep_fd, struct tarn_io **ret);
int __wrap_tarn_io_new(int keep_fd, struct tarn_io **ret);
int __wrap_tarn_io_new(int keep_fd, struct tarn_io **ret)
{
	static _Thread_local bool within;

	/* The engine that goes wrong has a real one. */
	if (!n_faults || within)
		return __real_tarn_io_new(keep_fd, ret);
	within = true;
	*ret = fault_engine("threads", faults, n_faults);
	within = false;
	return *ret ? 0 : -EPERM;
}

ssize_t __real_fd_pread(int fd, void *buf, size_t size, uint64_t offset);
ssize_t __wrap_fd_pread(int fd, void *buf, size_t size, uint64_t offset);
ssize_t __wrap_fd_pread(int fd, void *buf, size_t size, uint64_t offset)
{
	return broken ? -EIO : __real_fd_pread(fd, buf, size, offset);
}

static tarn_loader *open_loader(tarn_store *store, tarn_data *data,
	const struct tarn_loader_options *options)
{
	tarn_loader *loader;

	must(tarn_loader_open(store, data, options, &loader));
	return loader;
}

static bool steps(tarn_loader *loader, tarn_data *data,
	const struct tarn_loader_options *options, int n)
{
	bool right = true;

	for (int i = 0; right && i < n; i++)
		right = batches_next(loader, data, options);
	return right;
}

static void once(const struct fault *some, size_t n, const char *what)
{
	const struct tarn_loader_options options = {
		.global_batch = 24, .parts = BATCHES_PARTS};
	struct tarn_data_options o = datasets_options(14, NULL);
	tarn_data *data = datasets_open(&o);
	tarn_loader *loader;

	memcpy(faults, some, n * sizeof(*some));
	n_faults = n;
	loader = open_loader(NULL, data, &options);
	ok(steps(loader, data, &options, 40), "all batches are right: %s",
		what);
	tarn_loader_unref(loader);
	tarn_data_free(data);
	n_faults = 0;
}

static void test_once(void)
{
	const struct fault shorts[] = {
		{.at = 1, .times = UINT_MAX, .kind = FAULT_SHORT}};
	const struct fault agains[] = {
		{.at = 2, .times = 5, .kind = FAULT_ERROR, .error = EAGAIN},
		{.at = 9, .times = 5, .kind = FAULT_ERROR, .error = EINTR},
		{.at = 20, .kind = FAULT_ERROR, .error = EINVAL}};
	const struct fault errors[] = {
		{.at = 3, .kind = FAULT_ERROR, .error = EIO},
		{.at = 30, .times = 40, .kind = FAULT_ERROR, .error = EIO},
		{.at = 90, .kind = FAULT_END}};
	const struct fault all[] = {{.at = 1,
		.times = UINT_MAX,
		.kind = FAULT_ERROR,
		.error = EIO}};

	once(shorts, 1, "each read comes short");
	once(agains, 3, "reads are to be made again");
	once(errors, 3, "some reads fail");
	once(all, 1, "all reads of the engine fail");
}

/* ---- errors that stay -------------------------------------------------------------- */

/* The error that reading a rank's part gives to tarn_data_get. */
static void fails(
	tarn_loader *loader, int error, const char *part, const char *what)
{
	uint64_t position = tarn_loader_position(loader);
	tarn_batch *batch;

	for (int i = 0; i < 2; i++) {
		is_int(error, tarn_loader_next(loader, 60000, &batch),
			"%s is an error, each time", what);
		has_str(part, tarn_error_message(), "the sentence has %s",
			part);
	}
	ok(tarn_loader_position(loader) == position,
		"the position stays where it is");
}

static void test_broken(tarn_store *store)
{
	static const struct fault all = {
		.at = 1, .times = UINT_MAX, .kind = FAULT_ERROR, .error = EIO};
	struct tarn_data_options o = datasets_options(12, NULL);
	struct tarn_loader_options a = {.name = store ? "broken" : NULL,
		.global_batch = 8,
		.world = 2,
		.parts = BATCHES_PARTS};
	tarn_data *data = datasets_open(&o);
	struct tarn_loader_options b = a;
	tarn_loader *first, *second;

	b.rank = 1;
	faults[0] = all;
	n_faults = 1;
	broken = true;
	first = open_loader(store, data, &a);
	second = open_loader(store, data, &b);
	fails(first, -EIO, ": file: reading ", "a file with a bad place");
	fails(second, -EIO, ": file: reading ", "the same");
	broken = false;
	ok(steps(first, data, &a, 2), "the first goes on when it is well");
	ok(steps(second, data, &b, 2), "the second, too");
	tarn_loader_unref(first);
	tarn_loader_unref(second);
	tarn_data_free(data);
	n_faults = 0;
}

/* ---- files that change --------------------------------------------------------------- */

/* One batch, if it comes, which is right then. */
static int try_next(tarn_loader *loader, const struct tarn_loader_options *o,
	tarn_data *intact, bool *right)
{
	uint64_t first, n, position = tarn_loader_position(loader);
	tarn_batch *batch;
	int r = tarn_loader_next(loader, 60000, &batch);

	if (r < 0)
		return r;
	must(tarn_data_rank_part(
		o->global_batch, o->rank, o->world, &first, &n));
	*right = batches_right(intact, batch, position + first, n, o->parts) &&
		 *right;
	tarn_batch_unref(batch);
	return 0;
}

/* Another file takes the path, with the same bytes: what was open stays open. */
static int exchange(const char *path)
{
	static char bytes[1 << 20];
	char copy[700];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n = read(fd, bytes, sizeof(bytes));

	if (n <= 0 || n == sizeof(bytes))
		bail("reading %s: %m", path);
	snprintf(copy, sizeof(copy), "%s.copy", path);
	corpus_write(copy, bytes, (size_t)n);
	if (rename(copy, path) < 0)
		bail("rename: %m");
	return fd;
}

static void change(int fd, bool shrink)
{
	off_t size = lseek(fd, 0, SEEK_END);

	if (shrink ? ftruncate(fd, size / 2) < 0
		   : pwrite(fd, "changed!", 8, size / 2) != 8)
		bail("changing the file: %m");
}

static void test_changes(tarn_store *store, bool shrink)
{
	struct tarn_data_options o = datasets_options(15, NULL);
	struct tarn_loader_options a = {.name = store ? "changes" : NULL,
		.global_batch = 8,
		.world = 2,
		.parts = BATCHES_PARTS};
	struct tarn_loader_options b = a;
	tarn_data *data = datasets_open(&o), *intact;
	tarn_loader *first, *second;
	const char *what = shrink ? "shrinks" : "is written";
	char path[600];
	bool right = true, has = false;
	int fd, r = 0, q = 0;

	snprintf(path, sizeof(path), "%s/a.bin", test_tmpdir());
	fd = exchange(path);
	intact = datasets_open(&o);
	b.rank = 1;
	first = open_loader(store, data, &a);
	second = open_loader(store, data, &b);
	ok(steps(first, intact, &a, 2) && steps(second, intact, &b, 2),
		"a file is there, and soon %s", what);
	change(fd, shrink);
	/* One reads ahead for both, and so they go on together. */
	for (int i = 0; (!r || !q) && i < 3000; i++) {
		r = try_next(first, &a, intact, &right);
		if (r)
			has = strstr(tarn_error_message(), "/a.bin: ") != NULL;
		q = try_next(second, &b, intact, &right);
	}
	ok(r == -ESTALE || (shrink && r == -ENODATA),
		"a file that %s is an error, not %d", what, r);
	ok(has, "the sentence has the file");
	ok(q == -ESTALE || (shrink && q == -ENODATA),
		"it is one for the other rank, not %d", q);
	ok(right, "all batches before it are right");
	close(fd);
	tarn_loader_unref(first);
	tarn_loader_unref(second);
	tarn_data_free(data);
	tarn_data_free(intact);
}

int main(void)
{
	struct corpus corpora[2];
	struct daemon server;
	tarn_store *store;

	datasets_begin(test_tmpdir(), corpora);
	store = daemon_start_open(
		&server, "errors.sock", (const char *[]) {NULL});
	test_once();
	test_broken(NULL);
	test_broken(store);
	for (int i = 0; i < 4; i++)
		test_changes(i < 2 ? NULL : store, i % 2);
	tarn_store_unref(store);
	daemon_stop(&server);
	datasets_end(corpora);
	return done(4 + 2 * 12 + 4 * 5);
}
