/* SPDX-License-Identifier: MIT */
/*
 * The road follows the bytes: what is in the page cache is copied from it,
 * what is not is read directly where there is a disk to read, and each of the
 * two ways to ask finds out. A fill then takes that road, and says so.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "lib/io/direct.h"
#include "lib/io/road.h"
#include "tests/filling.h"
#include "tests/loop_device.h"

enum { SIZE = 3 * SEGMENT, HALF = SIZE / 2 };

/* The way of each request of the file, as a letter each. */
static const char *map(struct road *road, uint64_t begin, uint64_t end)
{
	static char letters[64];
	unsigned n = 0;

	while (begin < end && n < sizeof(letters) - 1) {
		uint64_t upto;
		enum road_way way = road_at(road, begin,
			begin + TARN_IO_REQUEST < end ? begin + TARN_IO_REQUEST
						      : end,
			&upto);

		if (upto <= begin || upto > end)
			bail("a road from %llu to %llu",
				(unsigned long long)begin,
				(unsigned long long)upto);
		letters[n++] = "bcd"[way];
		begin = upto;
	}
	letters[n] = 0;
	return letters;
}

/* Pages of the file that are in memory. They are mapped for nobody to read:
 * valgrind, for one, looks into what is, whether it is a program, and so puts
 * pages there. */
static int resident(const struct files *fs)
{
	unsigned char here[SIZE / 4096];
	void *at = mmap(NULL, SIZE, PROT_NONE, MAP_SHARED, fs->buffered, 0);
	int n = 0;

	if (at == MAP_FAILED || mincore(at, SIZE, here) < 0)
		bail("mincore: %s", strerror(errno));
	munmap(at, SIZE);
	for (size_t i = 0; i < sizeof(here); i++)
		n += here[i] & 1;
	return n;
}

static bool evict(const struct files *fs)
{
	struct road road;
	uint64_t upto;

	/* Pages that another processor has at hand stay at first. */
	for (int i = 0; i < 100; i++) {
		fsync(fs->buffered);
		posix_fadvise(fs->buffered, 0, 0, POSIX_FADV_DONTNEED);
		if (resident(fs) == 0)
			break;
		usleep(10000);
	}
	road_init(&road, fs->buffered, -1, TARN_ROAD_AUTO, ROAD_FS_LOCAL);
	road.ask = ROAD_ASK_CACHESTAT;
	return road_at(&road, 0, SIZE, &upto) != ROAD_CACHED;
}

/* Bytes from at on, and nothing that the kernel would read ahead. */
static void warm(const struct files *fs, uint64_t at, uint64_t size)
{
	static char buf[SIZE];

	posix_fadvise(fs->buffered, 0, 0, POSIX_FADV_RANDOM);
	if (pread(fs->buffered, buf, size, (off_t)at) != (ssize_t)size)
		bail("pread: %m");
}

static struct road road_of(
	const struct files *fs, enum tarn_road wish, enum road_ask ask)
{
	struct road road;

	if (road_init(&road, fs->buffered, fs->direct, wish,
		    road_file_system(fs->buffered)) < 0)
		bail("%s", tarn_fail_message());
	road.end = SIZE;
	if (road.ask != ROAD_ASK_NOTHING)
		road.ask = ask;
	return road;
}

static void test_asking(const char *name, enum road_ask ask, struct files *fs)
{
	struct road road;

	warm(fs, 0, SIZE);
	road = road_of(fs, TARN_ROAD_AUTO, ask);
	is_str("cccccc", map(&road, 0, SIZE), "%s: a cached file", name);
	if (road.ask != ask) {
		skip(4, "%s: not on this kernel or file system", name);
		return;
	}
	if (!evict(fs)) {
		skip(4, "%s: nothing can be evicted here", name);
		return;
	}
	road = road_of(fs, TARN_ROAD_AUTO, ask);
	is_str("dddddd", map(&road, 0, SIZE), "%s: a cold file", name);
	evict(fs);
	warm(fs, HALF, HALF);
	road = road_of(fs, TARN_ROAD_AUTO, ask);
	is_str("cc", map(&road, HALF + SEGMENT / 2 + 1, SIZE - 5),
		"%s: the half that was read", name);
	evict(fs);
	warm(fs, HALF, HALF);
	road = road_of(fs, TARN_ROAD_AUTO, ask);
	road.window = TARN_IO_REQUEST;
	is_str("dddccc", map(&road, 0, SIZE), "%s: one half of two", name);
	road = road_of(fs, TARN_ROAD_BUFFERED, ask);
	road.window = TARN_IO_REQUEST;
	is_str("bbbccc", map(&road, 0, SIZE), "%s: never directly", name);
}

/* What is cached by halves only cachestat knows for certain (6.5; valgrind has
 * not heard of it); else a few pages are looked at, and chance decides. */
static bool has_cachestat(struct files *fs)
{
	struct road road = road_of(fs, TARN_ROAD_AUTO, ROAD_ASK_CACHESTAT);

	map(&road, 0, SIZE);
	return road.ask == ROAD_ASK_CACHESTAT;
}

/* Few cached pages are no reason to read all through the cache; many are. */
static void test_mixed(struct files *fs)
{
	struct road road;
	uint64_t upto;

	if (!has_cachestat(fs)) {
		skip(3, "mixed: no cachestat on this kernel or file system");
		return;
	}
	if (!evict(fs)) {
		skip(4, "nothing can be evicted here");
		return;
	}
	warm(fs, 2 * TARN_IO_REQUEST, 4096);
	road = road_of(fs, TARN_ROAD_AUTO, ROAD_ASK_CACHESTAT);
	is_str("dddddd", map(&road, 0, SIZE), "one page of 128");
	warm(fs, 2 * TARN_IO_REQUEST, TARN_IO_REQUEST / 4 * 3);
	road = road_of(fs, TARN_ROAD_AUTO, ROAD_ASK_CACHESTAT);
	is_str("ddbddd", map(&road, 0, SIZE), "three quarters of a request");
	road = road_of(fs, TARN_ROAD_AUTO, ROAD_ASK_CACHESTAT);
	road.window = TARN_IO_REQUEST;
	road_at(&road, 1000, 1000 + TARN_IO_REQUEST, &upto);
	is_int(TARN_IO_REQUEST, (int64_t)upto,
		"borders are at multiples of a request, wherever one asks");
	road_refused(&road);
	is_str("bbbbbb", map(&road, 0, SIZE), "a file that refuses");
}

static void test_direct(struct files *fs)
{
	struct road road;

	warm(fs, 0, SIZE);
	road = road_of(fs, TARN_ROAD_DIRECT, ROAD_ASK_NOTHING);
	is_str("dddddd", map(&road, 0, SIZE), "directly, though it is cached");
	is_int(-EINVAL,
		road_init(&road, fs->buffered, -1, TARN_ROAD_DIRECT,
			ROAD_FS_LOCAL),
		"without a descriptor for it");
	has_str("refuses O_DIRECT", tarn_fail_message(), "it says so");
}

static void test_memory(void)
{
	_cleanup_fd_ int fd = memfd_create("road", MFD_CLOEXEC);
	struct road road;
	uint64_t upto;

	if (fd < 0 || ftruncate(fd, SIZE) < 0)
		bail("memfd: %m");
	is_int(ROAD_FS_MEMORY, road_file_system(fd), "a memfd is memory");
	is_int(0, road_init(&road, fd, fd, TARN_ROAD_AUTO, ROAD_FS_MEMORY),
		"it has a road");
	is_int(ROAD_CACHED, road_at(&road, 0, SIZE, &upto), "the page cache");
	is_int(SIZE, (int64_t)upto, "all of it, holes too");
	is_int(-EINVAL,
		road_init(&road, fd, fd, TARN_ROAD_DIRECT, ROAD_FS_MEMORY),
		"and no other");
	has_str("its file system is memory", tarn_fail_message(), "it says so");
}

/* What the kernel answers for a file of a network is not to be had here; what
 * is made of it is. */
static void test_remote(const struct files *fs)
{
	struct road road;

	is_int(0,
		road_init(&road, fs->buffered, fs->direct, TARN_ROAD_AUTO,
			ROAD_FS_REMOTE),
		"a file of somebody else");
	is_int(0, road.align.offset, "is not read directly");
	is_int(0,
		road_init(&road, fs->buffered, fs->direct, TARN_ROAD_DIRECT,
			ROAD_FS_REMOTE),
		"unless that is asked for");
	ok(road.align.offset > 0, "and possible");
}

static void fill_by(const char *name, const struct files *fs, bool wanted)
{
	struct tarn_io *io = engine(name, -1);
	struct tarn_fill *f = NULL;
	struct tarn_fill_job j;
	struct pool p;

	if (!io) {
		skip(3, "%s: %s", name, tarn_fail_message());
		return;
	}
	make_pool(&p, io, true);
	reset_pool(&p);
	j = job_for(fs, &p, 4096, 1000, SIZE - 1001);
	j.road = TARN_ROAD_AUTO;
	if (tarn_fill_new(io, &j, &f) < 0)
		bail("%s", tarn_fail_message());
	is_int(0, tarn_fill_run(f), "%s: a fill", name);
	is_int(-1, first_wrong(&p, &j), "%s: every byte is there", name);
	is_int(wanted, tarn_fill_direct(f), "%s: %s direct", name,
		wanted ? "all of it is" : "not all of it is");
	tarn_fill_free(f);
	tarn_io_free(io);
	drop_pool(&p);
}

static void test_fill(const char *name, struct files *fs)
{
	warm(fs, 0, SIZE);
	fill_by(name, fs, false);
	if (!evict(fs)) {
		skip(6, "%s: nothing can be evicted here", name);
		return;
	}
	fill_by(name, fs, true);
	if (!has_cachestat(fs)) {
		skip(3, "%s: no cachestat on this kernel or file system", name);
		return;
	}
	evict(fs);
	warm(fs, HALF, HALF);
	fill_by(name, fs, false);
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
	is_int(4096, tarn_direct_alignment(direct), "blocks of 4 KiB");
	for (unsigned i = 0; i < 3; i++) {
		struct tarn_fill *f = NULL;
		struct tarn_io *io = engine(i == 1 ? "uring" : "threads", -1);

		if (!io) {
			skip(1, "uring: %s", tarn_fail_message());
			continue;
		}
		make_pool(&p, io, true);
		reset_pool(&p);
		j = job_for(&disk, &p, 4096, 1000 * i, SIZE - 1001 * i);
		if (tarn_fill_new(io, &j, &f) < 0)
			bail("%s", tarn_fail_message());
		ok(tarn_fill_run(f) == 0 && tarn_fill_direct(f) &&
				first_wrong(&p, &j) < 0,
			"a fill from there, %s", tarn_io_name(io));
		tarn_fill_free(f);
		tarn_io_free(io);
		drop_pool(&p);
	}
}

int main(void)
{
	struct files fs;

	make_file(&fs, "road", SIZE);
	test_memory();
	if (road_file_system(fs.buffered) != ROAD_FS_LOCAL || fs.direct < 0 ||
		tarn_direct_alignment(fs.direct) == 0) {
		skip(1, "%s is not on a disk that can be read directly",
			test_tmpdir());
	} else {
		test_asking("cachestat", ROAD_ASK_CACHESTAT, &fs);
		test_asking("RWF_NOWAIT", ROAD_ASK_NOWAIT, &fs);
		test_mixed(&fs);
		test_direct(&fs);
		test_remote(&fs);
		test_fill("threads", &fs);
		test_fill("uring", &fs);
	}
	test_sectors(&fs);
	drop_files(&fs);
	return done();
}
