/* SPDX-License-Identifier: MIT */
/*
 * The kernel takes memory on the node of the CPU that touches it first, which
 * is what PLACE_AUTO means. Only what is told otherwise is bound.
 */
#include "lib/store/own_place.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include <tarn/node.h>

#include "base/fail.h"
#include "base/memory_policy.h"
#include "lib/store/store.h"

uint32_t own_place_wish(const struct tarn_store *store)
{
	int node = tarn_store_node(store);

	return node < 0 ? place_wish(node_here(), 0) : place_wish(node, 1);
}

/* That of a client's only pool; written once, before the pool is counted in. */
static struct placement policy_of(const struct tarn_store *store)
{
	/* Pairs with the release store of n_pools in table_add_pool. */
	if (!atomic_load_explicit(
		    &store->table.header->n_pools, memory_order_acquire))
		return (struct placement) {0};
	return store->table.pools[0].placement;
}

struct own_place own_place_of(const struct tarn_store *store)
{
	struct placement policy = policy_of(store);
	struct own_place place = {.node = tarn_store_node(store)};
	struct nodes nodes;

	if (place.node < 0 && policy.policy == PLACE_AUTO)
		return place;
	nodes_read("", &nodes);
	/* One node has it all; one that is told is checked all the same. */
	if (place.node < 0 && !(nodes.memory & (nodes.memory - 1)) &&
		policy.policy != PLACE_ON_NODE)
		return (struct own_place) {.policy = PLACE_AUTO};
	if (place.node < 0 && policy.policy == PLACE_INTERLEAVE)
		return (struct own_place) {.policy = PLACE_INTERLEAVE};
	place.policy = PLACE_ON_NODE;
	if (place.node < 0 && policy.policy == PLACE_ON_NODE)
		place.node = policy.node;
	if (place.node < 0)
		place.node = nodes_nearest(&nodes, node_here(), nodes.memory);
	return place;
}

static int bind(const struct nodes *nodes, int node, void *addr, uint64_t size)
{
	uint64_t left;
	char text[256];
	int r;

	if (node < 0 || node >= (int)NODES_MAX ||
		!(nodes->memory & 1ull << node))
		return tarn_fail(ENODEV,
			"node %d has no memory; nodes with memory: %s", node,
			nodes_text(nodes->memory, text));
	if (!(nodes->memory & (nodes->memory - 1)))
		return 0;
	/* Where one node alone may give it, the kernel kills for it. */
	left = node_room("", node, (uint64_t)sysconf(_SC_PAGESIZE));
	if (left < size)
		return tarn_fail(ENOSPC,
			"%llu bytes are wanted on node %d, and %llu can be had "
			"there",
			(unsigned long long)size, node,
			(unsigned long long)left);
	r = memory_bind(addr, size, 1ull << node);
	return r < 0 ? tarn_fail(-r,
			       "memory cannot be bound to node %d: %s; do a "
			       "cpuset or a container forbid it?",
			       node, tarn_errno_text(-r))
		     : 0;
}

int own_place_bind(const struct own_place *place, void *addr, uint64_t size)
{
	struct nodes nodes;

	if (place->policy == PLACE_AUTO)
		return 0;
	nodes_read("", &nodes);
	if (place->policy == PLACE_ON_NODE)
		return bind(&nodes, place->node, addr, size);
	/* A promise of no node: it does without where it is forbidden. */
	(void)memory_interleave(addr, size, nodes_allowed("", &nodes));
	return 0;
}

int own_place_check(const struct own_place *place, void *addr, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), elsewhere;
	uint64_t counts[NODES_MAX], pages = (size + page - 1) / page;
	struct nodes nodes;
	int r;

	if (place->policy != PLACE_ON_NODE)
		return 0;
	nodes_read("", &nodes);
	if (!(nodes.memory & (nodes.memory - 1)))
		return 0;
	r = memory_count(addr, size, page, counts, &elsewhere);
	if (r < 0)
		return tarn_fail(-r,
			"the node of a page cannot be looked up: %s",
			tarn_errno_text(-r));
	if (counts[place->node] < pages)
		return tarn_fail(ENOSPC,
			"%llu of %llu pages that were wanted on node %d lie "
			"elsewhere",
			(unsigned long long)(pages - counts[place->node]),
			(unsigned long long)pages, place->node);
	return 0;
}
