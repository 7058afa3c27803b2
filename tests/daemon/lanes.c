/* SPDX-License-Identifier: MIT */
/*
 * The lanes of a pool, on a machine that is made up: nodes 0, 1 and 3 have
 * memory, and node 2 has CPUs alone, nearest to node 1. No allocation leaves
 * its lane, however much another has, and each policy leads a request to the
 * lane that tarn-numa(7) promises, or to a sentence.
 */
#include <errno.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/server/server.h"
#include "tests/kit/tap.h"

#define LANE (1ull << 30)
#define MIB (1ull << 20)

static struct server server;
static struct domain domain = {.server = &server};

static void make(void)
{
	static const uint8_t far[4][4] = {{10, 20, 40, 40}, {20, 10, 20, 20},
		{40, 20, 10, 40}, {40, 20, 40, 10}};
	struct nodes *nodes = &server.start.nodes;

	*nodes = (struct nodes) {.online = 0xf, .memory = 0xb, .cpus = 0x7};
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++)
			nodes->distance[i][j] = far[i][j];
	domain.pool.lane_size = LANE;
	if (alloc_new(&domain.pool.alloc) < 0)
		bail("%s", tarn_fail_message());
}

static uint64_t lane_start(int node)
{
	return lane_of_node(node) * LANE;
}

static void allocations(void)
{
	struct pool *pool = &domain.pool;
	uint64_t at = 0;

	ok(lane_add(pool, 0, MIB) == 0 &&
			lane_add(pool, lane_start(1), 2 * MIB) == 0 &&
			lane_add(pool, lane_start(3), 8 * MIB) == 0,
		"memory is added to three lanes");
	is_int(11 * MIB, (int64_t)lanes_total(pool), "all of it counts");
	ok(lane_take(pool, lane_of_node(1), MIB, &at) && at == lane_start(1),
		"bytes of node 1 are taken in its lane");
	ok(!lane_take(pool, lane_of_node(1), 2 * MIB, &at),
		"more than node 1 has left is not taken of node 3");
	ok(!lane_take(pool, lane_of_node(0), 4096, &at),
		"nothing is taken of a lane without memory");
	ok(lane_take_any(pool, 4 * MIB, &at) && at == lane_start(3),
		"bytes of any node are taken where they fit");
	is_int(5 * MIB, (int64_t)lanes_used(pool), "what is taken counts");
	alloc_give(lane_alloc_at(pool, at), at, 4 * MIB);
	is_int(MIB, (int64_t)lanes_used(pool), "it goes back to its lane");
	is_int(8 * MIB, (int64_t)lane_largest(pool, lane_of_node(3)),
		"it joins what was free there");
	is_int(MIB, (int64_t)lane_tail(pool, lane_of_node(1)),
		"the end of a lane is that lane's");
	ok(!lane_alloc_at(pool, lane_start(2)),
		"there is no memory where none was added");
	is_int(-EPROTO, lane_add(pool, lane_start(NODES_MAX), MIB),
		"there is no lane behind the last");
}

/* Two lanes that are full and side by side are not one free range. */
static void borders(void)
{
	struct pool *pool = &domain.pool;
	uint64_t at;

	ok(lane_add(pool, lane_start(5), LANE) == 0 &&
			lane_add(pool, lane_start(6), LANE) == 0 &&
			!lane_take_any(pool, LANE + MIB, &at),
		"no range leads from one node to the next");
}

struct chosen {
	int r;
	uint32_t lane;
	bool strict;
};

static struct chosen choose(enum place_policy policy, int node, uint32_t flags)
{
	struct memory_wait wait = {.domain = &domain};
	int r;

	domain.spec.placement =
		(struct placement) {(uint8_t)policy, (uint8_t)node};
	r = lane_choose(&domain, flags, &wait);
	return (struct chosen) {r, wait.lane, wait.strict};
}

static void leads(struct chosen c, int node, bool strict, const char *what)
{
	ok(c.r == 0 && c.lane == (node < 0 ? 0 : lane_of_node(node)) &&
			c.strict == strict,
		"%s (%d, lane %u, strict %d)", what, c.r, c.lane, c.strict);
}

static void is_refused(struct chosen c, int error, const char *words)
{
	is_int(error, c.r, "refused: %s", words);
	has_str(words, tarn_fail_message(), "the sentence: %s", words);
}

static void policies(void)
{
	leads(choose(PLACE_AUTO, 0, place_wish(3, 0)), 3, false,
		"auto prefers the client's node");
	leads(choose(PLACE_AUTO, 0, place_wish(2, 0)), 1, false,
		"a client beside no memory gets the nearest");
	leads(choose(PLACE_LOCAL, 0, place_wish(0, 0)), 0, true,
		"local insists on the client's node");
	leads(choose(PLACE_LOCAL, 0, place_wish(2, 0)), 1, true,
		"local beside no memory insists on the nearest");
	leads(choose(PLACE_INTERLEAVE, 0, place_wish(3, 0)), -1, false,
		"interleave prefers no node");
	leads(choose(PLACE_ON_NODE, 3, place_wish(0, 0)), 3, true,
		"a pool of one node insists on it");
	leads(choose(PLACE_AUTO, 0, place_wish(1, 1)), 1, true,
		"a client that insists is obeyed");
	leads(choose(PLACE_ON_NODE, 3, place_wish(3, 1)), 3, true,
		"it may insist on what it would get");
	is_refused(choose(PLACE_ON_NODE, 3, place_wish(1, 1)), -EINVAL,
		"the pool has its memory on node 3");
	is_refused(choose(PLACE_INTERLEAVE, 0, place_wish(1, 1)), -EINVAL,
		"the pool is spread over all nodes");
	is_refused(choose(PLACE_AUTO, 0, place_wish(2, 1)), -ENODEV,
		"node 2 has no memory; nodes with memory: 0, 1 and 3");
	is_refused(choose(PLACE_AUTO, 0, PLACE_MASK), -ENODEV,
		"nodes with memory");
	is_refused(
		choose(PLACE_ON_NODE, 9, 0), -ENODEV, "node 9 has no memory");
}

static void details(void)
{
	struct memory_wait wait = {
		.domain = &domain, .lane = 7, .chosen = true};
	uint64_t at = lane_start(1);

	is_int(0, lane_choose(&domain, place_wish(0, 0), &wait),
		"a request chooses once");
	is_int(7, wait.lane, "one that was moved stays where it is");
	ok(lane_fits(&domain.pool, place_wish(3, 0), at),
		"what lies elsewhere does for a client that does not insist");
	ok(!lane_fits(&domain.pool, place_wish(3, 1), at) &&
			lane_fits(&domain.pool, place_wish(1, 1), at),
		"one that insists gets what lies there alone");
}

/* Of a container, or after an upgrade: nothing can be placed. */
static void unplaced(void)
{
	domain.pool.lane_size = 0;
	leads(choose(PLACE_AUTO, 0, place_wish(3, 0)), -1, false,
		"auto does without");
	is_refused(choose(PLACE_ON_NODE, 3, 0), -ENOTSUP,
		"memory cannot be placed on node 3");
	is_refused(choose(PLACE_LOCAL, 0, place_wish(0, 0)), -ENOTSUP,
		"CAP_SYS_NICE");
	server.start.nodes.memory = 1;
	leads(choose(PLACE_ON_NODE, 0, 0), -1, true,
		"on a machine with one node all is there");
}

int main(void)
{
	make();
	allocations();
	borders();
	policies();
	details();
	unplaced();
	lanes_free(&domain.pool);
	return done(41);
}
