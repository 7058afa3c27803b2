/* SPDX-License-Identifier: MIT */
/* Where a segment's pages go on a machine with several NUMA nodes. */
#pragma once

#include <stdint.h>

/* Spreads the pages of a mapping that no process has touched yet over all nodes
 * that may be used, so that no node is far from all of them. Does nothing on a
 * machine of one node. */
void numa_place(void *addr, uint64_t size);
