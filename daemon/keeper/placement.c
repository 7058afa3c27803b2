/* SPDX-License-Identifier: MIT */
/*
 * NUMA placement of segments.
 *
 * The order counts: a mapping is bound before any page of it is there, its
 * populator is a fork of that mapping (hugetlb memory has no policy but a
 * mapping's), and every page is then asked for its node, since what is pinned
 * later by a registration cannot be moved any more. A segment with a page on
 * another node than its lane's is given back: no client ever sees memory that
 * lies elsewhere than the table says.
 *
 * A node is looked at before it is bound to: where memory that may come from
 * one node alone is short, the kernel does not say so, it kills.
 */
#include "daemon/keeper/placement.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory_policy.h"
#include "daemon/keeper/keeper.h"
#include "daemon/loop/log.h"

/* Half of a 47-bit address space, which is what clients take. */
#define REACH_MAX (1ull << 46)

static bool is_placed(const struct keeper *keeper)
{
	return keeper->memory.lanes > 1;
}

/* ---- the machine ------------------------------------------------------- */

static uint32_t lanes_for(const struct nodes *nodes)
{
	uint32_t n = 1;

	if (!(nodes->memory & (nodes->memory - 1)))
		return 1; /* one node */
	while (n < LANES_MAX && nodes->memory >> (n - 1))
		n *= 2;
	return n;
}

void placement_begin(struct keeper *keeper, bool adopts)
{
	struct keeper_memory *memory = &keeper->memory;

	nodes_read("", &memory->nodes);
	if (!adopts) {
		memory->lanes =
			memory_policy_works() ? lanes_for(&memory->nodes) : 1;
		/* A lane has as many addresses as a pool has elsewhere. */
		for (uint32_t n = memory->lanes;
			n > 1 && memory->reach < REACH_MAX; n /= 2)
			memory->reach *= 2;
	}
	keeper_pages_prepare(keeper);
	/* Nothing can be placed without it. */
	if (!memory->populated && !adopts)
		memory->lanes = 1;
	if (memory->nodes.memory & (memory->nodes.memory - 1) &&
		!is_placed(keeper))
		log_warning("unplaced",
			log_text("reason",
				"the kernel forbids mbind or move_pages here "
				"(seccomp), or an older daemon began"));
}

/* ---- choosing ---------------------------------------------------------- */

static uint64_t allowed(const struct keeper *keeper)
{
	return nodes_allowed("", &keeper->memory.nodes);
}

/* Of a node, beside what other growths are to take there; UINT64_MAX: not
 * known. */
static uint64_t room_on(
	const struct keeper *keeper, const struct keeper_grow *grow, int node)
{
	const struct pool_spec *spec = &keeper->domains[grow->want.domain].spec;
	uint64_t room = node_room("", node, 1ull << pool_page_shift(spec));

	if (room == UINT64_MAX)
		return room;
	return room - MIN(room, keeper_held_on(keeper, grow, node));
}

uint64_t placement_room(
	const struct keeper *keeper, const struct keeper_grow *grow)
{
	int node = node_of_lane(grow->lane);

	return node < 0 ? UINT64_MAX
			: round_down_u64(room_on(keeper, grow, node),
				  keeper_grow_unit(
					  &keeper->domains[grow->want.domain]));
}

/* Why the node cannot be had, or 0. */
static int check_node(
	const struct keeper *keeper, const struct keeper_grow *grow, int node)
{
	const struct keeper_domain *domain =
		&keeper->domains[grow->want.domain];
	uint64_t need = grow->want.bytes, left = room_on(keeper, grow, node);
	uint64_t may = allowed(keeper), bit = 1ull << node;
	const char *pool = *domain->spec.name ? domain->spec.name : "of a user";
	char text[256];

	if (!(keeper->memory.nodes.memory & bit))
		return tarn_fail(ENODEV,
			"the pool %s wants memory of node %d, which has none; "
			"nodes with memory: %s; use one of them, or node = "
			"auto",
			pool, node,
			nodes_text(keeper->memory.nodes.memory, text));
	if (!(may & bit))
		return tarn_fail(EPERM,
			"the pool %s wants memory of node %d, which the "
			"daemon's cpuset forbids; it may use: %s; set "
			"cpuset.mems, or node = auto",
			pool, node, nodes_text(may, text));
	if (left < need)
		return tarn_fail(ENOSPC,
			"%.1f MiB are wanted on node %d for the pool %s, and "
			"%.1f MiB can be had there; remove tensors on it (tarn "
			"rm), or use node = auto or another node",
			(double)need / 1048576, node, pool,
			(double)left / 1048576);
	return 0;
}

/* The nearest to the one that is wanted, with room for all; lane 0: none. */
static uint32_t another(
	const struct keeper *keeper, const struct keeper_grow *grow, int wanted)
{
	uint64_t among = allowed(keeper) & keeper->memory.nodes.memory;
	uint64_t need = MAX(grow->want.whole, grow->want.bytes);
	int node;

	among &= ~(1ull << wanted);
	while ((node = nodes_nearest(&keeper->memory.nodes, wanted, among)) >=
		0) {
		if (room_on(keeper, grow, node) >= need)
			return lane_of_node(node);
		among &= ~(1ull << node);
	}
	return 0;
}

int placement_choose(struct keeper *keeper, struct keeper_grow *grow)
{
	int node = node_of_lane(grow->want.lane), r;

	grow->lane = grow->want.lane;
	if (grow->lane >= keeper->memory.lanes)
		return tarn_fail(EPROTO, "there is no lane %u", grow->lane);
	if (node < 0)
		return 0;
	r = check_node(keeper, grow, node);
	if (r == 0 || grow->want.strict)
		return r;
	grow->lane = another(keeper, grow, node);
	/* Addresses that are free at the wanted lane's end are of no use. */
	grow->want.bytes = MAX(grow->want.bytes, grow->want.whole);
	return 0;
}

/* ---- binding and counting ---------------------------------------------- */

static uint32_t lane_of(
	const struct keeper *keeper, const struct keeper_segment *segment)
{
	return (uint32_t)(segment->mapped.offset / keeper_lane_size(keeper));
}

int placement_node(
	const struct keeper *keeper, const struct keeper_segment *segment)
{
	return is_placed(keeper) ? node_of_lane(lane_of(keeper, segment)) : -1;
}

int placement_bind(struct keeper *keeper, struct keeper_segment *segment)
{
	const struct mapped_segment *s = &segment->mapped;
	int node = placement_node(keeper, segment), r;

	if (!is_placed(keeper))
		return 0;
	if (node < 0) {
		/* It is found where it lies, and no promise is made. */
		(void)memory_interleave(s->addr, s->size, allowed(keeper));
		return 0;
	}
	r = memory_bind(s->addr, s->size, 1ull << node);
	return r < 0 ? tarn_fail(-r, "memory cannot be bound to node %d: %s",
			       node, tarn_errno_text(-r))
		     : 0;
}

void placement_count(
	struct keeper *keeper, const struct keeper_segment *segment)
{
	const struct keeper_domain *domain =
		&keeper->domains[segment->mapped.domain];
	struct populated *placed = keeper->memory.populated;
	uint64_t page = 1ull << pool_page_shift(&domain->spec);

	if (is_placed(keeper))
		placed->error =
			memory_count(segment->mapped.addr, segment->mapped.size,
				MAX(page, (uint64_t)sysconf(_SC_PAGESIZE)),
				placed->pages, &placed->elsewhere);
}

/* How many lie on another node, and the one with most of these. */
static uint64_t misplaced(
	const struct populated *placed, int node, int *ret_most)
{
	uint64_t sum = placed->elsewhere;

	*ret_most = -1;
	for (int n = 0; n < (int)NODES_MAX; n++) {
		if (n == node || !placed->pages[n])
			continue;
		sum += placed->pages[n];
		if (*ret_most < 0 ||
			placed->pages[n] > placed->pages[*ret_most])
			*ret_most = n;
	}
	return sum;
}

int placement_judge(struct keeper *keeper, struct keeper_segment *segment)
{
	const struct populated *placed = keeper->memory.populated;
	int node = placement_node(keeper, segment), most;
	uint64_t n;

	segment->mapped.place = PLACE_UNKNOWN;
	if (!is_placed(keeper)) {
		uint64_t all = keeper->memory.nodes.memory;

		if (!(all & (all - 1)))
			segment->mapped.place =
				PLACE_NODES + (uint32_t)__builtin_ctzll(all);
		return 0;
	}
	if (node < 0) {
		if (placed && !placed->error && !placed->elsewhere)
			segment->mapped.place = PLACE_SPREAD;
		return 0;
	}
	n = placed && !placed->error ? misplaced(placed, node, &most)
				     : UINT64_MAX;
	if (n == UINT64_MAX)
		return tarn_fail(EPERM,
			"where the memory of a segment lies cannot be found "
			"out: move_pages: %s",
			tarn_errno_text(placed ? -placed->error : ENOMEM));
	if (n)
		return tarn_fail(ENOSPC,
			"%llu pages of a segment of %.1f MiB were wanted on "
			"node %d and lie elsewhere (node %d); free memory on "
			"node %d, or use node = auto",
			(unsigned long long)n,
			(double)segment->mapped.size / 1048576, node, most,
			node);
	segment->mapped.place = PLACE_NODES + (uint32_t)node;
	return 0;
}
