/* SPDX-License-Identifier: MIT */
/*
 * Where memory is to lie, and where it lies, on a machine with several NUMA
 * nodes. tarn-numa(7) has it for users.
 */
#pragma once

#include <stdint.h>

/* What a pool does with the memory that a client needs. */
enum place_policy {
	PLACE_AUTO = 0,  /* on the node of the client's CPU, else elsewhere */
	PLACE_LOCAL = 1, /* there, or nowhere */
	PLACE_INTERLEAVE = 2, /* page by page over all nodes */
	PLACE_ON_NODE = 3,    /* on one node, for all clients */
};

struct placement {
	uint8_t policy; /* enum place_policy */
	uint8_t node;   /* of PLACE_ON_NODE */
};

/* The place of memory that is there: not known, on several nodes, or, from
 * PLACE_NODES on, on that node, and no page of it elsewhere. */
#define PLACE_UNKNOWN 0u
#define PLACE_SPREAD 1u
#define PLACE_NODES 2u

/*
 * The node that a request names, in the upper half of its flags: the node of
 * its client's CPU, or, with PLACE_TOLD, one that the client insists on. 0:
 * none is named.
 */
#define PLACE_SHIFT 16
#define PLACE_TOLD 0x80000000u
#define PLACE_MASK 0xffff0000u

static inline uint32_t place_wish(int node, int told)
{
	return node < 0 ? 0
			: ((uint32_t)node + 1) << PLACE_SHIFT |
				  (told ? PLACE_TOLD : 0);
}

/* -1: none. */
static inline int place_wished(uint32_t flags)
{
	return (int)((flags & PLACE_MASK & ~PLACE_TOLD) >> PLACE_SHIFT) - 1;
}
