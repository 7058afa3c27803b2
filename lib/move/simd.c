// SPDX-License-Identifier: MIT
/*
 * The inner loops in plain C, and the choice between them and those of an
 * instruction set. Tiles are small enough that the compiler unrolls them, and
 * vectorises them for its target CPU.
 */
#include "lib/move/simd.h"

#include <stdatomic.h>
#include <string.h>

#define TILE 8

#define TRANSPOSE(size)                                                        \
	static void transpose_##size(char *dst, ptrdiff_t dst_stride,          \
		const char *src, ptrdiff_t src_stride, int64_t tiles)          \
	{                                                                      \
		for (; tiles > 0; tiles--) {                                   \
			for (int i = 0; i < TILE; i++)                         \
				for (int j = 0; j < TILE; j++)                 \
					memcpy(dst + i * dst_stride +          \
							j * size,              \
						src + j * src_stride +         \
							i * size,              \
						size);                         \
			dst += TILE * dst_stride;                              \
			src += TILE * size;                                    \
		}                                                              \
	}

TRANSPOSE(1)
TRANSPOSE(2)
TRANSPOSE(4)
TRANSPOSE(8)
TRANSPOSE(16)

/* In portable C it would go byte by byte: the caller does that better. */
static int64_t no_shuffle(
	const struct shuffle *how, char *dst, const char *src, int64_t groups)
{
	(void)how;
	(void)dst;
	(void)src;
	(void)groups;
	return 0;
}

static void copy(void *dst, const void *src, size_t size)
{
	memcpy(dst, src, size);
}

static void no_fence(void)
{
}

const struct simd *simd_portable(void)
{
	static const struct simd simd = {
		.rows = {TILE, TILE, TILE, TILE, TILE},
		.cols = {TILE, TILE, TILE, TILE, TILE},
		.transpose = {transpose_1, transpose_2, transpose_4,
			transpose_8, transpose_16},
		.shuffle = no_shuffle,
		.stream = copy,
		.fence = no_fence,
	};

	return &simd;
}

static atomic_bool portable_only;

void simd_force_portable(bool on)
{
	atomic_store_explicit(&portable_only, on, memory_order_relaxed);
}

const struct simd *simd_get(void)
{
	/* Relaxed: a single flag, which orders nothing. */
	bool plain = atomic_load_explicit(&portable_only, memory_order_relaxed);
	const struct simd *best = plain ? NULL : simd_avx2();

	return best ? best : simd_portable();
}
