/* SPDX-License-Identifier: MIT */
#include "base/policy_calls.h"

#include <numaif.h>
#include <stddef.h>

#include "base/nodes.h"

long policy_set(void *addr, uint64_t size, int mode, uint64_t nodes)
{
	unsigned long mask = nodes;

	/* The kernel reads one bit fewer than it is told. */
	return mbind(addr, size, mode, &mask, NODES_MAX + 1ul, 0);
}

long policy_find(uint64_t n, void **pages, int *ret_nodes)
{
	/* Without nodes to move to. */
	return move_pages(0, n, pages, NULL, ret_nodes, 0);
}

long policy_find_one(const void *addr, int *ret_node)
{
	return get_mempolicy(
		ret_node, NULL, 0, (void *)addr, MPOL_F_NODE | MPOL_F_ADDR);
}

long policy_own(int *ret_mode)
{
	return get_mempolicy(ret_mode, NULL, 0, NULL, 0);
}

long policy_own_default(void)
{
	return set_mempolicy(MPOL_DEFAULT, NULL, 0);
}
