/* SPDX-License-Identifier: MIT */
/*
 * Random tensors for operations: any order of dimensions, steps, gaps, repeated
 * dimensions, in memory of just the size that they reach. Floats are multiples of
 * 1/8 between -2 and 2, so that short sums of products are exact in F32, and
 * compared as they are; integers are small, or any.
 */
#pragma once

#include <tarn/ops.h>

void view_seed(uint64_t seed);
uint64_t view_below(uint64_t n);

enum view_flags {
	VIEW_REPEATED = 1, /* dimensions may have the stride 0 */
	VIEW_WIDE = 2,     /* integers of all their bits */
	VIEW_SKEW = 4,     /* the address may be no multiple of the size */
};

tarn_tensor *view_random(
	enum tarn_dtype dtype, int ndim, const int64_t *shape, unsigned flags);

/* In C order, from doubles. */
tarn_tensor *view_of(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const double *values);

/* All elements in C order, those of U64 by their bits; the caller frees them. */
double *view_values(const tarn_tensor *t);
int64_t *view_integers(const tarn_tensor *t);

/*
 * Is to, which an operation wrote, in all its storage what it was before (at the
 * call of view_before), with the values of wanted written there? Says where not.
 */
struct view_before {
	unsigned char *bytes;
	uint64_t size;
};
struct view_before view_before(const tarn_tensor *to);
bool view_written(
	struct view_before before, tarn_tensor *to, const tarn_tensor *wanted);
