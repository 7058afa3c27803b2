/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says of huge pages: how many of the reserve can be had, and
 * how much of a range is mapped in them. Both ways to ask for the latter must
 * agree, on memory with small pages, with transparent huge ones and with pages
 * of the reserve, also where the range begins and ends inside of a huge page.
 */
#include <errno.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/huge_mapped.h"
#include "base/huge_reserve.h"
#include "base/page.h"
#include "base/shmem_huge.h"
#include "tests/kit/huge_pages.h"
#include "tests/kit/put_file.h"
#include "tests/kit/tap.h"

#define SIZE (4 * HUGE_PAGE)
#define SWITCH "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define PART "/sys/kernel/mm/hugepages/hugepages-2048kB/"

static void reserve(void)
{
	struct huge_reserve have;
	char root[4096];

	snprintf(root, sizeof(root), "%s/root", test_tmpdir());
	mkdir(root, 0700);
	put_file(root, PART "nr_hugepages", "64\n");
	put_file(root, PART "free_hugepages", "10\n");
	is_int(-ENOENT, huge_reserve_read(root, 21, &have),
		"without all figures there is none");
	put_file(root, PART "resv_hugepages", "3\n");
	is_int(0, huge_reserve_read(root, 21, &have), "the reserve is read");
	is_int(64, (int64_t)have.all, "all of its pages are counted");
	is_int(7, (int64_t)have.free,
		"pages that others were promised are not free");
	is_str(PART "nr_hugepages", have.setting,
		"the setting is that of the size");
	is_int(-ENOENT, huge_reserve_read(root, 30, &have),
		"a size that the machine does not have is not found");
}

static void denied(void)
{
	char root[4096];

	snprintf(root, sizeof(root), "%s/root", test_tmpdir());
	ok(!shmem_huge_denied(root), "without a switch nothing is denied");
	put_file(
		root, SWITCH, "always within_size advise [never] deny force\n");
	ok(!shmem_huge_denied(root), "never is no denial");
	put_file(
		root, SWITCH, "always within_size advise never [deny] force\n");
	ok(shmem_huge_denied(root), "deny is one");
}

static bool scans(void)
{
	uint64_t bytes;
	char byte = 0;

	return huge_mapped_by_scan(&byte, 1, &bytes) == 0;
}

/* Both ways; scan: as that counts, to the byte. */
static void count(const char *p, uint64_t size, uint64_t scan, uint64_t smaps,
	const char *what)
{
	uint64_t bytes = 0;

	if (scans()) {
		is_int(0, huge_mapped_by_scan(p, size, &bytes),
			"the page tables are read: %s", what);
		is_int((int64_t)scan, (int64_t)bytes,
			"they show what is huge: %s", what);
	} else {
		skip(2, "this kernel has no PAGEMAP_SCAN");
	}
	is_int(0, huge_mapped_by_smaps(p, size, &bytes), "smaps is read: %s",
		what);
	is_int((int64_t)smaps, (int64_t)bytes, "it shows what is huge: %s",
		what);
}

static void small(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bail("mmap: %m");
	madvise(p, SIZE, MADV_NOHUGEPAGE);
	count(p, SIZE, 0, 0, "small pages");
	munmap(p, SIZE);
}

/* Anonymous memory, which most kernels give huge pages on advice; of the third
 * of four there is none. */
static void transparent(void)
{
	char *all = mmap(NULL, SIZE + HUGE_PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *p = all + (-(uintptr_t)all & (HUGE_PAGE - 1));
	uint64_t bytes = 0;

	if (all == MAP_FAILED)
		bail("mmap: %m");
	madvise(p, SIZE, MADV_HUGEPAGE);
	madvise(p + 2 * HUGE_PAGE, HUGE_PAGE, MADV_NOHUGEPAGE);
	for (uint64_t at = 0; at < SIZE; at += PAGE)
		p[at] = 1;
	if (huge_mapped_by_smaps(p, SIZE, &bytes) < 0 ||
		bytes != 3 * HUGE_PAGE) {
		skip(4, "this kernel gave %llu bytes in huge pages",
			(unsigned long long)bytes);
	} else {
		/* The advice has cut the range into three mappings. */
		count(p + 100, SIZE - 300, 3 * HUGE_PAGE - 300,
			3 * HUGE_PAGE - 300, "three transparent ones of four");
	}
	munmap(all, SIZE + HUGE_PAGE);
}

static void reserved(void)
{
	char *p = MAP_FAILED;
	int fd = -1;

	huge_pages_turn();
	if (huge_pages_reserve(SIZE / HUGE_PAGE))
		fd = memfd_create("huge",
			MFD_CLOEXEC | MFD_HUGETLB | 21u << MFD_HUGE_SHIFT);
	if (fd >= 0 && ftruncate(fd, (off_t)SIZE) == 0)
		p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		skip(4, "no huge pages of 2 MiB can be reserved");
	else
		count(p + HUGE_PAGE + 4096, 2 * HUGE_PAGE, 2 * HUGE_PAGE,
			2 * HUGE_PAGE, "pages of the reserve");
	if (p != MAP_FAILED)
		munmap(p, SIZE);
	if (fd >= 0)
		close(fd);
	huge_pages_give_back();
}

static void absent(void)
{
	char *p =
		mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t bytes = 7;

	munmap(p, SIZE);
	is_int(-ENOMEM, huge_mapped(p, SIZE, &bytes),
		"a range that is not mapped is an error");
	is_int(7, (int64_t)bytes, "an error returns no figure");
}

int main(void)
{
	char command[4200];

	reserve();
	denied();
	small();
	transparent();
	reserved();
	absent();
	snprintf(command, sizeof(command), "rm -rf '%s'", test_tmpdir());
	if (system(command))
		diag("%s is left behind", test_tmpdir());
	return done(23);
}
