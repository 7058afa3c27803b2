/* SPDX-License-Identifier: MIT */
/*
 * One switch decides for all sizes, and newer kernels have one for each size,
 * which may point to the first ("inherit").
 */
#include "base/shmem_huge.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/page.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define USUAL (2ull << 20) /* where the kernel's size cannot be read */

/* Of a switch of the kernel's, "always [never]": is it one of these two? */
static bool is_set(const char *path, const char *one, const char *other)
{
	char text[128];

	return fd_read_text(path, text, sizeof(text)) >= 0 &&
	       (strstr(text, one) || strstr(text, other));
}

static bool is_on_for_a_size(const char *root)
{
	char pattern[4096];
	bool on = false;
	glob_t sizes;

	snprintf(pattern, sizeof(pattern), "%s" THP "hugepages-*/shmem_enabled",
		root);
	if (glob(pattern, GLOB_NOSORT, NULL, &sizes) != 0)
		return false;
	for (size_t i = 0; i < sizes.gl_pathc; i++)
		on = on || !is_set(sizes.gl_pathv[i], "[never]", "[inherit]");
	globfree(&sizes);
	return on;
}

int shmem_huge_pages(const char *root)
{
	char path[4096], text[128];
	ssize_t n;

	snprintf(path, sizeof(path), "%s" THP "shmem_enabled", root);
	n = fd_read_text(path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	return !is_set(path, "[never]", "[deny]") || is_on_for_a_size(root);
}

bool shmem_huge_denied(const char *root)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s" THP "shmem_enabled", root);
	return is_set(path, "[deny]", "[deny]");
}

/* An address for a huge page, and its neighbourhood. */
static bool collapses_at(int fd, char *room)
{
	char *at = room + (-(uintptr_t)room & (HUGE_PAGE - 1));

	return mmap(at, HUGE_PAGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, fd, 0) == at &&
	       madvise(at, PAGE, MADV_POPULATE_WRITE) == 0 &&
	       madvise(at, HUGE_PAGE, MADV_COLLAPSE) == 0;
}

bool shmem_collapses(void)
{
	_cleanup_fd_ int fd = fd_memory("tarn-check");
	char *room;
	bool does;

	if (fd < 0 || shmem_huge_denied("") || ftruncate(fd, HUGE_PAGE) < 0)
		return false;
	room = mmap(NULL, 2 * HUGE_PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return false;
	does = collapses_at(fd, room);
	munmap(room, 2 * HUGE_PAGE);
	return does;
}

uint64_t shmem_page_max(const char *root)
{
	char path[4096], text[128];
	uint64_t size = USUAL;

	if (shmem_huge_pages(root) == 0)
		return (uint64_t)sysconf(_SC_PAGESIZE);
	snprintf(path, sizeof(path), "%s" THP "hpage_pmd_size", root);
	if (fd_read_text(path, text, sizeof(text)) > 0)
		size = strtoull(text, NULL, 10);
	return size ? size : USUAL;
}
