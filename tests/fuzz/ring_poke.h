/* SPDX-License-Identifier: MIT */
/* What one who takes part in a channel may write into its memory. */
#pragma once

#include "shm/channel.h"
#include "tests/fuzz/input.h"

/* Where: the last two can also be reached by the first. */
enum ring_part {
	PART_ANY,    /* 4 bytes: an offset in all that is mapped */
	PART_HEAD,   /* of the ring, 1 byte: which word */
	PART_MEMBER, /* 1 byte: which, and which word of it */
	PART_SLOT,   /* the same */
	PART_ENTRY,  /* 2 bytes: from tail on */
	PART_HELD,   /* 1 byte */
	PART_RECORD, /* 2 bytes: which, and which word of it */
	RING_PARTS
};

/* 8 bytes more, over what is there: true unless the input has ended. What says
 * where things are was attached before anybody poked; size is of what is mapped
 * from the channel's beginning on. */
bool ring_poke(const struct channel_map *map, const struct ring *ring,
	uint64_t size, enum ring_part part, struct input *in);
