/* SPDX-License-Identifier: MIT */
/* Where the kernel puts the pages of a mapping, and where it has put them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/nodes.h"

/*
 * The policy of a mapping none of whose pages is there yet. Shared memory keeps
 * it with the file, so it holds for every process that touches a page first;
 * hugetlb memory does not: there it holds for this mapping, and for those that
 * a fork copies from it. 0, or -errno without a sentence: -EINVAL, the cpusets
 * forbid all of these nodes; -EPERM, -ENOSYS, the call itself is forbidden, as
 * in containers without CAP_SYS_NICE.
 */
int memory_bind(void *addr, uint64_t size, uint64_t nodes);
int memory_interleave(void *addr, uint64_t size, uint64_t nodes);
int memory_prefer(void *addr, uint64_t size, int node);

/* Counts the pages of [addr, addr + size), page bytes each, on each node; those
 * that this process has not mapped, or on a node from NODES_MAX on, are counted
 * in *ret_elsewhere. 0, or -errno without a sentence. */
int memory_count(void *addr, uint64_t size, uint64_t page,
	uint64_t counts[static NODES_MAX], uint64_t *ret_elsewhere);

/* Are the calls for all that allowed here? Tried with a page of memory. */
bool memory_policy_works(void);

/* The node that a page is on, which is touched for that; -errno without a
 * sentence. */
int memory_node(const void *addr);
