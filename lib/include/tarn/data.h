/* SPDX-License-Identifier: MIT */
/*
 * Data: the samples that a training job is fed with, in an order that needs no
 * memory.
 *
 * The order of an epoch is a pure function. A sample is found by its position
 * alone, without a list of all of them, so the whole state of a job is one
 * number, and any number of ranks and workers agrees on what comes at each
 * position:
 *
 *	struct tarn_data_order order;
 *
 *	r = tarn_data_order_init(
 *		&order, TARN_SHUFFLE_ALL, 1000000000000, 0, 42, 0);
 *	if (r >= 0)
 *		printf("%llu comes first\n",
 *			(unsigned long long)tarn_data_order_at(&order, 0));
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- order --------------------------------------------------------------- */

enum tarn_data_shuffle {
	TARN_SHUFFLE_ALL = 0, /* any sample may come at any position */
	/* The order of blocks of consecutive samples is shuffled, and then that
	 * of the samples within each: for disks that want locality. */
	TARN_SHUFFLE_BLOCKS = 1,
	TARN_SHUFFLE_NONE = 2,
};

/* No sample, and no position. */
#define TARN_DATA_NONE UINT64_MAX

/* A keyed permutation of 0 .. n - 1; tarn_data_order_init fills it. */
struct tarn_data_permutation {
	uint64_t n, rows, columns, key, turn_in, turn_out;
	uint32_t rounds, pad;
};

/* The order of one epoch: a value, which may be copied, and read by any number
 * of threads. */
struct tarn_data_order {
	uint64_t n;
	uint64_t block; /* samples; the last one may have fewer */
	enum tarn_data_shuffle shuffle;
	uint64_t last_at; /* how many blocks come before the last one */
	struct tarn_data_permutation all, inner, last;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Makes the order of n samples (0 to 2^63) in an epoch. Orders of other epochs
 * and other seeds are unrelated. block matters for TARN_SHUFFLE_BLOCKS alone, and
 * is at least 1 there. The same arguments give the same order on any machine and
 * in any later version. Takes some hundred nanoseconds.
 *
 * -EINVAL: an unknown shuffle, or block is 0; -EOVERFLOW: n is more than 2^63.
 */
TARN_PUBLIC int tarn_data_order_init(struct tarn_data_order *order,
	enum tarn_data_shuffle shuffle, uint64_t n, uint64_t block,
	uint64_t seed, uint64_t epoch) TARN_NONNULL(1) TARN_MUST_CHECK;

/* The sample at a position; TARN_DATA_NONE if there are not so many. Takes the
 * same time and memory for any n: below 150 ns. */
TARN_PUBLIC uint64_t tarn_data_order_at(const struct tarn_data_order *order,
	uint64_t position) TARN_NONNULL(1) TARN_PURE;

/* The position of a sample; TARN_DATA_NONE if there are not so many. */
TARN_PUBLIC uint64_t tarn_data_order_find(const struct tarn_data_order *order,
	uint64_t sample) TARN_NONNULL(1) TARN_PURE;

/* The sample at position g of an order that shuffles all: for callers that need
 * one. TARN_DATA_NONE: g is not below n, or n is more than 2^63. */
TARN_PUBLIC uint64_t tarn_data_order(uint64_t seed, uint64_t epoch, uint64_t n,
	uint64_t g) TARN_CONST;

#ifdef __cplusplus
}
#endif
