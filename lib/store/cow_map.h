/* SPDX-License-Identifier: MIT */
/*
 * Bytes of descriptors, mapped into one range of addresses: copy-on-write, or
 * for reading.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cow_map {
	unsigned char *start; /* of the first byte's page */
	size_t size;          /* in whole pages; 0: nothing is mapped */
	bool read_only;       /* not copy-on-write; set before the others */
};

/* Reserves addresses for size bytes that lie at offset of their source, which
 * determines where huge pages can begin. Nothing is mapped yet. */
int cow_map_reserve(struct cow_map *map, uint64_t size, uint64_t offset);

/* Maps pages of fd from offset on at byte at of the range; all in whole pages,
 * and inside the range. -ENOTSUP without a sentence: these pages cannot be
 * copied one by one, or not mapped; copy the bytes. */
int cow_map_add(struct cow_map *map, uint64_t at, int fd, uint64_t offset,
	uint64_t size);

/* The same over pages that are mapped already, from a memfd of small pages. */
int cow_map_over(struct cow_map *map, uint64_t at, int fd, uint64_t offset,
	uint64_t size);

/* Discards the writes to these pages, all in one mapping, which then show their
 * source again. */
void cow_map_reset(void *start, uint64_t size);

/* Unmaps it. Takes a map without a mapping. */
void cow_map_done(struct cow_map *map);
