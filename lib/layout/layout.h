/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the layout algebra.
 *
 * One rule keeps every operation free of overflow checks of its own: a valid
 * layout's reach, taken over all dimensions of two and more (whether or not
 * another dimension is empty), fits in int64_t even when counted in bits. So
 * stepping inside a dimension never overflows; what may overflow are strides of
 * dimensions that have no second element, and those are never used
 * (stride_times).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tarn/layout.h>

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/fail.h"

/* 12 numbers of 20 characters, commas and brackets; longer ones end in
 * "...". */
#define SHAPE_TEXT_MAX 288

/* "[2, 3, 4]" in buf. */
const char *shape_text(
	char buf[SHAPE_TEXT_MAX], int ndim, const int64_t *shape);

#define SHAPE_TEXT(ndim, shape)                                                \
	shape_text((char[SHAPE_TEXT_MAX]) {0}, ndim, shape)
#define LAYOUT_TEXT(l) SHAPE_TEXT((l)->ndim, (l)->shape)
#define STRIDE_TEXT(l) SHAPE_TEXT((l)->ndim, (l)->stride)

/* -EINVAL unless 0 <= ndim <= TARN_NDIM_MAX. */
int layout_check_ndim(const char *op, int ndim);

/* The product of a shape, checked: extents of 0 win over any overflow. */
int layout_count(const char *op, int dtype, int ndim, const int64_t *shape,
	int64_t *ret);

/* Number of elements, the two ends of the reach, packs of sub-byte types. */
int layout_check(const char *op, const struct tarn_layout *layout);

/* Sub-byte types only: is every pack whole? -ENOTSUP. */
int layout_check_packs(const char *op, const struct tarn_layout *layout);

/* tarn_layout_contiguous for op, the function that the caller called. */
int layout_contiguous(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, struct tarn_layout *ret);

/* The common case of tarn_layout_contiguous, in one walk: a type of whole
 * bytes, elements, and a size that fits, in bytes. False: call
 * tarn_layout_contiguous, which also sets the sentence. */
bool layout_write_contiguous(int dtype, int ndim, const int64_t *shape,
	struct tarn_layout *ret, uint64_t *ret_size);

/* Would layout_write_contiguous() write the same layout again? known: the size
 * that it returned for this one; 0: it did not write this one. */
static inline bool layout_stands(const struct tarn_layout *layout,
	uint64_t known, int dtype, int ndim, const int64_t *shape)
{
	int64_t other = 0;

	if (!known || layout->dtype != dtype || layout->ndim != ndim)
		return false;
	for (int i = 0; i < ndim; i++)
		other |= layout->shape[i] ^ shape[i];
	return !other;
}

/* C order; strides that do not fit (in a tensor without elements) are 0. */
void layout_fill_contiguous(struct tarn_layout *layout);

/* The errors of layout_dim and its like, kept out of the fast paths. */
int layout_fail_dim(const char *op, const struct tarn_layout *layout, int dim)
	__attribute__((__cold__, __noinline__));

static inline bool dtype_is_packed(int dtype)
{
	return dtype >= TARN_F4 && dtype <= TARN_F6_E3M2;
}

/* a * b, or 0 where that does not fit: then no element depends on it. */
static inline int64_t stride_times(int64_t a, int64_t b)
{
	int64_t product;

	return mul_i64(a, b, &product) ? 0 : product;
}

/* Negative dimensions count from the end. */
static inline int layout_dim(
	const char *op, const struct tarn_layout *layout, int dim, int *ret)
{
	int d = dim < 0 ? dim + layout->ndim : dim;

	if (__builtin_expect(d < 0 || d >= layout->ndim, 0))
		return layout_fail_dim(op, layout, dim);
	*ret = d;
	return 0;
}

/* As PyTorch does for some operations: a scalar accepts 0 and -1. */
static inline int layout_dim_or_scalar(
	const char *op, const struct tarn_layout *layout, int dim, int *ret)
{
	if (layout->ndim || dim < -1 || dim > 0)
		return layout_dim(op, layout, dim, ret);
	*ret = 0;
	return 0;
}

/*
 * A view is made in place in the caller's ret, which may be the input. Only
 * for sub-byte types, where the result may turn out to be illegal, it is made
 * in spare and handed over at the end.
 */
static inline struct tarn_layout *view_begin(const struct tarn_layout *in,
	struct tarn_layout *ret, struct tarn_layout *spare)
{
	struct tarn_layout *out = dtype_is_packed(in->dtype) ? spare : ret;

	if (out != in)
		*out = *in;
	return out;
}

static inline int view_end(
	const char *op, const struct tarn_layout *out, struct tarn_layout *ret)
{
	int r;

	if (__builtin_expect(out == ret, 1))
		return 0;
	r = layout_check_packs(op, out);
	if (r == 0)
		*ret = *out;
	return r;
}

/* The same for operations off the fast path, which build out aside. */
static inline int view_checked(
	const char *op, const struct tarn_layout *out, struct tarn_layout *ret)
{
	int r = layout_check(op, out);

	if (r == 0)
		*ret = *out;
	return r;
}

/* For operations whose result reaches the same as their input and has a number
 * of elements that is known to fit: only a pack can have been split. */
static inline int view_reaching(
	const char *op, const struct tarn_layout *out, struct tarn_layout *ret)
{
	int r = dtype_is_packed(out->dtype) ? layout_check_packs(op, out) : 0;

	if (r == 0)
		*ret = *out;
	return r;
}

/* Writes a layout field by field: clearing one whole, only to fill it, costs
 * more than many an operation does. ret may be what shape and stride came
 * from as long as those were copied. */
static inline void layout_write(struct tarn_layout *ret, int dtype, int ndim,
	int64_t offset, const int64_t *shape, const int64_t *stride)
{
	ret->dtype = (uint8_t)dtype;
	ret->ndim = (uint8_t)ndim;
	memset(ret->reserved, 0, sizeof(ret->reserved));
	ret->offset = offset;
	for (int i = 0; i < ndim; i++) {
		ret->shape[i] = shape[i];
		ret->stride[i] = stride[i];
	}
	/* Two by two, which is one store: most have few dimensions. */
	if (ndim & 1) {
		ret->shape[ndim] = 0;
		ret->stride[ndim] = 0;
		ndim++;
	}
	for (int i = ndim; i < TARN_NDIM_MAX; i += 2) {
		memset(&ret->shape[i], 0, 2 * sizeof(ret->shape[0]));
		memset(&ret->stride[i], 0, 2 * sizeof(ret->stride[0]));
	}
}

/* Removes dimension d; the later ones move up. */
static inline void layout_drop_dim(struct tarn_layout *l, int d)
{
	int last = l->ndim - 1;

	for (int i = d; i < last; i++) {
		l->shape[i] = l->shape[i + 1];
		l->stride[i] = l->stride[i + 1];
	}
	l->shape[last] = 0;
	l->stride[last] = 0;
	l->ndim = last;
}

/* Makes room for a dimension before d; the caller has checked that there is
 * some. */
static inline void layout_insert_dim(
	struct tarn_layout *l, int d, int64_t n, int64_t stride)
{
	for (int i = l->ndim; i > d; i--) {
		l->shape[i] = l->shape[i - 1];
		l->stride[i] = l->stride[i - 1];
	}
	l->shape[d] = n;
	l->stride[d] = stride;
	l->ndim++;
}
