/* SPDX-License-Identifier: MIT */
/*
 * A fault for each page costs more than what is then written to it: for the
 * list of a hundred thousand tensors they are 3,000, and half of the time to
 * open it. Of huge pages, where the kernel has some to give, it takes six.
 *
 * It is mapped here and not taken from the heap: that may have such blocks of
 * its own, which would keep the advice when they are given back, and whatever
 * the program puts there later would take 2 MiB for each page that it touches.
 */
#include "lib/file/large.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/checked.h"

static size_t rounded_up(size_t size)
{
	return (size + LARGE_LEAST - 1) & ~(LARGE_LEAST - 1);
}

void *large_alloc(size_t size)
{
	size_t all, rounded, before;
	char *at;

	if (!size || size > PTRDIFF_MAX - 2 * LARGE_LEAST)
		return NULL;
	rounded = rounded_up(size);
	all = rounded + LARGE_LEAST;
	at = mmap(NULL, all, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	/* From a huge page's border to another. */
	before = -(uintptr_t)at % LARGE_LEAST;
	if (before)
		munmap(at, before);
	munmap(at + before + rounded, LARGE_LEAST - before);
	/* A wish: small pages do as well. */
	madvise(at + before, rounded, MADV_HUGEPAGE);
	return at + before;
}

void large_free(void *at, size_t size)
{
	if (at)
		munmap(at, rounded_up(size));
}
