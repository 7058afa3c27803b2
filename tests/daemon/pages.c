/* SPDX-License-Identifier: MIT */
/*
 * A loader's threads make the pages of its segments while bytes are read into
 * them: in the end each page has an entry in the loader's tables, no byte that
 * was put there meanwhile is lost, and what no byte was put into is zero. A
 * segment that is forgotten in the middle of it can be unmapped at once.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/page.h"
#include "daemon/loader/internal.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)
#define SIZE (32 * MIB)
#define PATIENCE_S 60.0

/* As the keeper leaves it: allocated, and the last quarter cleared too. */
static char *new_segment(uint64_t size)
{
	_cleanup_fd_ int fd = memfd_create("pages", MFD_CLOEXEC);
	char *map;

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
		fallocate(fd, 0, 0, (off_t)size) < 0)
		bail("memfd: %m");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bail("mmap: %m");
	memset(map + size / 4 * 3, 0, size / 4);
	munmap(map, size);
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		bail("mmap: %m");
	return map;
}

static uint64_t count_mapped(const char *map, uint64_t size)
{
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = 0, entry = 0;

	for (uint64_t at = 0; at < size; at += page) {
		if (pread(fd, &entry, 8,
			    (off_t)(((uintptr_t)map + at) / page * 8)) != 8)
			bail("pagemap: %m");
		/* Present, or on its way to another place (bit 62). */
		n += entry >> 62 != 0;
	}
	return n * page;
}

static void await(struct loader_pages *pages, uint32_t segment)
{
	double end = seconds() + PATIENCE_S;

	while (!pages_are_here(pages, segment) && seconds() < end)
		usleep(1000);
	ok(pages_are_here(pages, segment), "all pages of segment %u come",
		segment);
}

static unsigned char byte_of(uint64_t at)
{
	return (unsigned char)(at >> 12 | 1);
}

/* One byte of each page of [from, to) is put there while the threads work. */
static void put_meanwhile(struct loader_pages *pages, uint64_t from,
	uint64_t to, const char *what)
{
	char *map = new_segment(SIZE);
	uint64_t wrong = 0;

	ok(!pages_are_here(pages, 0),
		"no page is prepared before it is wanted");
	pages_want(pages, 0, -1, map, SIZE, from, to);
	for (uint64_t at = from; at < to; at += PAGE)
		map[at] = (char)byte_of(at);
	await(pages, 0);
	ok(!pages_are_coming(pages), "no page is on its way after the wait");
	is_int((int64_t)SIZE, (int64_t)count_mapped(map, SIZE),
		"each page has its entry: %s", what);
	for (uint64_t at = 0; at < SIZE; at++)
		wrong += (unsigned char)map[at] !=
			 (at >= from && at < to && (at - from) % PAGE == 0
					 ? byte_of(at)
					 : 0);
	is_int(0, (int64_t)wrong, "each page has its bytes: %s", what);
	pages_forget(pages, 0);
	munmap(map, SIZE);
}

static void forget_meanwhile(struct loader_pages *pages)
{
	char *maps[2] = {new_segment(SIZE), new_segment(SIZE)};

	pages_want(pages, 0, -1, maps[0], SIZE, 0, SIZE);
	pages_want(pages, 1, -1, maps[1], SIZE, 2 * MIB, 4 * MIB);
	pages_forget(pages, 0);
	ok(!pages_are_here(pages, 0), "a forgotten segment has no pages");
	munmap(maps[0], SIZE);
	/* What is there now is not the loader's. */
	maps[0] = mmap(maps[0], SIZE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	await(pages, 1);
	is_int((int64_t)SIZE, (int64_t)count_mapped(maps[1], SIZE),
		"the other segment is not held up");
	munmap(maps[0], SIZE);
	munmap(maps[1], SIZE);
}

int main(void)
{
	struct loader_pages *pages = NULL;
	char *map;

	if (pages_new(2, &pages) < 0)
		bail("out of memory");
	put_meanwhile(pages, 0, SIZE, "all of it is read into");
	put_meanwhile(pages, 0, MIB, "its begin is");
	put_meanwhile(pages, 9 * MIB + PAGE, 20 * MIB, "its middle is");
	put_meanwhile(pages, SIZE - PAGE, SIZE, "its last page is");
	forget_meanwhile(pages);
	pages = pages_free(pages);
	if (pages_new(1, &pages) < 0)
		bail("out of memory");
	map = new_segment(SIZE);
	pages_want(pages, 0, -1, map, SIZE, 0, SIZE);
	pages = pages_free(pages);
	ok(!pages, "it ends in the middle of its work");
	munmap(map, SIZE);
	return done(24);
}
