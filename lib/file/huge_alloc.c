/* SPDX-License-Identifier: MIT */
/*
 * A page fault costs more than writing the page: the list of a hundred thousand
 * tensors takes 3,000 faults, which are half of the time to open it. With huge
 * pages, where the kernel has some, it takes six.
 *
 * The memory is mapped here and not taken from the heap: the heap may have such
 * blocks of its own, which would keep the advice after they are freed, and
 * whatever the program puts there later would take 2 MiB for each page that it
 * touches.
 */
#include "lib/file/huge_alloc.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/checked.h"

static size_t rounded_up(size_t size)
{
	return (size + HUGE_LEAST - 1) & ~(HUGE_LEAST - 1);
}

void *huge_alloc(size_t size)
{
	size_t all, rounded, before;
	char *at;

	if (!size || size > PTRDIFF_MAX - 2 * HUGE_LEAST)
		return NULL;
	rounded = rounded_up(size);
	all = rounded + HUGE_LEAST;
	at = mmap(NULL, all, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	/* From one huge page's border to another. */
	before = -(uintptr_t)at % HUGE_LEAST;
	if (before)
		munmap(at, before);
	munmap(at + before + rounded, HUGE_LEAST - before);
	/* A hint: small pages work too. */
	madvise(at + before, rounded, MADV_HUGEPAGE);
	return at + before;
}

void huge_free(void *at, size_t size)
{
	if (at)
		munmap(at, rounded_up(size));
}
