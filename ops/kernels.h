/* SPDX-License-Identifier: MIT */
/*
 * What is done to a run of elements: n of them, packed, on all sides of the
 * dtype in which an operation is computed. A source that is steady is one
 * element, used n times. dst may be one of the sources, in whole.
 *
 * One table of operations and dtypes (kernels_type.h) is compiled for three
 * generations of processors; the one at hand is found out once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tarn/ops.h>

enum type {
	TYPE_BOOL,
	TYPE_U8,
	TYPE_I8,
	TYPE_U16,
	TYPE_I16,
	TYPE_U32,
	TYPE_I32,
	TYPE_U64,
	TYPE_I64,
	TYPE_F32,
	TYPE_F64,
	TYPES,
};

/* Sources that are steady: bit i. */
typedef void run_fn(
	size_t n, void *dst, const void *const src[3], unsigned steady);

/* Adds (multiplies, ...) n > 0 elements up to one. Sums of floats have lanes,
 * the same on all processors. */
typedef void fold_fn(size_t n, void *dst, const void *src);
enum fold { FOLD_ADD, FOLD_MUL, FOLD_MIN, FOLD_MAX, FOLDS };

/* n elements that are stride apart, beside each other. */
typedef void pick_fn(size_t n, void *dst, const void *src, ptrdiff_t stride);

/* From a row to a row, which may be the same. */
struct row_args {
	const void *weight, *bias; /* of as many elements, or NULL */
	double epsilon;
};
typedef void row_fn(
	size_t n, void *dst, const void *src, const struct row_args *args);
enum row_op {
	ROW_SOFTMAX,
	ROW_LOG_SOFTMAX,
	ROW_CUMULATIVE_SUM, /* these two of I64 and U64 too */
	ROW_CUMULATIVE_PRODUCT,
	ROW_LAYER_NORM,
	ROW_RMS_NORM,
	ROW_OPS,
};

/* What n > 0 elements add up to, in F64. */
typedef void chunk_fn(size_t n, const void *src, double p, double ret[2]);
enum chunk_op {
	CHUNK_MOMENTS, /* mean, sum of squared distances from it */
	CHUNK_POWERS,  /* sum of |x|^p; infinite p: the largest or least |x|;
			* 0: how many are not 0 */
	CHUNK_EXPS,    /* the largest x, sum of exp(x - that) */
	CHUNKS,
};

/* n elements become the exponentials of what they are above from; their sum. */
typedef double exp_fn(size_t n, void *row, double from);

/* RANDOM_BLOCKS blocks of the generator from a counter on: words[i][j] is word i
 * of block j. Of them floats: 4 of F32 or 2 of F64 for each block, in order. */
#define RANDOM_BLOCKS 16
typedef void random_words_fn(const uint32_t counter[4], const uint32_t key[2],
	uint32_t words[4][RANDOM_BLOCKS]);
typedef void random_fn(
	const uint32_t words[4][RANDOM_BLOCKS], double a, double b, void *dst);

/* c[i * down + j * right] += row i of a . row j of b, of rows of k F32 that are
 * a_down and b_down apart: where one side has few rows BLAS takes longer, which
 * packs both. */
struct dots {
	const float *a;
	const void *b;
	bool b_half; /* b is BF16: it is read as it lies */
	float *c;
	int64_t k, a_rows, a_down, b_rows, b_down, down, right;
};
typedef void dots_fn(const struct dots *d);

struct kernels {
	const char *name;
	dots_fn *dots;
	pick_fn *pick[4]; /* by the size of an element: 1, 2, 4, 8 bytes */
	run_fn *unary[TYPES][TARN_UNARY_OPS];
	run_fn *binary[TYPES][TARN_BINARY_OPS];
	run_fn *next_after[2]; /* in F32, of F16 and of BF16 */
	run_fn *clamp[TYPES];
	fold_fn *fold[TYPES][FOLDS];
	row_fn *row[TYPES][ROW_OPS];
	chunk_fn *chunk[TYPES][CHUNKS];
	exp_fn *exp_less[2]; /* F32, F64 */
	run_fn *where[4];    /* by the size of an element */
	random_words_fn *random_words;
	random_fn *random[2][2]; /* uniform, normal; F32, F64 */
};

/* NULL: the compiler or the processor has no such thing. */
extern const struct kernels kernels_c, kernels_avx2, kernels_avx512;

const struct kernels *kernels(void);

/* The type of a dtype that is computed in itself. */
enum type kernels_type(enum tarn_dtype dtype);
