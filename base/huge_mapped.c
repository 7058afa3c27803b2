/* SPDX-License-Identifier: MIT */
/*
 * A page table entry tells how large a page is mapped; the kernel shows it by
 * PAGEMAP_SCAN for a range, and in smaps for whole mappings. No such figure
 * exists for memory that no process has mapped, so that a page of each stretch
 * is read first: a huge page is mapped as a whole by that, if it can be.
 */
#include "base/huge_mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/page.h"

/* Since Linux 6.7; headers may be older than the kernel. */
#define SCAN_PRESENT (1u << 3)
#define SCAN_HUGE (1u << 6)

struct scan_region {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags;
	uint64_t start, end, walk_end; /* where it went to */
	uint64_t vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask;
	uint64_t return_mask;
};

#define SCAN_IOCTL _IOWR('f', 16, struct scan)

struct range {
	uint64_t from, to; /* addresses */
};

static uint64_t overlap(const struct range *range, uint64_t from, uint64_t to)
{
	from = MAX(from, range->from);
	to = MIN(to, range->to);
	return to > from ? to - from : 0;
}

/* ---- touching ---------------------------------------------------------- */

static int touch(const struct range *range)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t at = range->from; at < range->to;
		at = (at | (HUGE_PAGE - 1)) + 1) {
		void *p = (void *)(uintptr_t)(at & ~(page - 1));

		/* Refused by valgrind, and where there is no access: nothing is
		 * mapped there. */
		if (madvise(p, page, MADV_POPULATE_READ) < 0 && errno != EINVAL)
			return -errno;
	}
	return 0;
}

/* ---- PAGEMAP_SCAN ------------------------------------------------------ */

static int scan(int fd, const struct range *range, uint64_t *ret)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), sum = 0;
	/* Initialised, since valgrind does not know what the call writes. */
	struct scan_region regions[64] = {{0}};
	struct scan arg = {
		.size = sizeof(arg),
		.start = range->from & ~(page - 1),
		.end = (range->to + page - 1) & ~(page - 1),
		.vec = (uintptr_t)regions,
		.vec_len = ARRAY_SIZE(regions),
		.category_mask = SCAN_PRESENT | SCAN_HUGE,
		.return_mask = SCAN_HUGE,
	};

	while (arg.start < arg.end) {
		int n = ioctl(fd, SCAN_IOCTL, &arg);

		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++)
			sum += overlap(range, regions[i].start, regions[i].end);
		/* It stops early only where the regions are full. */
		if (arg.walk_end <= arg.start)
			break;
		arg.start = arg.walk_end;
	}
	*ret = sum;
	return 0;
}

int huge_mapped_by_scan(const void *addr, uint64_t size, uint64_t *ret_bytes)
{
	struct range range = {(uintptr_t)addr, (uintptr_t)addr + size};
	/* Not to be opened by a process that is undumpable and not root's. */
	_cleanup_fd_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = touch(&range);
	return r < 0 ? r : scan(fd, &range, ret_bytes);
}

/* ---- smaps --------------------------------------------------------------- */

static bool is_huge_line(const char *line)
{
	static const char *const keys[] = {"AnonHugePages:", "ShmemPmdMapped:",
		"FilePmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strncmp(line, keys[i], strlen(keys[i])) == 0)
			return true;
	return false;
}

/* Mappings come in the order of addresses: the rest is not even made up by the
 * kernel. */
static uint64_t sum_smaps(FILE *f, const struct range *range)
{
	uint64_t from, to, here = 0, huge = 0, sum = 0, kib;
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, f) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
			sum += MIN(here, huge);
			here = overlap(range, from, to);
			huge = 0;
			if (from >= range->to)
				break;
		} else if (here && is_huge_line(line) &&
			   sscanf(strchr(line, ':'), ": %" SCNu64, &kib) == 1) {
			huge += kib << 10;
		}
	}
	return sum + MIN(here, huge);
}

int huge_mapped_by_smaps(const void *addr, uint64_t size, uint64_t *ret_bytes)
{
	struct range range = {(uintptr_t)addr, (uintptr_t)addr + size};
	int r = touch(&range);
	FILE *f;

	if (r < 0)
		return r;
	f = fopen("/proc/self/smaps", "re");
	if (!f)
		return -errno;
	*ret_bytes = sum_smaps(f, &range);
	fclose(f);
	return 0;
}

int huge_mapped(const void *addr, uint64_t size, uint64_t *ret_bytes)
{
	int r = huge_mapped_by_scan(addr, size, ret_bytes);

	return r < 0 && r != -ENOMEM
		       ? huge_mapped_by_smaps(addr, size, ret_bytes)
		       : r;
}
