/* SPDX-License-Identifier: MIT */
/* Allocates all memory of a segment before the segment is announced. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Until every page of the memfd, which is mapped writable at addr, is there, by
 * a few threads. Nothing has been written to it, nor is it sealed. From then on
 * a fault finds its page, and clears it unless it was cleared here.
 * It stops where the headroom ends, or the room on that node, if it is one. Size
 * and addr are multiples of SEGMENT_UNIT. 0, or a positive errno: ENOSPC, ENOMEM.
 */
enum {
	POPULATE_RESERVED = 1, /* of huge pages, which are ours already */
	POPULATE_FAULTED = 2,  /* every page is in this process's tables at the
				* end, so that it can be looked for */
	POPULATE_HUGE = 4,     /* in huge pages where they are to be had soon,
				* also if the kernel has to be asked for each */
};
int populate(int fd, void *addr, uint64_t size, unsigned flags, int node);

/* The same in huge pages that the kernel is asked for, up to the first 32 MiB that
 * take late_ns, and then in others; for tests. */
int populate_huge(int fd, void *addr, uint64_t size, uint64_t late_ns);

/* The same for pages of 4 KiB; may_allocate chooses the way, for tests. */
int populate_by(
	int fd, void *addr, uint64_t size, bool may_allocate, bool faulted);
