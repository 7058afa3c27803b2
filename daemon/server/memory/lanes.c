/* SPDX-License-Identifier: MIT */
/*
 * The lanes of a pool (messages.h): an allocator for each, so that best fit
 * never leads to another node, and the choice of one for a client's request.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/nodes.h"
#include "daemon/server/server.h"

/* ---- the allocators ---------------------------------------------------- */

struct alloc *lane_alloc(const struct pool *pool, uint32_t lane)
{
	int node = node_of_lane(lane);

	return node < 0 ? pool->alloc : pool->on_node[node % NODES_MAX];
}

static uint32_t lane_at(const struct pool *pool, uint64_t offset)
{
	return pool->lane_size ? (uint32_t)(offset / pool->lane_size) : 0;
}

struct alloc *lane_alloc_at(const struct pool *pool, uint64_t offset)
{
	return lane_alloc(pool, lane_at(pool, offset));
}

int lane_add(struct pool *pool, uint64_t offset, uint64_t size)
{
	int node = node_of_lane(lane_at(pool, offset)), r = 0;
	struct alloc **alloc;

	if (node >= (int)NODES_MAX)
		return tarn_fail(EPROTO, "there is no lane of node %d", node);
	alloc = node < 0 ? &pool->alloc : &pool->on_node[node];
	pool->n_on_node = MAX(pool->n_on_node, (uint32_t)(node + 1));
	if (!*alloc)
		r = alloc_new(alloc);
	return r < 0 ? r : alloc_add(*alloc, offset, size);
}

bool lane_take(
	struct pool *pool, uint32_t lane, uint64_t size, uint64_t *ret_offset)
{
	struct alloc *alloc = lane_alloc(pool, lane);

	return alloc && alloc_take(alloc, size, ret_offset) == 0;
}

bool lane_take_any(struct pool *pool, uint64_t size, uint64_t *ret_offset)
{
	for (uint32_t lane = 0; lane <= NODES_MAX; lane++)
		if (lane_take(pool, lane, size, ret_offset))
			return true;
	return false;
}

uint64_t lane_largest(const struct pool *pool, uint32_t lane)
{
	const struct alloc *alloc = lane_alloc(pool, lane);

	return alloc ? alloc_largest(alloc) : 0;
}

uint64_t lane_tail(const struct pool *pool, uint32_t lane)
{
	const struct alloc *alloc = lane_alloc(pool, lane);

	return alloc ? alloc_tail(alloc) : 0;
}

uint64_t lane_total(const struct pool *pool, uint32_t lane)
{
	const struct alloc *alloc = lane_alloc(pool, lane);

	return alloc ? alloc_total(alloc) : 0;
}

/* Each turn of the loop asks for sums. */
static uint64_t sum(
	const struct pool *pool, uint64_t (*of)(const struct alloc *alloc))
{
	uint64_t n = of(pool->alloc);

	for (uint32_t node = 0; node < pool->n_on_node; node++)
		if (pool->on_node[node])
			n += of(pool->on_node[node]);
	return n;
}

uint64_t lanes_total(const struct pool *pool)
{
	return sum(pool, alloc_total);
}

uint64_t lanes_used(const struct pool *pool)
{
	return sum(pool, alloc_used);
}

void lanes_free(struct pool *pool)
{
	pool->alloc = alloc_free(pool->alloc);
	for (uint32_t node = 0; node < NODES_MAX; node++)
		pool->on_node[node] = alloc_free(pool->on_node[node]);
}

/* ---- choosing ---------------------------------------------------------- */

bool lane_fits(const struct pool *pool, uint32_t flags, uint64_t offset)
{
	return !(flags & PLACE_TOLD) || !pool->lane_size ||
	       node_of_lane(lane_at(pool, offset)) == place_wished(flags);
}

/* A lane of a node that has memory; the keeper knows what it has of it. */
static int choose(const struct domain *domain, int node, bool strict,
	struct memory_wait *ret)
{
	const struct server_start *start = &domain->server->start;
	char text[256];

	if (node < 0 || node >= (int)NODES_MAX ||
		!(start->nodes.memory & 1ull << node))
		return tarn_fail(ENODEV,
			"node %d has no memory; nodes with memory: %s", node,
			nodes_text(start->nodes.memory, text));
	/* One node alone has all there is. */
	ret->lane = domain->pool.lane_size ? lane_of_node(node) : 0;
	ret->strict = strict;
	if (!ret->lane && strict &&
		start->nodes.memory & (start->nodes.memory - 1))
		return tarn_fail(ENOTSUP,
			"memory cannot be placed on node %d: the kernel "
			"forbids the daemon mbind or move_pages, as in a "
			"container without CAP_SYS_NICE, or the daemon goes on "
			"for one that could not; start it again, or use node = "
			"auto",
			node);
	return 0;
}

static int choose_near(const struct domain *domain, int node, bool strict,
	struct memory_wait *ret)
{
	const struct nodes *nodes = &domain->server->start.nodes;

	/* Wherever it is wanted, lane 0 is what there is. */
	if (!domain->pool.lane_size && !strict)
		return 0;
	/* A client that names no node is of an older version: the server is
	 * likely to have been woken near it. */
	return choose(domain,
		nodes_nearest(
			nodes, node < 0 ? node_here() : node, nodes->memory),
		strict, ret);
}

int lane_choose(
	const struct domain *domain, uint32_t flags, struct memory_wait *ret)
{
	struct placement placement = domain->spec.placement;
	int node = place_wished(flags);
	bool told = flags & PLACE_TOLD;
	int r = 0;

	/* It may have been moved since. */
	if (ret->chosen)
		return 0;
	ret->lane = 0;
	ret->strict = false;
	if (told && placement.policy == PLACE_INTERLEAVE)
		return tarn_fail(EINVAL,
			"memory of node %d is wanted, and the pool is spread "
			"over all nodes (node = interleave in tarnd.conf)",
			node);
	if (told && placement.policy == PLACE_ON_NODE && node != placement.node)
		return tarn_fail(EINVAL,
			"memory of node %d is wanted, and the pool has its "
			"memory on node %u (node = %u in tarnd.conf)",
			node, placement.node, placement.node);
	if (placement.policy == PLACE_ON_NODE)
		r = choose(domain, placement.node, true, ret);
	else if (told)
		r = choose(domain, node, true, ret);
	else if (placement.policy != PLACE_INTERLEAVE)
		r = choose_near(
			domain, node, placement.policy == PLACE_LOCAL, ret);
	ret->chosen = r == 0;
	return r;
}
