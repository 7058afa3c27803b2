/* SPDX-License-Identifier: MIT */
/*
 * Products of matrices in memory, by BLAS for floats and by a plain loop for
 * integers. A matrix is read as it lies, if one of its strides is 1 and the other
 * leaves room for a whole row or column; BLAS has no words for others.
 *
 * BLAS has threads of its own, which would wait for work beside the pool's and
 * take their processors. They are never used: a product is cut into parts for the
 * pool, and BLAS computes each part in the thread that calls it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/ops.h>

/* Strides in elements. down: from a row to the next; right: from a column. */
struct matrix {
	char *at;
	int64_t rows, cols, down, right;
};

/* Can it be read, or written, as it lies? */
bool matrix_fits(const struct matrix *m);

static inline struct matrix matrix_turned(const struct matrix *m)
{
	return (struct matrix) {m->at, m->cols, m->rows, m->right, m->down};
}

/* A part of it, whose elements have size bytes. */
static inline struct matrix matrix_part(const struct matrix *m, int64_t size,
	int64_t row, int64_t rows, int64_t col, int64_t cols)
{
	return (struct matrix) {m->at + (row * m->down + col * m->right) * size,
		rows, cols, m->down, m->right};
}

/* Element [i, j] becomes values[i * down + j * right]. */
void matrix_fill(const struct matrix *m, int64_t size, const char *values,
	int64_t down, int64_t right);

/* 0, or -ENOTSUP: there is no BLAS for floats. Before a product of them. */
int blas_ready(const char *op);

/* BLAS keeps to the calling thread between the two, in the whole process. They
 * may be nested, and called from several threads at once. */
void blas_enter(void);
void blas_leave(void);

/*
 * c = alpha * a @ b, or added to c. dtype is F32, F64 or an integer's (alpha is 1
 * there); all three fit, are aligned to their elements, and c shares no byte with
 * a or b. No extent is above MATRIX_MAX, but that over which is summed.
 */
#define MATRIX_MAX ((int64_t)1 << 30) /* BLAS counts in int */
void blas_product(enum tarn_dtype dtype, double alpha, const struct matrix *a,
	const struct matrix *b, bool add, const struct matrix *c);

/* Is such a product of F32 faster without BLAS? blas_few is the same as
 * blas_product then. A piece of a product goes the way of the whole, or its bits
 * would depend on how it is cut. b_half: b is BF16. */
bool blas_is_few(
	const struct matrix *a, const struct matrix *b, const struct matrix *c);
void blas_few(const struct matrix *a, const struct matrix *b, bool b_half,
	bool add, const struct matrix *c);
