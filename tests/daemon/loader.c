/* SPDX-License-Identifier: MIT */
/*
 * The loader brings files into the pool: every byte to its place, none
 * elsewhere, on both engines, alone and many at once, across segments, with
 * ranges that touch in the pool but not in the file, and with a segment less.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/page.h"
#include "tests/kit/loader.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define TESTS_EACH 46
#define PATIENCE_S 60.0

static struct kit kit;
static uint64_t jobs;

static uint64_t pages(uint64_t n)
{
	return (n + PAGE - 1) / PAGE * PAGE;
}

/* Loads [offset, offset + size) of a file to a place congruent to it. */
static bool load(const char *path, bool with_direct, uint64_t offset,
	uint64_t size, uint64_t alloc_offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int direct = with_direct ? kit_loader_open_direct(path) : -1;
	uint64_t alloc_size = pages(offset % PAGE + size) + PAGE;
	struct msg_fill_range range = {
		offset, size, alloc_offset + offset % PAGE};
	bool fine;

	alloc_size = MIN(alloc_size, KIT_FIRST + KIT_SIZE - alloc_offset);
	fine = kit_loader_identify(&kit, ++jobs, fd, direct) == L_IDENTITY &&
	       kit_loader_fill(&kit, jobs, alloc_offset, alloc_size, &range,
		       1) == L_DONE &&
	       kit.filled.bytes == size &&
	       kit_loader_holds(&kit, range.pool_offset, size, offset);
	close(fd);
	if (direct >= 0)
		close(direct);
	return fine;
}

static void sizes_and_places(bool with_direct)
{
	static const uint64_t sizes[] = {0, 1, 511, 512, 4095, 4096, 4097,
		65549, 524287, 524288, 524289, 2 * 1048576 + 777};
	static const uint64_t offsets[] = {0, 8, 1000, 4096 + 72};
	int wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes) * ARRAY_SIZE(offsets); i++) {
		uint64_t size = sizes[i / ARRAY_SIZE(offsets)];
		uint64_t offset = offsets[i % ARRAY_SIZE(offsets)];
		/* Every third goes on behind the range. */
		const char *path = kit_loader_file(
			"sizes", offset + size + (i % 3 ? 0 : 5000));
		/* Before, on and behind the borders at 2 and 3 MiB. */
		uint64_t at = KIT_FIRST + (i * 37 % 800) * PAGE;

		if (!load(path, with_direct, offset, size, at)) {
			diag("%llu bytes from byte %llu",
				(unsigned long long)size,
				(unsigned long long)offset);
			wrong++;
		}
	}
	is_int(0, wrong,
		"files of 48 sizes and places are loaded, %s direct I/O",
		with_direct ? "with" : "without");
}

static void canaries(void)
{
	const char *path = kit_loader_file("canary", 3 * MIB + 100);
	uint64_t at = KIT_FIRST + MIB, size = 2 * MIB - 700;

	kit_loader_wipe(&kit);
	ok(load(path, true, 700, size, at),
		"a load over all three segments succeeds");
	ok(kit_loader_untouched_outside(&kit, at, at + 2 * MIB + PAGE),
		"the load over three segments writes nowhere else");
	/* The pool's last bytes: there is nothing behind to round up to. */
	kit_loader_wipe(&kit);
	at = KIT_FIRST + KIT_SIZE - PAGE;
	ok(load(path, true, 0, 100, at) &&
			kit_loader_untouched_outside(&kit, at, at + PAGE),
		"a load into the pool's last page succeeds");
}

/* They touch in the pool, in another order than in the file, at odd bytes:
 * what one reads too much must not land on another. */
static void many_ranges(void)
{
	const char *path = kit_loader_file("ranges", 2 * MIB);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int direct = kit_loader_open_direct(path);
	uint64_t at = KIT_FIRST + 2 * MIB - 8 * PAGE;
	struct msg_fill_range ranges[] = {
		{500000, 70001, at + 100 + 30001},
		{100 + PAGE, 30001, at + 100},
		{7, 0, at + 50},
		{2 * MIB - 5, 5, at + 100 + 100002},
	};

	kit_loader_wipe(&kit);
	is_int(L_IDENTITY, kit_loader_identify(&kit, ++jobs, fd, direct),
		"a file for four ranges is identified");
	is_int(L_DONE,
		kit_loader_fill(&kit, jobs, at, pages(100200), ranges,
			ARRAY_SIZE(ranges)),
		"a load of four ranges succeeds");
	is_int(100007, (int64_t)kit.filled.bytes,
		"the bytes of all ranges are counted");
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		ok(kit_loader_holds(&kit, ranges[i].pool_offset, ranges[i].size,
			   ranges[i].file_offset),
			"range %zu holds the %llu bytes of the file from %llu",
			i, (unsigned long long)ranges[i].size,
			(unsigned long long)ranges[i].file_offset);
	ok(kit_loader_untouched_outside(&kit, at, at + pages(100200)),
		"a load of four ranges writes nothing beside them");
	close(fd);
	if (direct >= 0)
		close(direct);
}

/* More than are read at once; each its own file and place. */
static void side_by_side(void)
{
	enum { N = 20 };
	uint64_t first = jobs + 1, size = MIB + 333, of = 0;
	int finished = 0, wrong = 0;

	for (int i = 0; i < N; i++) {
		char name[16];
		const char *path;
		int fd, direct;

		snprintf(name, sizeof(name), "side%d", i);
		path = kit_loader_file(name, size + (uint64_t)i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		direct = kit_loader_open_direct(path);
		wrong += kit_loader_identify(&kit, ++jobs, fd, direct) !=
			 L_IDENTITY;
		close(fd);
		if (direct >= 0)
			close(direct);
	}
	kit_loader_wipe(&kit);
	for (int i = 0; i < N; i++) {
		uint64_t at = KIT_FIRST + (uint64_t)i * 2 * MIB;
		struct msg_fill_range range = {
			(uint64_t)i, size, at + (uint64_t)i};

		kit_loader_send_fill(
			&kit, first + (uint64_t)i, at, 2 * MIB, &range, 1);
	}
	for (; finished < N; finished++)
		wrong += kit_loader_answer(&kit, &of) != L_DONE;
	for (int i = 0; i < N; i++)
		wrong += !kit_loader_holds(&kit,
			KIT_FIRST + (uint64_t)i * (2 * MIB + 1), size,
			(uint64_t)i);
	is_int(0, wrong, "%d loads side by side succeed", N);
}

static void large(const char *engine)
{
	/* More than is told at once, and all that can be in flight. */
	const char *path = kit_loader_file("large", 50 * MIB);
	struct stat st;
	uint64_t of = 0;

	ok(load(path, true, 0, 50 * MIB, KIT_FIRST),
		"a load of 50 MiB succeeds");
	ok(kit.n_progress >= 1, "the load of 50 MiB reports progress");
	ok(kit.progress <= 50 * MIB,
		"the progress is never more than the whole");
	diag("%.1f ms of CPU", (double)kit.filled.cpu_ns / 1e6);
	ok(kit.filled.cpu_ns > 0 && kit.filled.cpu_ns < 40ull * 1000000000u,
		"the loader reports its CPU time");
	is_int(strcmp(engine, "io_uring") ? 0 : LOADED_URING,
		kit.filled.flags & LOADED_URING,
		"the loader reports its engine");
	diag("direct %d, registered %d", !!(kit.filled.flags & LOADED_DIRECT),
		!!(kit.filled.flags & LOADED_REGISTERED));
	stat(path, &st);
	is_int((int64_t)st.st_ino, (int64_t)kit.identity.file.ino,
		"the identity has the file's inode");
	is_int(st.st_size, (int64_t)kit.identity.file.size,
		"the identity has the file's size");
	is_int(st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
		(int64_t)kit.identity.file.mtime,
		"the identity has the file's mtime in nanoseconds");
	kit_loader_send_drop(&kit, jobs);
	is_int(L_DROPPED, kit_loader_answer(&kit, &of),
		"a drop that comes too late is answered");
}

static int open_files(void)
{
	uint64_t of;
	char path[64];
	DIR *dir;
	int n = 0;

	/* By its answer it is done with all that came before. */
	kit_loader_send_drop(&kit, ++jobs);
	kit_loader_answer(&kit, &of);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)kit.pid);
	dir = opendir(path);
	if (!dir)
		bail("%s: %m", path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Closing is left to a thread: until it has nothing more to do. */
static int settled_files(void)
{
	int n = open_files(), same = 0;

	while (same < 5) {
		int now;

		usleep(20000);
		now = open_files();
		same = now == n ? same + 1 : 0;
		n = now;
	}
	return n;
}

/* Not more than there were, when the thread has closed the others. */
static bool files_become(int most)
{
	double end = seconds() + PATIENCE_S;
	int n;

	while ((n = open_files()) > most && seconds() < end)
		usleep(20000);
	if (n > most)
		diag("%d descriptors, there were %d", n, most);
	return n <= most;
}

/* A segment that the server drops is no place to load to; the others are, and
 * keep the numbers that their buffers were registered under. */
static void forgetting(void)
{
	const char *path = kit_loader_file("forgetting", MIB);
	uint64_t second = kit.segments[1].offset;
	struct msg_fill_range range = {0, MIB, KIT_FIRST};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	is_int(L_FORGOTTEN, kit_loader_forget(&kit, 0),
		"a segment is forgotten");
	is_int(L_FORGOTTEN, kit_loader_forget(&kit, 0),
		"the loader answers a second message about the same segment");
	kit_loader_identify(&kit, ++jobs, fd, -1);
	is_int(L_FAILED, kit_loader_fill(&kit, jobs, KIT_FIRST, MIB, &range, 1),
		"a load into a forgotten segment fails");
	is_int(EFAULT, kit.error, "the error of a forgotten segment is EFAULT");
	ok(load(path, true, 0, MIB, second),
		"a load into the next segment succeeds");
	is_int(KIT_CANARY, kit_loader_byte(&kit, KIT_FIRST),
		"the bytes of the forgotten segment are untouched");
	close(fd);
}

/* Stamps that last are told by the file system; where they do not, a file
 * without writers is told so. */
static uint32_t unwritten(const char *path)
{
	struct file_identity id;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (identity_settled(fd, &id) < 0)
		bail("%s: %s", path, tarn_fail_message());
	close(fd);
	switch (identity_worth(&id)) {
	case IDENTITY_LASTS:
		return NOT_KEPT_KEPT;
	case IDENTITY_WEAK:
		return NOT_KEPT_FILE_SYSTEM;
	default:
		return NOT_KEPT_RACY;
	}
}

static uint32_t judged(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	is_int(L_IDENTITY, kit_loader_identify(&kit, ++jobs, fd, -1),
		"the loader identifies the file");
	kit_loader_send_drop(&kit, jobs);
	kit_loader_answer(&kit, &(uint64_t) {0});
	close(fd);
	return kit.identity.not_kept;
}

static void writers(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *at = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || at == MAP_FAILED)
		bail("%s: %m", path);
	is_int(NOT_KEPT_WRITERS, judged(path),
		"a file that is open for writing has a writer");
	close(fd);
	is_int(NOT_KEPT_WRITERS, judged(path),
		"a file mapped writable has a writer, though it is closed");
	munmap(at, 1);
	is_int(unwritten(path), judged(path),
		"a file without writers has none");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		bail("a read lease: %m");
	kit_loader_identify(&kit, ++jobs, fd, -1);
	kit_loader_send_drop(&kit, jobs);
	kit_loader_answer(&kit, &(uint64_t) {0});
	is_int(F_RDLCK, fcntl(fd, F_GETLEASE),
		"a client's own read lease is left alone");
	fcntl(fd, F_SETLEASE, F_UNLCK);
	close(fd);
}

/* Of a file of its own, which the loader may have open for a while. */
static void writer_with_lease(void)
{
	const char *path = kit_loader_file("leased", MIB);
	int fd = open(path, O_RDWR | O_CLOEXEC), reader;

	if (fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		bail("a write lease: %m");
	kit_loader_identify(&kit, ++jobs, fd, -1);
	is_int(NOT_KEPT_WRITERS, kit.identity.not_kept,
		"a process with a write lease is a writer");
	kit_loader_send_drop(&kit, jobs);
	kit_loader_answer(&kit, &(uint64_t) {0});
	/* A reader that does not wait asks the writer to give up half of its
	 * lease: until it does, the kernel calls that a read lease. */
	signal(SIGIO, SIG_IGN);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	is_int(F_RDLCK, reader < 0 ? fcntl(fd, F_GETLEASE) : -1,
		"a write lease that a reader has broken is gone");
	kit_loader_identify(&kit, ++jobs, fd, -1);
	is_int(NOT_KEPT_WRITERS, kit.identity.not_kept,
		"a writer whose write lease is being broken is a writer");
	fcntl(fd, F_SETLEASE, F_UNLCK);
	kit_loader_send_drop(&kit, jobs);
	kit_loader_answer(&kit, &(uint64_t) {0});
	close(fd);
}

static struct digest digest_of(const char *path, uint64_t size)
{
	struct digest_state *state = digest_new();
	char *bytes = malloc(size);
	struct digest digest;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (!state || !bytes || pread(fd, bytes, size, 0) != (ssize_t)size)
		bail("%s: %m", path);
	digest_add(state, bytes, size);
	digest = digest_end(state);
	digest_free(state);
	free(bytes);
	close(fd);
	return digest;
}

/* What was parsed, and what is read, are one version. */
static void versions(void)
{
	/* More than the loader reads at once. */
	const uint64_t header = 2 * MIB + 77, at = kit.segments[1].offset;
	const char *path = kit_loader_file("versions", 3 * MIB);
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (identity_settled(fd, &kit.seen.identity) < 0)
		bail("%s: %s", path, tarn_fail_message());
	kit.seen.header_size = header;
	kit.seen.header = digest_of(path, header);
	ok(load(path, true, header, 1000, at),
		"a file with the expected header is loaded");
	kit.seen.header.low ^= 1;
	ok(!load(path, true, header, 1000, at),
		"a file with another header is refused");
	is_int(ESTALE, kit.error, "the error of another header is ESTALE");
	kit.seen.header.low ^= 1;
	if (pwrite(fd, "x", 1, 3 * MIB - 1) != 1)
		bail("%s: %m", path);
	ok(!load(path, true, header, 1000, at),
		"a file with another mtime is refused");
	is_int(ESTALE, kit.error, "the error of another mtime is ESTALE");
	kit.seen = (struct file_version) {0};
	close(fd);
}

static void with_engine(const char *engine)
{
	const char *old;
	int before;

	if (!kit_loader_engine(engine)) {
		skip(TESTS_EACH, "%s does not start here", engine);
		return;
	}
	diag("%s", engine);
	old = kit_loader_file("old", 1);
	kit_loader_start(&kit);
	load(old, true, 0, 1, KIT_FIRST);
	before = settled_files();
	sizes_and_places(true);
	sizes_and_places(false);
	canaries();
	many_ranges();
	side_by_side();
	large(engine);
	kit_loader_wipe(&kit);
	forgetting();
	writers(kit_loader_file("written", 1));
	writer_with_lease();
	versions();
	ok(files_become(before), "the loader keeps no descriptor");
	is_int(0, kit_loader_stop(&kit), "the loader ends with its socket");
}

int main(void)
{
	with_engine("threads");
	with_engine("io_uring");
	kit_loader_clean();
	return done(2 * TESTS_EACH);
}
