/* SPDX-License-Identifier: MIT */
/*
 * Saves a file again and again while the power is about to be cut, and judges
 * what is left of it.
 *
 *	saver save PATH DISK OFFSET [unsafe]
 *	saver judge PATH LEAST MOST [unsafe]
 *
 * Version k of the file is a function of k. Before and after each save a mark
 * is written to the disk below, past its file system, so that the disk's log
 * has the marks among its writes (tests/vm/cut.h). With "unsafe" each
 * version is written over the one before, in place, and nothing is synced but
 * the first: what a cut leaves then is what the judge must not let pass.
 *
 * The judge's exit status: 0, the file is one of the versions from LEAST to
 * MOST, byte for byte; 1, it is none of any version; 2, it is an older one.
 */
#include "tests/kit/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/tap.h"
#include "tests/vm/cut.h"

#define KIB 1024
#define SMALL (256 * KIB) /* of unsafe ones, which all are of one size */
#define PIECE (16 * KIB)

/* ---- versions ------------------------------------------------------------ */

/* Small ones and large ones, whose tensors are written past the page cache. */
static int save_version(const char *path, uint64_t k, bool small)
{
	static const int64_t sizes[] = {700 * KIB, SMALL, 4200 * KIB};
	int64_t size = small ? SMALL : sizes[k % ARRAY_SIZE(sizes)];
	char text[24];
	struct tarn_save_pair pair = {.key = "version", .value = text};
	struct tarn_save_options o = {.checksums = k % 2,
		.pairs = &pair,
		.n_pairs = 1,
		.io_mode = small ? TARN_IO_BUFFERED : TARN_IO_AUTO};
	struct tarn_save_item items[] = {
		item_of("x", MADE(TARN_U8, (unsigned)k, size)),
		item_of("y", MADE(TARN_F32, (unsigned)k + 1, 77))};
	int r;

	snprintf(text, sizeof(text), "%08llu", (unsigned long long)k);
	r = tarn_save(path, items, 2, &o, NULL);
	drop(items, 2);
	return r;
}

/* ---- saving -------------------------------------------------------------- */

static void write_mark(int disk, off_t at, uint64_t k, uint64_t state)
{
	static struct cut_mark mark __attribute__((__aligned__(CUT_SECTOR)));

	mark = (struct cut_mark) {CUT_MAGIC, k, state, {0}};
	if (pwrite(disk, &mark, sizeof(mark), at) != sizeof(mark))
		bail("a mark cannot be written: %m");
}

/* Over the version before, a piece at a time, each of which is on its way to
 * the disk before the next. */
static int overwrite(const char *path, uint64_t k)
{
	_cleanup_fd_ int to = open(path, O_WRONLY | O_CLOEXEC);
	_cleanup_fd_ int from = -1;
	char piece[PIECE];
	ssize_t n;

	if (save_version("/tmp/unsafe", k, true) < 0)
		return -1;
	from = open("/tmp/unsafe", O_RDONLY | O_CLOEXEC);
	for (off_t at = 0; (n = fd_pread(from, piece, PIECE, at)) > 0; at += n)
		if (pwrite(to, piece, (size_t)n, at) != n ||
			sync_file_range(to, at, n,
				SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER) < 0)
			bail("%s: %m", path);
	return (int)n;
}

static int save_for_ever(
	const char *path, const char *disk_path, off_t at, bool safe)
{
	_cleanup_fd_ int disk =
		open(disk_path, O_WRONLY | O_DIRECT | O_CLOEXEC);

	if (disk < 0)
		bail("%s: %m", disk_path);
	for (uint64_t k = 0;; k++) {
		write_mark(disk, at, k, CUT_BEGUN);
		if ((safe || k == 0 ? save_version(path, k, !safe)
				    : overwrite(path, k)) < 0)
			bail("%s", tarn_error_message());
		write_mark(disk, at, k, CUT_RETURNED);
		printf("# %s: version %llu is saved\n", path,
			(unsigned long long)k);
		fflush(stdout);
	}
}

/* ---- judging ------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
	_cleanup_fd_ int one = open(a, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int two = open(b, O_RDONLY | O_CLOEXEC);
	char left[4096], right[4096];
	ssize_t n, m;
	off_t at = 0;

	if (one < 0 || two < 0)
		return false;
	do {
		n = fd_pread(one, left, sizeof(left), at);
		m = fd_pread(two, right, sizeof(right), at);
		at += sizeof(left);
	} while (n > 0 && n == m && memcmp(left, right, (size_t)n) == 0);
	return n == 0 && m == 0;
}

/* The version that the file says it is; -1: it is no such file. */
static int64_t version_of(const char *path)
{
	const char *key, *value;
	tarn_file *file = NULL;
	int64_t version = -1;

	if (tarn_file_open(path, &file) < 0)
		return -1;
	for (size_t i = 0; i < tarn_file_metadata_count(file); i++)
		if (tarn_file_metadata_at(file, i, &key, &value) == 0 &&
			strcmp(key, "version") == 0)
			version = strtoll(value, NULL, 10);
	if (version >= 0 && tarn_file_verify(file, NULL, NULL) < 0)
		version = -1;
	tarn_file_unref(file);
	return version;
}

static int judge(const char *path, int64_t least, int64_t most, bool small)
{
	int64_t version = version_of(path);
	char copy[64];
	bool same;

	if (version < 0 || version > most) {
		printf("# %s: of %lld, not of %lld to %lld: %s\n", path,
			(long long)version, (long long)least, (long long)most,
			tarn_error_message());
		return 1;
	}
	snprintf(copy, sizeof(copy), "/tmp/version.%d", (int)getpid());
	if (save_version(copy, (uint64_t)version, small) < 0)
		bail("%s", tarn_error_message());
	same = is_same(path, copy);
	unlink(copy);
	if (!same) {
		printf("# %s: not what version %lld was\n", path,
			(long long)version);
		return 1;
	}
	return version < least ? 2 : 0;
}

int main(int argc, char **argv)
{
	if (argc >= 5 && strcmp(argv[1], "judge") == 0)
		return judge(argv[2], atoll(argv[3]), atoll(argv[4]), argc > 5);
	if (argc < 5 || strcmp(argv[1], "save")) {
		fprintf(stderr, "usage: saver save|judge PATH ...\n");
		return 99;
	}
	return save_for_ever(argv[2], argv[3], atoll(argv[4]), argc < 6);
}
