/* SPDX-License-Identifier: MIT */
/*
 * The kernels by name, and their one parameter: a nest, or a list (list_steps.h). Threads take steps of
 * it: an element, or a vector of them, or a share of a tile, which goes through
 * memory that the threads of a block share.
 */
#pragma once

#include <stdint.h>

#include <tarn/layout.h>

/* In what an element is scaled, and between which its load and store are. */
enum cuda_pivot { PIVOT_F32, PIVOT_F64, PIVOT_I64 };

/* Three more than a tensor has dimensions: an element may be moved in parts, and
 * two loops of tiles have two inside them. */
#define CUDA_LOOPS_MAX 15
/* So many channels travel in the parameter; more need a buffer. */
#define CUDA_CHANNELS 64
#define CUDA_THREADS 256
#define CUDA_SIDE 64 /* of a tile, in elements */

/* Strides in bytes, or of src in bits, see below. magic and shift divide by the extent. */
struct cuda_loop {
	int64_t extent, dst, src, channel;
	uint32_t magic, shift;
};

struct cuda_nest {
	uint64_t dst, src; /* addresses of the first element */
	uint64_t steps;
	uint64_t factors; /* address; 0: those below */
	int64_t channels; /* of factors: scales, then as many biases */
	int64_t channel0;
	int64_t vector_channel; /* from element to element of a vector */
	int32_t n;
	uint8_t dst_dtype, src_dtype, dst_size, src_size;
	uint8_t pivot, even, scaled;
	uint8_t bytewise; /* elements are not aligned */
	/* Of src's elements, where they are parts of bytes: then the first
	 * begins at that bit of its byte. 0: they are whole bytes. */
	uint8_t src_bits, src_first_bit;
	/* The innermost first. Of tiles: the one along dst inside a tile, the
	 * one along src, then those over tiles in the same order, then those
	 * around them. */
	struct cuda_loop loop[CUDA_LOOPS_MAX];
	uint64_t factor[2 * CUDA_CHANNELS]; /* bits of F32 or F64 */
};

/* What a kernel over a list works on: bytes whose sums are wanted, or positions
 * of elements. Addresses are the device's. */
struct cuda_list {
	uint64_t src;       /* bytes; scatter: values, adjacent */
	uint64_t dst;       /* scatter: the element at position 0 */
	uint64_t positions; /* in C order; aligned to their size */
	uint64_t out;       /* sums: two numbers for each block */
	uint64_t n;         /* bytes, or positions */
	uint64_t limit;     /* positions are below it */
	uint32_t blocks;    /* as many as cuda_list_blocks says, or fewer */
	uint32_t wide;      /* positions have 64 bits, else 32 */
	uint32_t size;      /* bytes of an element: 1, 2, 4, 8 */
	int32_t ndim;
	/* The innermost first; strides in bytes. */
	int64_t extent[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];
};

/* Picked: several for each processor of the largest device. */
#define CUDA_LIST_BLOCKS 2048

/* For so many steps, each of one thread. */
static inline uint32_t cuda_list_blocks(uint64_t steps)
{
	uint64_t n = (steps + CUDA_THREADS - 1) / CUDA_THREADS;

	return n > CUDA_LIST_BLOCKS ? CUDA_LIST_BLOCKS : n ? (uint32_t)n : 1;
}

/* ---- the list ------------------------------------------------------------ */

/* The pairs that have kernels of their own: what models are stored in, and
 * computed in. All have the pivot F32. */
#define CUDA_PAIRS(P)                                                          \
	P(F32, BF16)                                                           \
	P(F32, F16)                                                            \
	P(BF16, F32)                                                           \
	P(F16, F32)                                                            \
	P(BF16, F16)                                                           \
	P(F16, BF16)                                                           \
	P(U8, F32)                                                             \
	P(U8, F16)                                                             \
	P(U8, BF16)                                                            \
	P(F8_E4M3, F32)                                                        \
	P(F8_E4M3, F16)                                                        \
	P(F8_E4M3, BF16)

/* K(name, kind, a, b). The pairs of the first name are at CUDA_PAIR_FIRST, each
 * with its three kernels in this order. */
#define CUDA_PAIR_KERNELS(src, dst)                                            \
	K(vector_##src##_##dst, VECTOR, TARN_##src, TARN_##dst)                \
	K(single_##src##_##dst, SINGLE, TARN_##src, TARN_##dst)                \
	K(tile_##src##_##dst, TILE_PAIR, TARN_##src, TARN_##dst)

#define CUDA_KERNELS                                                           \
	K(raw_1, RAW, 1, 32)                                                   \
	K(raw_2, RAW, 2, 32)                                                   \
	K(raw_4, RAW, 4, 32)                                                   \
	K(raw_8, RAW, 8, 32)                                                   \
	K(raw_16, RAW, 16, 32)                                                 \
	K(raw_1_long, RAW, 1, 64)                                              \
	K(raw_2_long, RAW, 2, 64)                                              \
	K(raw_4_long, RAW, 4, 64)                                              \
	K(raw_8_long, RAW, 8, 64)                                              \
	K(raw_16_long, RAW, 16, 64)                                            \
	K(tile_1, TILE_RAW, 1, 0)                                              \
	K(tile_2, TILE_RAW, 2, 0)                                              \
	K(tile_4, TILE_RAW, 4, 0)                                              \
	K(tile_8, TILE_RAW, 8, 0)                                              \
	K(any, ANY, 0, 32)                                                     \
	K(any_long, ANY, 0, 64)                                                \
	K(tile_any_1, TILE_ANY, 0, 1)                                          \
	K(tile_any_2, TILE_ANY, 0, 2)                                          \
	K(tile_any_4, TILE_ANY, 0, 4)                                          \
	K(tile_any_8, TILE_ANY, 0, 8)                                          \
	CUDA_PAIRS(CUDA_PAIR_KERNELS)

/* L(name): those over a list. */
#define CUDA_LISTS                                                             \
	L(sums)                                                                \
	L(check)                                                               \
	L(scatter)

enum cuda_kernel {
#define K(name, kind, a, b) CUDA_K_##name,
	CUDA_KERNELS
#undef K
#define L(name) CUDA_L_##name,
		CUDA_LISTS
#undef L
			CUDA_KERNELS_N,
};

#define CUDA_PAIR_FIRST CUDA_K_vector_F32_BF16

enum cuda_kind {
	CUDA_RAW,       /* a: bytes of an element; b: bits of an index */
	CUDA_ANY,       /* the dtypes are in the nest; b: bits of an index */
	CUDA_VECTOR,    /* a, b: dtypes of src and dst */
	CUDA_SINGLE,    /* a, b: dtypes */
	CUDA_TILE_RAW,  /* a: bytes of an element */
	CUDA_TILE_ANY,  /* b: bytes of an element of dst */
	CUDA_TILE_PAIR, /* a, b: dtypes */
};
