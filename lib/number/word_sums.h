/* SPDX-License-Identifier: MIT */
/*
 * Two sums over the words of a run of bytes, which do not depend on the order in
 * which they are added up: so any number of threads compute them, of a CPU or of
 * a GPU, and parts are added. The definition is that of struct tarn_digest
 * (set.h); C and CUDA's C++.
 */
#pragma once

#include "lib/number/convert_element.h"

/* Odd, of random bits: 2^64 divided by the golden ratio, and xxHash's and
 * MurmurHash3's. */
#define WORD_STEP_A 0x9e3779b97f4a7c15ull
#define WORD_STEP_B 0xc2b2ae3d27d4eb4full
#define WORD_FACTOR 0xff51afd7ed558ccdull

struct word_sums {
	u64 a, b;
};

/* Each word makes a different a at one place: so a change of one word changes
 * the sum. */
ALWAYS void word_sums_step(struct word_sums *sums, u64 word, u64 place)
{
	u64 x = word + (place + 1) * WORD_STEP_A;
	u64 y = word + (place + 1) * WORD_STEP_B;

	x ^= x >> 32;
	x *= WORD_FACTOR;
	x ^= x >> 29;
	sums->a += x;
	sums->b += (y & 0xffffffff) * (y >> 32);
}

#ifndef __CUDACC__
/* Adds n words, which need no alignment, of which the first is at that place. */
void word_sums_add(struct word_sums *sums, const void *words, u64 n, u64 place);
#endif
