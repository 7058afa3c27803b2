/* SPDX-License-Identifier: MIT */
/*
 * Copy-on-write mappings.
 *
 * A private mapping may be writable although its descriptor is not. Pages that
 * are only read are shared with all other processes; the first write to a page
 * copies that page alone, also where it is part of a huge one. No memory is
 * reserved in advance: pages that are never written take none.
 */
#include "base/page.h"
#include "lib/store/cow_map.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "base/checked.h"
#include "base/fail.h"

int cow_map_reserve(struct cow_map *map, uint64_t size, uint64_t offset)
{
	uint64_t before, all;
	unsigned char *p;

	if (add_u64(size, HUGE_PAGE + PAGE, &all))
		return tarn_fail(ENOMEM,
			"%llu bytes are more than one address space",
			(unsigned long long)size);
	size = (size + PAGE - 1) & ~(PAGE - 1);
	p = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return tarn_fail(ENOMEM,
			"no room for %llu bytes of addresses: %s",
			(unsigned long long)size, tarn_errno_text(errno));
	before = (offset - (uintptr_t)p) % HUGE_PAGE;
	if (before)
		munmap(p, before);
	munmap(p + before + size, HUGE_PAGE - before);
	map->start = p + before;
	map->size = size;
	return 0;
}

/* A page of a hugetlb file is copied whole, and its copy comes from a reserve:
 * where that is used up, a write is a SIGBUS. */
static bool is_hugetlb(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;
}

int cow_map_add(struct cow_map *map, uint64_t at, int fd, uint64_t offset,
	uint64_t size)
{
	int r;

	if (is_hugetlb(fd))
		return -ENOTSUP;
	r = cow_map_over(map, at, fd, offset, size);
	/* Only a hint, for reading alone: a write copies a small page. */
	if (r >= 0)
		madvise(map->start + at, size, MADV_HUGEPAGE);
	return r;
}

int cow_map_over(struct cow_map *map, uint64_t at, int fd, uint64_t offset,
	uint64_t size)
{
	int prot = PROT_READ | (map->read_only ? 0 : PROT_WRITE);
	/* Without a reservation: otherwise all of it would count as if it were
	 * written. */
	int flags = map->read_only ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE;

	if (mmap(map->start + at, size, prot, flags | MAP_FIXED, fd,
		    (off_t)offset) != MAP_FAILED)
		return 0;
	return errno == ENODEV
		       ? -ENOTSUP
		       : tarn_fail(errno, "mapping %llu bytes %s: %s",
				 (unsigned long long)size,
				 map->read_only ? "for reading" : "privately",
				 tarn_errno_text(errno));
}

/* Since Linux 5.18; headers may be older than the kernel. */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

void cow_map_reset(void *start, uint64_t size)
{
	/* MADV_DONTNEED refuses memory that the process has locked. */
	if (madvise(start, size, MADV_DONTNEED) < 0)
		madvise(start, size, MADV_DONTNEED_LOCKED);
}

void cow_map_done(struct cow_map *map)
{
	if (map->size)
		munmap(map->start, map->size);
	*map = (struct cow_map) {0};
}
