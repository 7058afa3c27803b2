/* SPDX-License-Identifier: MIT */
/* On which NUMA node a segment lies: chosen, bound, and looked at. */
#pragma once

#include <stdint.h>

#include "base/nodes.h"

struct keeper;
struct keeper_grow;
struct keeper_segment;

/*
 * What the populator has found, in a page that it shares with the keeper, which
 * reads it when the populator has ended: the wait for its end orders both. All
 * children inherit the page. What one of them might put there is a figure in a
 * report, read once and of at most the segment's size; or it gives a segment
 * back, or has it told of a node where it does not lie.
 */
struct populated {
	_Atomic uint64_t huge; /* bytes in huge pages */
	int32_t error;         /* of counting, negative; 0 */
	uint64_t pages[NODES_MAX];
	uint64_t elsewhere;
};

/* Looks at the machine; reach and lanes of the pools are set by that, unless a
 * keeper before this one has set them. */
void placement_begin(struct keeper *keeper, bool adopts);

/* Sets grow->lane: the one that is wanted, or, unless that is strict, another
 * one with room. -ENOSPC, -ENODEV, -EPERM with a sentence. */
int placement_choose(struct keeper *keeper, struct keeper_grow *grow);
/* Whole units that the node of a growth's lane has room for. */
uint64_t placement_room(
	const struct keeper *keeper, const struct keeper_grow *grow);
/* Before any page of the segment is there. */
int placement_bind(struct keeper *keeper, struct keeper_segment *segment);
/* In the populator. The node on whose CPUs it works, and whose memory it
 * takes; -1: any. */
int placement_node(
	const struct keeper *keeper, const struct keeper_segment *segment);
void placement_count(
	struct keeper *keeper, const struct keeper_segment *segment);
/* In the keeper, of a populated segment: sets its place, or, where a page lies
 * elsewhere than it should, -ENOSPC with a sentence. */
int placement_judge(struct keeper *keeper, struct keeper_segment *segment);
