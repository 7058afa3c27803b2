/* SPDX-License-Identifier: MIT */
/*
 * A segment's memory is there and zero when it has been populated, whichever
 * way each of its pages was had: allocated, or faulted in, or faulted in because
 * it could not be allocated. What was allocated is not lost when bytes are put
 * where no fault has cleared it yet. Pages that are asked about afterwards are in
 * the page tables of this process; of others no entry is left, which its end
 * would have to drop.
 */
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tarn/error.h>

#include "base/fd.h"
#include "base/huge_mapped.h"
#include "base/page.h"
#include "base/shmem_huge.h"
#include "daemon/keeper/populate.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)

static bool is_zero(const char *p, uint64_t size)
{
	return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

/* Does this process have an entry for the page? Allocating makes none. */
static bool is_mapped(const char *page)
{
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (pread(fd, &entry, 8,
		    (off_t)((uintptr_t)page / (uintptr_t)sysconf(_SC_PAGESIZE) *
			    8)) != 8)
		bail("pagemap: %m");
	/* Present, or on its way to another place (bit 62). */
	return entry >> 62 != 0;
}

/* Of a segment: made as the keeper makes it, or refusing to be allocated. */
static int new_segment(uint64_t size, bool refuses, char **ret_map)
{
	int fd = memfd_create("populate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char path[64];
	int ro;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		bail("memfd: %m");
	*ret_map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*ret_map == MAP_FAILED)
		bail("mmap: %m");
	if (!refuses)
		return fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		bail("%s: %m", path);
	close(fd);
	return ro;
}

static void test(uint64_t size, bool may_allocate, bool refuses, bool faulted,
	const char *what)
{
	char *map;
	_cleanup_fd_ int fd = new_segment(size, refuses, &map);
	struct stat st;

	is_int(0, populate_by(fd, map, size, may_allocate, faulted),
		"%llu MiB are populated, %s", (unsigned long long)(size / MIB),
		what);
	fstat(fd, &st);
	is_int((int64_t)size, st.st_blocks * 512,
		"all of the segment is allocated, %s", what);
	ok(is_mapped(map) == (faulted && (!may_allocate || refuses)),
		"the segment's front is populated in its way, %s", what);
	if (faulted)
		ok(is_mapped(map + size - 4096),
			"the segment's last page is in the page tables, %s",
			what);
	else
		ok(!is_mapped(map + size - 4096),
			"no entry is left for the segment's last page, %s",
			what);
	map[4097] = 1;
	is_int(0, map[4096], "the byte before one that is written is zero");
	is_int(1, map[4097], "the written byte stays");
	map[4097] = 0;
	ok(is_zero(map, size), "the populated segment is zero");
	munmap(map, size);
}

/* An address as the keeper's segments have it. */
static char *map_huge(int fd, uint64_t size)
{
	char *room = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *at = room + (-(uintptr_t)room & (HUGE_PAGE - 1));

	if (room == MAP_FAILED || mmap(at, size, PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_FIXED, fd, 0) != at)
		bail("mmap: %m");
	return at;
}

#define TRIES 20

struct populated {
	int fd, r;
	char *map;
	bool is_mapped; /* in this process's tables */
	uint64_t bytes; /* in huge pages */
};

static struct populated populated_once(uint64_t size, uint64_t late_ns)
{
	struct populated p;

	p.fd = new_segment(size, false, &p.map);
	munmap(p.map, size);
	p.map = map_huge(p.fd, size);
	p.r = populate_huge(p.fd, p.map, size, late_ns);
	p.is_mapped = is_mapped(p.map) || is_mapped(p.map + size - 4096);
	/* It reads the pages, which maps them. */
	if (huge_mapped(p.map, size, &p.bytes) < 0)
		bail("huge_mapped: %s", tarn_error_message());
	return p;
}

/* Memory may be in pieces, and be whole a moment later. */
static struct populated populated(
	uint64_t size, uint64_t late_ns, uint64_t wanted)
{
	struct populated p = populated_once(size, late_ns);

	for (useconds_t i = 1; i < TRIES && p.r == 0 && p.bytes < wanted; i++) {
		munmap(p.map, size);
		close(p.fd);
		usleep(i * 20000);
		p = populated_once(size, late_ns);
	}
	return p;
}

/* In huge pages, if the kernel makes any, up to the first stretch that is late;
 * with none of them in this process's tables. */
static void huge(
	uint64_t size, uint64_t late_ns, uint64_t wanted, const char *what)
{
	bool makes = shmem_huge_pages("") == 0 && shmem_collapses();
	struct populated p = populated(size, late_ns, makes ? wanted : 0);
	struct stat st;

	is_int(0, p.r, "%llu MiB are populated, %s",
		(unsigned long long)(size / MIB), what);
	fstat(p.fd, &st);
	is_int((int64_t)size, st.st_blocks * 512,
		"all of the segment is allocated, %s", what);
	ok(!p.is_mapped, "no entry is left for the segment's pages, %s", what);
	if (!makes)
		skip(1, "the kernel makes no huge page when it is asked for "
			"one, or all by itself");
	else
		is_int((int64_t)wanted, (int64_t)p.bytes,
			"so much of the segment is in huge pages, %s", what);
	ok(is_zero(p.map, size), "the segment is zero, %s", what);
	munmap(p.map, size);
	close(p.fd);
}

/* As a pool of pages of 4 KiB has it. */
static void small(uint64_t size)
{
	uint64_t bytes = 1;
	char *map;
	_cleanup_fd_ int fd = new_segment(size, false, &map);

	if (madvise(map, size, MADV_NOHUGEPAGE) < 0)
		diag("MADV_NOHUGEPAGE: %m");
	is_int(0, populate(fd, map, size, 0, -1),
		"a segment of small pages is populated");
	if (huge_mapped(map, size, &bytes) < 0)
		bail("huge_mapped: %s", tarn_error_message());
	is_int(0, (int64_t)bytes, "none of it is in huge pages");
	munmap(map, size);
}

int main(void)
{
	static const uint64_t sizes[] = {2, 6, 32, 70};

	for (int i = 0; i < 4; i++) {
		test(sizes[i] * MIB, true, false, false, "allocated");
		test(sizes[i] * MIB, false, false, true, "by faults");
		test(sizes[i] * MIB, false, false, false,
			"by faults that nobody asks about");
	}
	test(4 * MIB, true, true, true, "refused by fallocate");
	test(4 * MIB, true, true, false, "refused, and not asked about");
	huge(2 * MIB, UINT64_MAX, 2 * MIB, "a huge page");
	huge(70 * MIB, UINT64_MAX, 70 * MIB, "huge pages");
	huge(70 * MIB, 0, 32 * MIB, "huge pages that are late");
	small(4 * MIB);
	return done(7 * 14 + 3 * 5 + 2);
}
