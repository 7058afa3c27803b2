/* SPDX-License-Identifier: MIT */
/* Random tensors for the operations on them, and their elements as numbers. */
#pragma once

#include <tarn/copy.h>
#include <tarn/tensor.h>

/* Bails out with the call and its sentence if it fails; else its result. */
#define must(call) must_succeed((call), #call, __FILE__, __LINE__)
int must_succeed(int r, const char *call, const char *file, int line);

/* Numbers that a seed begins. */
struct random_state {
	uint64_t state;
};
uint64_t random_next(struct random_state *r);
/* One of 0 .. n - 1. */
int64_t random_below(struct random_state *r, int64_t n);

/* At most max_ndim extents from 1 to about 70, with few elements in all, now and
 * then a long or an empty one: returns ndim. */
int random_shape(
	struct random_state *r, int max_ndim, int64_t shape[TARN_NDIM_MAX]);

/* A tensor of any strides: permuted, with gaps, and backwards. Small numbers;
 * special: with a NaN or an infinity, in some. The caller unrefs it. */
tarn_tensor *random_tensor(struct random_state *r, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, bool special);

/* Its elements in C order. The caller frees them. */
double *tensor_numbers(const tarn_tensor *t);
int64_t *tensor_integers(const tarn_tensor *t);

/* A tensor in C order of numbers in C order. */
tarn_tensor *tensor_of(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const double *numbers);

/* The elements agree with n wanted ones: within a tolerance, absolute and
 * relative; NaN is NaN. What differs first is printed. */
bool tensor_agrees(const tarn_tensor *t, int64_t n, const double *wanted,
	double tolerance);

/* The same bits, in C order. */
bool tensors_same_bits(const tarn_tensor *a, const tarn_tensor *b);

/* The same tensor as one that may not be written. */
tarn_tensor *tensor_read_only(const tarn_tensor *t);
