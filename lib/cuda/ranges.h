/* SPDX-License-Identifier: MIT */
/* The ranges of addresses that devices reach, in the order of their addresses;
 * none overlap. A plain list: cuda.c registers what is in it. */
#pragma once

#include "lib/cuda/cuda.h"

struct cuda_range {
	uintptr_t start, end;
	bool busy;       /* being registered, without the lock */
	bool registered; /* false: its users read it as it is */
	bool read_only;  /* registered for reading alone */
	int owner;       /* the device that registered it */
	/* A bit for each device: those that read it, and of them those that do
	 * so by its registration, for which they hold their contexts. */
	uint32_t users, holders;
	uint64_t at[CUDA_DEVICES_MAX]; /* where a user reads the first byte */
};

struct cuda_ranges {
	uint32_t n, room;
	struct cuda_range *list;
};

/* Makes room for one more, so that adding it cannot fail. -ENOMEM. */
int cuda_ranges_reserve(struct cuda_ranges *ranges);
/* There must be room, and no overlap. Valid until the list changes. */
struct cuda_range *cuda_ranges_add(
	struct cuda_ranges *ranges, const struct cuda_range *range);
void cuda_ranges_remove(struct cuda_ranges *ranges, struct cuda_range *range);
void cuda_ranges_clear(struct cuda_ranges *ranges);

/* The first range that ends after that address; NULL: there is none. */
struct cuda_range *cuda_ranges_find(
	const struct cuda_ranges *ranges, uintptr_t at);
