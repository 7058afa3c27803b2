/* SPDX-License-Identifier: MIT */
/*
 * All sizes are added and multiplied with these functions.
 *
 * Each function returns true when the exact result does not fit, as the
 * compiler's builtins do, so that a check reads
 *
 *	if (mul_i64(a, b, &n))
 *		return tarn_fail(EOVERFLOW, ...);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline bool add_i64(int64_t a, int64_t b, int64_t *ret)
{
	return __builtin_add_overflow(a, b, ret);
}

static inline bool sub_i64(int64_t a, int64_t b, int64_t *ret)
{
	return __builtin_sub_overflow(a, b, ret);
}

static inline bool mul_i64(int64_t a, int64_t b, int64_t *ret)
{
	return __builtin_mul_overflow(a, b, ret);
}

static inline bool add_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_add_overflow(a, b, ret);
}

static inline bool mul_u64(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_mul_overflow(a, b, ret);
}

/* Rounds up to a power of two; true when that does not fit. */
static inline bool round_up_u64(uint64_t n, uint64_t pow2, uint64_t *ret)
{
	uint64_t sum;

	if (__builtin_add_overflow(n, pow2 - 1, &sum))
		return true;
	*ret = sum & ~(pow2 - 1);
	return false;
}

static inline uint64_t round_down_u64(uint64_t n, uint64_t pow2)
{
	return n & ~(pow2 - 1);
}

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
