/* SPDX-License-Identifier: MIT */
/*
 * The few inner loops that are compiled for particular CPU features. There is
 * one table of them in plain C, and one per instruction set; the choice is made
 * once. Addresses need no alignment, strides are in bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A cache line, on common CPUs of both architectures. */
#define LINE 64

/* Elements of 1 << k bytes, k below this, are transposed in tiles. */
#define SIMD_SIZES 5

/* The source of 16 bytes of an output group: from which byte of each input
 * vector, or 0x80 for none. */
struct shuffle {
	int inputs, outputs; /* 1 to 4 vectors of 16 bytes */
	uint8_t from[4][4][16];
	/* Vectors of one group are step apart, groups follow after advance. */
	ptrdiff_t dst_step, dst_advance;
	ptrdiff_t src_step, src_advance;
};

struct simd {
	/* Adjacent tiles: in each, rows[k] rows of src with cols[k] elements
	 * become cols[k] rows of dst. */
	uint8_t rows[SIMD_SIZES], cols[SIMD_SIZES];
	void (*transpose[SIMD_SIZES])(char *dst, ptrdiff_t dst_stride,
		const char *src, ptrdiff_t src_stride, int64_t tiles);
	/* Returns how many groups it has done, 0 where it cannot do any. */
	int64_t (*shuffle)(const struct shuffle *how, char *dst,
		const char *src, int64_t groups);
	/* Like memcpy, but past the cache; call the fence once afterwards. */
	void (*stream)(void *dst, const void *src, size_t size);
	void (*fence)(void);
	/* Converts bytes to floats, times scale, plus bias, past the cache;
	 * meanwhile prefetches n bytes from ahead on, which need not exist.
	 * NULL: the caller converts, then streams. */
	void (*stream_u8_f32)(char *dst, const uint8_t *src, int64_t n,
		float scale, float bias, const char *ahead);
};

const struct simd *simd_portable(void);
const struct simd *simd_avx2(void); /* NULL if the CPU lacks it */

/* The best one for this CPU. */
const struct simd *simd_get(void);

/* Makes the portable one, or the best, the result of simd_get from here on: for
 * tests. */
void simd_force_portable(bool on);
