/* SPDX-License-Identifier: MIT */
/*
 * A fault for each page costs more than what is then written to it: for the
 * list of a hundred thousand tensors they are 3,000, and half of the time to
 * open it. Of huge pages, where the kernel has some to give, it takes six.
 */
#include "lib/file/large.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"

void *large_alloc(size_t size)
{
	uint64_t rounded;
	void *at;

	if (round_up_u64(size, LARGE_LEAST, &rounded))
		return NULL;
	at = aligned_alloc(LARGE_LEAST, rounded);
	/* A wish: small pages do as well. */
	if (at)
		madvise(at, rounded, MADV_HUGEPAGE);
	return at;
}
