/* SPDX-License-Identifier: MIT */
/*
 * The I/O kind of a range follows its bytes: those in the page cache are
 * copied from it, others are read directly if there is a disk to read. Each of
 * the two ways of asking the kernel finds out. A fill then reads in that way,
 * and reports it.
 */
#include <errno.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/io/direct.h"
#include "lib/io/io_mode.h"
#include "tests/kit/cold.h"
#include "tests/kit/filling.h"
#include "tests/kit/loop_device.h"

enum { SIZE = 3 * SEGMENT, HALF = SIZE / 2 };

/* The way of each request of the file, as a letter each. */
static const char *map(struct io_mode *io_mode, uint64_t begin, uint64_t end)
{
	static char letters[64];
	unsigned n = 0;

	while (begin < end && n < sizeof(letters) - 1) {
		uint64_t upto;
		enum io_kind kind = io_mode_at(io_mode, begin,
			begin + TARN_IO_REQUEST < end ? begin + TARN_IO_REQUEST
						      : end,
			&upto);

		if (upto <= begin || upto > end)
			bail("an I/O kind from %llu to %llu",
				(unsigned long long)begin,
				(unsigned long long)upto);
		letters[n++] = "bcd"[kind];
		begin = upto;
	}
	letters[n] = 0;
	return letters;
}

static bool evict(const struct files *fs)
{
	const char *why = cold_make(fs->buffered, 0, SIZE);

	if (why)
		diag("%s", why);
	return !why;
}

/* Once more. */
static void must_evict(const struct files *fs)
{
	if (!evict(fs))
		bail("a file that could be evicted cannot be any more");
}

/* Bytes from at on, and nothing that the kernel would read ahead. */
static void warm(const struct files *fs, uint64_t at, uint64_t size)
{
	static char buf[SIZE];

	posix_fadvise(fs->buffered, 0, 0, POSIX_FADV_RANDOM);
	if (pread(fs->buffered, buf, size, (off_t)at) != (ssize_t)size)
		bail("pread: %m");
}

static struct io_mode io_mode_of(
	const struct files *fs, enum tarn_io_mode wish, enum io_probe ask)
{
	struct io_mode io_mode;

	if (io_mode_init(&io_mode, fs->buffered, fs->direct, wish,
		    io_fs_of(fs->buffered)) < 0)
		bail("%s", tarn_fail_message());
	io_mode.end = SIZE;
	if (io_mode.ask != IO_PROBE_NOTHING)
		io_mode.ask = ask;
	return io_mode;
}

/* ---- what is seen ------------------------------------------------------- */

/* Pages may go at any time, and whoever asks may make the kernel read some: what
 * is wrong is wrong each time. */
#define TRIES 20

static void all_warm(const struct files *fs)
{
	warm(fs, 0, SIZE);
}

static void half_warm(const struct files *fs)
{
	must_evict(fs);
	warm(fs, HALF, HALF);
}

/* The first page of the third request. */
static void page_warm(const struct files *fs)
{
	must_evict(fs);
	warm(fs, 2 * TARN_IO_REQUEST, 4096);
}

static void most_of_one_warm(const struct files *fs)
{
	must_evict(fs);
	warm(fs, 2 * TARN_IO_REQUEST, TARN_IO_REQUEST / 4 * 3);
}

struct look {
	enum io_probe ask;
	enum tarn_io_mode wish;
	uint64_t window, begin, end; /* 0: its own, all of it */
};

static const char *seen_by(const struct files *fs, const struct look *look)
{
	struct io_mode io_mode = io_mode_of(fs, look->wish, look->ask);

	if (look->window)
		io_mode.window = look->window;
	return map(&io_mode, look->begin, look->end ? look->end : SIZE);
}

/* What is seen in the end, when the file was prepared. */
static const char *seen(const char *wanted, const struct files *fs,
	void (*prepare)(const struct files *fs), struct look look)
{
	const char *letters = NULL;

	for (int i = 0; i < TRIES; i++) {
		prepare(fs);
		letters = seen_by(fs, &look);
		if (strcmp(letters, wanted) == 0)
			break;
	}
	return letters;
}

static bool is_asked(const struct files *fs, enum io_probe ask)
{
	struct io_mode io_mode = io_mode_of(fs, TARN_IO_AUTO, ask);

	map(&io_mode, 0, SIZE);
	return io_mode.ask == ask;
}

/* On a busy host a disk can answer before a read that must not wait looks
 * whether it has. Then no such read tells what was cached. */
static bool disk_is_ahead(const struct files *fs, enum io_probe ask)
{
	char byte;
	struct iovec iov = {&byte, 1};
	int n = 0;

	for (int i = 0; ask == IO_PROBE_NOWAIT && i < TRIES; i++) {
		must_evict(fs);
		n += preadv2(fs->buffered, &iov, 1, HALF, RWF_NOWAIT) == 1;
	}
	return n > 0;
}

static void test_cold(const char *name, enum io_probe ask, struct files *fs)
{
	const char *letters =
		seen("dddddd", fs, must_evict, (struct look) {.ask = ask});

	if (strcmp(letters, "dddddd") != 0 && disk_is_ahead(fs, ask))
		skip(1, "%s: the disk answers reads that must not wait", name);
	else
		is_str("dddddd", letters, "%s: a cold file is read directly",
			name);
}

static void test_asking(const char *name, enum io_probe ask, struct files *fs)
{
	const uint64_t half = HALF + SEGMENT / 2 + 1;

	is_str("cccccc",
		seen("cccccc", fs, all_warm, (struct look) {.ask = ask}),
		"%s: a cached file is copied from the page cache", name);
	if (!is_asked(fs, ask)) {
		skip(4, "%s: not on this kernel or file system", name);
		return;
	}
	if (!evict(fs)) {
		skip(4, "%s: nothing can be evicted here", name);
		return;
	}
	test_cold(name, ask, fs);
	is_str("cc",
		seen("cc", fs, half_warm,
			(struct look) {
				.ask = ask, .begin = half, .end = SIZE - 5}),
		"%s: only the cached half is copied from the page cache", name);
	is_str("dddccc",
		seen("dddccc", fs, half_warm,
			(struct look) {.ask = ask, .window = TARN_IO_REQUEST}),
		"%s: only one half of a file is read directly", name);
	is_str("bbbccc",
		seen("bbbccc", fs, half_warm,
			(struct look) {.ask = ask,
				.wish = TARN_IO_BUFFERED,
				.window = TARN_IO_REQUEST}),
		"%s: buffered I/O is chosen where direct I/O is not wished",
		name);
}

/* What is cached by halves only cachestat knows for certain (6.5; valgrind has
 * not heard of it); else a few pages are looked at, and chance decides. */
static bool has_cachestat(struct files *fs)
{
	return is_asked(fs, IO_PROBE_CACHESTAT);
}

/* Few cached pages are no reason to read all through the cache; many are. */
static void test_mixed(struct files *fs)
{
	const struct look look = {.ask = IO_PROBE_CACHESTAT};
	struct io_mode io_mode;
	uint64_t upto;

	if (!has_cachestat(fs)) {
		skip(4, "mixed: no cachestat on this kernel or file system");
		return;
	}
	if (!evict(fs)) {
		skip(4, "nothing can be evicted here");
		return;
	}
	is_str("dddddd", seen("dddddd", fs, page_warm, look),
		"one cached page of 128 does not avoid a direct read");
	is_str("ddbddd", seen("ddbddd", fs, most_of_one_warm, look),
		"three cached quarters of a request do not avoid a direct read");
	io_mode = io_mode_of(fs, TARN_IO_AUTO, IO_PROBE_CACHESTAT);
	io_mode.window = TARN_IO_REQUEST;
	io_mode_at(&io_mode, 1000, 1000 + TARN_IO_REQUEST, &upto);
	is_int(TARN_IO_REQUEST, (int64_t)upto,
		"ranges change at multiples of a request, wherever one begins");
	io_mode_refused(&io_mode);
	is_str("bbbbbb", map(&io_mode, 0, SIZE),
		"a file that refuses direct I/O is read buffered");
}

static void test_direct(struct files *fs)
{
	struct io_mode io_mode;

	warm(fs, 0, SIZE);
	io_mode = io_mode_of(fs, TARN_IO_DIRECT, IO_PROBE_NOTHING);
	is_str("dddddd", map(&io_mode, 0, SIZE),
		"a cached file is read directly where that is asked for");
	is_int(-EINVAL,
		io_mode_init(&io_mode, fs->buffered, -1, TARN_IO_DIRECT,
			IO_FS_LOCAL),
		"direct I/O without a descriptor for it is refused");
	has_str("refuses O_DIRECT", tarn_fail_message(),
		"the error contains 'refuses O_DIRECT'");
}

static void test_memory(void)
{
	_cleanup_fd_ int fd = memfd_create("io_mode", MFD_CLOEXEC);
	struct io_mode io_mode;
	uint64_t upto;

	if (fd < 0 || ftruncate(fd, SIZE) < 0)
		bail("memfd: %m");
	is_int(IO_FS_MEMORY, io_fs_of(fd),
		"a memfd is known as a file in memory");
	is_int(0, io_mode_init(&io_mode, fd, fd, TARN_IO_AUTO, IO_FS_MEMORY),
		"a memfd has an I/O mode");
	is_int(IO_KIND_CACHED, io_mode_at(&io_mode, 0, SIZE, &upto),
		"a memfd is read from the page cache");
	is_int(SIZE, (int64_t)upto,
		"all of a memfd is read in one way, its holes too");
	is_int(-EINVAL,
		io_mode_init(&io_mode, fd, fd, TARN_IO_DIRECT, IO_FS_MEMORY),
		"direct I/O of a memfd is refused");
	has_str("its file system is memory", tarn_fail_message(),
		"the error contains 'its file system is memory'");
}

/* What the kernel answers for a file of a network is not to be had here; what
 * is made of it is. */
static void test_remote(const struct files *fs)
{
	struct io_mode io_mode;

	is_int(0,
		io_mode_init(&io_mode, fs->buffered, fs->direct, TARN_IO_AUTO,
			IO_FS_REMOTE),
		"a file on a network file system has an I/O mode");
	is_int(0, io_mode.align.offset,
		"a remote file is not read directly by default");
	is_int(0,
		io_mode_init(&io_mode, fs->buffered, fs->direct, TARN_IO_DIRECT,
			IO_FS_REMOTE),
		"direct I/O of a remote file can be asked for");
	ok(io_mode.align.offset > 0,
		"a remote file with direct I/O has an alignment");
}

struct filled {
	int r;
	int64_t wrong;
	bool direct;
};

/* Frees io. */
static struct filled fill_once(struct tarn_io *io, const struct files *fs)
{
	struct tarn_fill *f = NULL;
	struct tarn_fill_job j;
	struct filled filled;
	struct pool p;

	make_pool(&p, io, true);
	reset_pool(&p);
	j = job_for(fs, &p, 4096, 1000, SIZE - 1001);
	j.io_mode = TARN_IO_AUTO;
	j.prompt = io_nowait_works(fs->buffered);
	if (tarn_fill_new(io, &j, &f) < 0)
		bail("%s", tarn_fail_message());
	filled.r = tarn_fill_run(f);
	filled.wrong = first_wrong(&p, &j);
	filled.direct = tarn_fill_direct(f);
	tarn_fill_free(f);
	tarn_io_free(io);
	drop_pool(&p);
	return filled;
}

static void fill_by(const char *name, const struct files *fs,
	void (*prepare)(const struct files *fs), bool wanted)
{
	struct filled filled = {0};
	struct tarn_io *io;

	for (int i = 0; i < TRIES; i++) {
		io = engine(name, -1);
		if (!io) {
			skip(3, "%s: %s", name, tarn_fail_message());
			return;
		}
		prepare(fs);
		filled = fill_once(io, fs);
		if (filled.r || filled.wrong >= 0 || filled.direct == wanted)
			break;
	}
	is_int(0, filled.r, "%s: a fill in the chosen mode succeeds", name);
	is_int(-1, filled.wrong,
		"%s: a fill in the chosen mode brings every byte", name);
	is_int(wanted, filled.direct, "%s: %s direct", name,
		wanted ? "all of it is" : "not all of it is");
}

static void test_fill(const char *name, struct files *fs)
{
	/* Without cachestat, what is cached is seen by reads that do not wait. */
	if (has_cachestat(fs) || io_nowait_works(fs->buffered))
		fill_by(name, fs, all_warm, false);
	else
		skip(3, "%s: nothing says what is cached here", name);
	if (!evict(fs)) {
		skip(6, "%s: nothing can be evicted here", name);
		return;
	}
	fill_by(name, fs, must_evict, true);
	if (!has_cachestat(fs)) {
		skip(3, "%s: no cachestat on this kernel or file system", name);
		return;
	}
	fill_by(name, fs, half_warm, false);
}

static void test_sectors(struct files *fs)
{
	char path[64];
	_cleanup_fd_ int fd =
		loop_device(fs->buffered, 4096, path, sizeof(path));
	_cleanup_fd_ int direct = -1;
	struct files disk = {.buffered = fd};
	struct tarn_fill_job j;
	struct pool p;

	if (fd < 0) {
		skip(4, "a disk of 4 KiB sectors: no loop device: %s",
			tarn_errno_text(fd));
		return;
	}
	disk.direct = direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	is_int(4096, tarn_direct_alignment(direct),
		"a device of 4 KiB sectors has an alignment of 4 KiB");
	for (unsigned i = 0; i < 3; i++) {
		struct tarn_fill *f = NULL;
		struct tarn_io *io =
			engine(i == 1 ? "io_uring" : "threads", -1);

		if (!io) {
			skip(1, "io_uring: %s", tarn_fail_message());
			continue;
		}
		make_pool(&p, io, true);
		reset_pool(&p);
		j = job_for(&disk, &p, 4096, 1000 * i, SIZE - 1001 * i);
		if (tarn_fill_new(io, &j, &f) < 0)
			bail("%s", tarn_fail_message());
		ok(tarn_fill_run(f) == 0 && tarn_fill_direct(f) &&
				first_wrong(&p, &j) < 0,
			"a fill from a device of 4 KiB sectors succeeds, %s",
			tarn_io_name(io));
		tarn_fill_free(f);
		tarn_io_free(io);
		drop_pool(&p);
	}
}

int main(void)
{
	struct files fs;

	make_file(&fs, "io_mode", SIZE);
	test_memory();
	if (io_fs_of(fs.buffered) != IO_FS_LOCAL || fs.direct < 0 ||
		tarn_direct_alignment(fs.direct) == 0) {
		skip(39, "%s is not on a disk that can be read directly",
			test_tmpdir());
	} else {
		test_asking("cachestat", IO_PROBE_CACHESTAT, &fs);
		test_asking("RWF_NOWAIT", IO_PROBE_NOWAIT, &fs);
		test_mixed(&fs);
		test_direct(&fs);
		test_remote(&fs);
		test_fill("threads", &fs);
		test_fill("io_uring", &fs);
	}
	test_sectors(&fs);
	drop_files(&fs);
	return done(49);
}
