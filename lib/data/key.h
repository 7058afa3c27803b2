/* SPDX-License-Identifier: MIT */
/* Keys: 64 bits of which each depends on all bits of what they were made of. */
#pragma once

#include <stdint.h>

/* 2^64 divided by the golden ratio, odd: multiples of it are far apart. */
#define DATA_STEP 0x9e3779b97f4a7c15u

/* The finaliser of splitmix64 with David Stafford's constants (variant 13): a
 * bijection in which each bit of x flips each bit of the result with probability
 * 1/2. */
static inline uint64_t data_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline uint64_t data_key(uint64_t key, uint64_t word)
{
	return data_mix(data_mix(key + DATA_STEP) ^ (word + 1) * DATA_STEP);
}

/* x as a fraction of 2^64, of n: 0 .. n - 1. */
static inline uint64_t data_scale(uint64_t x, uint64_t n)
{
	return (uint64_t)((unsigned __int128)x * n >> 64);
}
