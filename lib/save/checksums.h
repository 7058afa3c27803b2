/* SPDX-License-Identifier: MIT */
/*
 * XXH3 of ranges of a file, while its bytes pass by in their order. What lies
 * between the ranges may be left out.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct checksum_range {
	uint64_t offset, nbytes; /* in the file; in order, and apart */
	uint64_t value;		 /* once all of it has passed */
};

/* XXH3_64bits_update. */
typedef int checksum_update(void *state, const void *bytes, size_t size);

struct checksums {
	struct checksum_range *ranges; /* the caller's */
	size_t n;
	size_t done; /* ranges that have a value */
	void *state; /* of the next */
	checksum_update *update;
};

/* -ENOMEM */
int checksums_begin(struct checksums *sums, struct checksum_range *ranges,
	size_t n) _must_check_;
void checksums_end(struct checksums *sums);

/* Bytes offset .. offset + size - 1. No range may begin before offset that has
 * no value yet, unless all of it up to there has passed. */
void checksums_feed(struct checksums *sums, uint64_t offset, const void *bytes,
	uint64_t size);

/* checksums_avx2.c. NULL: this machine has no AVX2. */
checksum_update *checksum_update_avx2(void);
