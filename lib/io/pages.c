/* SPDX-License-Identifier: MIT */
/*
 * Separate pages, not the heap's: aligned for direct I/O, returned to the
 * system at once, and not inherited by children, which have no use for them.
 * Until Linux 6.5 a direct read did not pin its pages in a way that fork would
 * see.
 */
#include "lib/io/pages.h"

#include <sys/mman.h>

void *io_pages_map(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	madvise(pages, size, MADV_DONTFORK);
	return pages;
}

void io_pages_unmap(void *pages, size_t size)
{
	if (pages)
		munmap(pages, size);
}
