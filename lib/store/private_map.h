/* SPDX-License-Identifier: MIT */
/*
 * Bytes of descriptors, mapped copy-on-write into one range of addresses.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct private_map {
	unsigned char *start; /* of the first byte's page */
	size_t size;          /* in whole pages; 0: nothing is mapped */
};

/* Addresses for size bytes that lie at offset of what they come from, which
 * decides where huge pages can begin. Nothing is there yet. */
int private_map_reserve(
	struct private_map *map, uint64_t size, uint64_t offset);

/* Pages of fd from offset on to at bytes behind the start; all in whole pages,
 * and inside. -ENOTSUP without a sentence: these cannot be written one by one,
 * or not mapped; copy them. */
int private_map_add(struct private_map *map, uint64_t at, int fd,
	uint64_t offset, uint64_t size);

/* Takes what is not mapped. */
void private_map_done(struct private_map *map);
