/* SPDX-License-Identifier: MIT */
/*
 * Placement by libnuma. The policy of a shared mapping belongs to the memory
 * (shmem keeps it), so it holds no matter which process touches a page first.
 */
#include "daemon/keeper/numa.h"

#include <numa.h>

void numa_place(void *addr, uint64_t size)
{
	if (numa_available() < 0 || numa_num_task_nodes() < 2)
		return;
	numa_interleave_memory(addr, size, numa_get_mems_allowed());
}
