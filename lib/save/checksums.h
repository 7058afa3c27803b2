/* SPDX-License-Identifier: MIT */
/*
 * XXH3 of ranges of a file, computed while its bytes pass in order. Bytes
 * between the ranges may be left out.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct checksum_range {
	uint64_t offset, nbytes; /* in the file; in order, and apart */
	uint64_t value;          /* once all of it has passed */
};

/* XXH3_64bits_update. */
typedef int checksum_update(void *state, const void *bytes, size_t size);

struct checksums {
	struct checksum_range *ranges; /* the caller's */
	size_t n;
	size_t done; /* ranges whose value is known */
	void *state; /* of the next range */
	checksum_update *update;
};

/* -ENOMEM */
int checksums_begin(struct checksums *sums, struct checksum_range *ranges,
	size_t n) _must_check_;
void checksums_end(struct checksums *sums);

/* Feeds bytes offset .. offset + size - 1. All bytes before offset of ranges
 * without a value must have been fed. */
void checksums_feed(struct checksums *sums, uint64_t offset, const void *bytes,
	uint64_t size);

/* checksums_avx2.c. NULL: this machine has no AVX2. */
checksum_update *checksum_update_avx2(void);
