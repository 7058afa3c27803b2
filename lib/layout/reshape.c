// SPDX-License-Identifier: MIT
/*
 * Regrouping dimensions: view, reshape, flatten, merge, split.
 *
 * All of them use one concept: dimensions that follow each other in memory
 * (each stride is the next one's size times its stride) are a chunk, which may
 * be cut anew in any way. A new shape is a view if and only if its dimensions
 * fill the chunks exactly, from the last to the first.
 *
 * The walk is that of PyTorch's computeStride (aten/src/ATen/TensorUtils.cpp),
 * so that strides of extents of 1 agree with it too.
 */
#include "lib/layout/layout.h"
#include "lib/layout/reshape.h"

#include <stdio.h>

/* The sizes with 1 for the one to be inferred, whose place is returned. */
static int find_inferred(const char *op, int ndim, const int64_t *shape,
	int64_t *out, int *ret_at)
{
	int at = -1;

	for (int i = 0; i < ndim; i++) {
		out[i] = shape[i];
		if (shape[i] != -1)
			continue;
		if (at >= 0)
			return tarn_fail(EINVAL,
				"%s: only one size of %s can be inferred", op,
				SHAPE_TEXT(ndim, shape));
		at = i;
		out[i] = 1;
	}
	*ret_at = at;
	return 0;
}

int shape_infer(const char *op, int dtype, int from_ndim, const int64_t *from,
	int ndim, const int64_t *shape, int64_t *out)
{
	int64_t numel = 0, known = 0;
	int at = -1;
	int r;

	r = layout_check_ndim(op, ndim);
	if (r == 0)
		r = layout_count(op, dtype, from_ndim, from, &numel);
	if (r == 0)
		r = find_inferred(op, ndim, shape, out, &at);
	if (r == 0)
		r = layout_count(op, dtype, ndim, out, &known);
	if (r < 0)
		return r;
	if (at >= 0 && known == 0)
		return tarn_fail(EINVAL,
			"%s: any size would do for the -1 of %s", op,
			SHAPE_TEXT(ndim, shape));
	if (at >= 0 && numel % known == 0) {
		out[at] = numel / known;
		return 0;
	}
	if (known == numel && at < 0)
		return 0;
	return tarn_fail(EINVAL,
		"%s: shape %s has %lld elements, which %s cannot hold", op,
		SHAPE_TEXT(from_ndim, from), (long long)numel,
		SHAPE_TEXT(ndim, shape));
}

static bool same_shape(
	const struct tarn_layout *l, int ndim, const int64_t *shape)
{
	return l->ndim == ndim &&
	       memcmp(l->shape, shape, ndim * sizeof(*shape)) == 0;
}

/* Without elements any strides are correct; these are PyTorch's and numpy's. */
static void view_strides_empty(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, int64_t *stride)
{
	struct tarn_layout out = {.dtype = layout->dtype, .ndim = ndim};

	if (ndim)
		memcpy(out.shape, shape, ndim * sizeof(*shape));
	layout_fill_contiguous(&out);
	memcpy(stride, out.stride, sizeof(out.stride));
	if (same_shape(layout, ndim, shape))
		memcpy(stride, layout->stride, sizeof(layout->stride));
}

/* For a layout that has dimensions and elements: the walk itself. */
static inline int chunk_strides(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, int64_t *stride)
{
	int64_t chunk = 1;  /* elements in the chunk of layout */
	int64_t filled = 1; /* of which the new dimensions have filled */
	/* the stride of the chunk's last dimension */
	int64_t base = layout->stride[layout->ndim - 1];
	int v = ndim - 1;

	for (int d = layout->ndim - 1; d >= 0; d--) {
		chunk *= layout->shape[d];
		if (d > 0 && (layout->shape[d - 1] == 1 ||
				     layout->stride[d - 1] ==
					     stride_times(chunk, base)))
			continue;
		while (v >= 0 && (filled < chunk || shape[v] == 1)) {
			stride[v] = stride_times(filled, base);
			filled *= shape[v];
			v--;
		}
		if (filled != chunk)
			return d;
		if (d > 0)
			base = layout->stride[d - 1];
		chunk = filled = 1;
	}
	return -1;
}

/*
 * Strides that let shape (of as many elements) see layout without a copy, as
 * PyTorch computes them. -1, or where there are none the dimension of layout
 * that does not join the one before it.
 */
static int view_strides(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, int64_t *stride)
{
	if (tarn_layout_numel(layout) == 0) {
		view_strides_empty(layout, ndim, shape, stride);
		return -1;
	}
	if (layout->ndim == 0) {
		for (int i = 0; i < ndim; i++)
			stride[i] = 1;
		return -1;
	}
	return chunk_strides(layout, ndim, shape, stride);
}

/* The common case, straight through: whole elements, all sizes given and
 * positive, a number of elements that fits because it is the input's, and
 * strides that allow the view. False: use the general way. */
static inline bool view_plainly(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	int64_t sizes[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];
	int64_t have = 1, want = 1;

	if (layout->ndim == 0 || ndim < 0 || ndim > TARN_NDIM_MAX ||
		dtype_is_packed(layout->dtype))
		return false;
	/* An empty tensor may have any other sizes. */
	for (int i = 0; i < layout->ndim; i++)
		if (mul_i64(have, layout->shape[i], &have))
			return false;
	for (int i = 0; i < ndim; i++) {
		sizes[i] = shape[i];
		if (sizes[i] <= 0 || mul_i64(want, sizes[i], &want))
			return false;
	}
	if (have != want || chunk_strides(layout, ndim, sizes, stride) >= 0)
		return false;
	layout_write(ret, layout->dtype, ndim, layout->offset, sizes, stride);
	return true;
}

/* A layout over the same storage, of another shape. */
static int give_view(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, const int64_t *stride, struct tarn_layout *ret)
{
	struct tarn_layout out = {
		.dtype = layout->dtype,
		.ndim = ndim,
		.offset = layout->offset,
	};

	if (ndim) {
		memcpy(out.shape, shape, ndim * sizeof(*shape));
		memcpy(out.stride, stride, ndim * sizeof(*stride));
	}
	/* The strides of an empty tensor are new; others reach what they
	 * did. */
	if (tarn_layout_numel(&out) == 0)
		return view_checked(op, &out, ret);
	return view_reaching(op, &out, ret);
}

int view_as(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	int64_t sizes[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];
	int d, r;

	if (view_plainly(layout, ndim, shape, ret))
		return 0;
	r = shape_infer(op, layout->dtype, layout->ndim, layout->shape, ndim,
		shape, sizes);
	if (r < 0)
		return r;
	d = view_strides(layout, ndim, sizes, stride);
	if (d == 0)
		return tarn_fail(EINVAL,
			"%s: shape %s with strides %s cannot be seen as %s "
			"without a copy",
			op, LAYOUT_TEXT(layout), STRIDE_TEXT(layout),
			SHAPE_TEXT(ndim, sizes));
	if (d > 0)
		return tarn_fail(EINVAL,
			"%s: shape %s with strides %s cannot be seen as %s: "
			"dimensions %d and %d do not lie behind one another; "
			"use reshape, which may copy",
			op, LAYOUT_TEXT(layout), STRIDE_TEXT(layout),
			SHAPE_TEXT(ndim, sizes), d - 1, d);
	return give_view(op, layout, ndim, sizes, stride, ret);
}

int reshape_as(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	int64_t sizes[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];
	int r;

	if (view_plainly(layout, ndim, shape, ret))
		return 0;
	r = shape_infer(op, layout->dtype, layout->ndim, layout->shape, ndim,
		shape, sizes);
	if (r < 0)
		return r;
	if (view_strides(layout, ndim, sizes, stride) < 0)
		return give_view(op, layout, ndim, sizes, stride, ret);
	r = tarn_layout_contiguous(layout->dtype, ndim, sizes, ret);
	return r < 0 ? r : 1;
}

int tarn_layout_view(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	return view_as("view", layout, ndim, shape, ret);
}

int tarn_layout_reshape(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	return reshape_as("reshape", layout, ndim, shape, ret);
}

/* ---- groups of dimensions ------------------------------------------ */

int dim_infer(const char *op, const struct tarn_layout *layout, int dim, int n,
	const int64_t *sizes, int64_t *out)
{
	char where[SHAPE_TEXT_MAX + 64];
	int r = shape_infer(
		op, layout->dtype, 1, &layout->shape[dim], n, sizes, out);

	if (r == 0)
		return 0;
	/* Once more, for a sentence that names the dimension. */
	snprintf(where, sizeof(where), "%s: dimension %d of shape %s", op, dim,
		LAYOUT_TEXT(layout));
	return shape_infer(
		where, layout->dtype, 1, &layout->shape[dim], n, sizes, out);
}

/* The shape in which dims first..last are one; a scalar becomes [1]. */
static int group_dims(const char *op, const struct tarn_layout *layout,
	int first, int last, int64_t *shape, int *ret_ndim)
{
	int64_t n = 1;
	int r;

	r = layout_dim_or_scalar(op, layout, first, &first);
	if (r == 0)
		r = layout_dim_or_scalar(op, layout, last, &last);
	if (r < 0)
		return r;
	if (first > last)
		return tarn_fail(EINVAL,
			"%s: dimension %d comes after dimension %d in shape "
			"%s",
			op, first, last, LAYOUT_TEXT(layout));
	if (layout->ndim == 0) {
		shape[0] = 1;
		*ret_ndim = 1;
		return 0;
	}
	r = layout_count(
		op, layout->dtype, last - first + 1, layout->shape + first, &n);
	if (r < 0)
		return r;
	for (int i = 0; i < first; i++)
		shape[i] = layout->shape[i];
	shape[first] = n;
	for (int i = last + 1; i < layout->ndim; i++)
		shape[i - (last - first)] = layout->shape[i];
	*ret_ndim = layout->ndim - (last - first);
	return 0;
}

/* Dims first to last as one, by a function that gives the others their shape. */
static int as_one(const char *op, const struct tarn_layout *layout, int first,
	int last,
	int (*give)(const char *op, const struct tarn_layout *layout, int ndim,
		const int64_t *shape, struct tarn_layout *ret),
	struct tarn_layout *ret)
{
	int64_t shape[TARN_NDIM_MAX];
	int ndim = 0;
	int r;

	r = group_dims(op, layout, first, last, shape, &ndim);
	if (r < 0)
		return r;
	if (ndim == layout->ndim) {
		*ret = *layout;
		return 0;
	}
	return give(op, layout, ndim, shape, ret);
}

int tarn_layout_flatten(const struct tarn_layout *layout, int first, int last,
	struct tarn_layout *ret)
{
	return as_one("flatten", layout, first, last, reshape_as, ret);
}

int tarn_layout_merge(const struct tarn_layout *layout, int first, int last,
	struct tarn_layout *ret)
{
	return as_one("merge", layout, first, last, view_as, ret);
}

int tarn_layout_split(const struct tarn_layout *layout, int dim, int n,
	const int64_t *sizes, struct tarn_layout *ret)
{
	int64_t wanted[TARN_NDIM_MAX], shape[TARN_NDIM_MAX];
	int r;

	r = layout_dim("split", layout, dim, &dim);
	if (r < 0)
		return r;
	if (n < 1)
		return tarn_fail(EINVAL,
			"split: dimension %d of shape %s needs a size or more",
			dim, LAYOUT_TEXT(layout));
	r = layout_check_ndim(
		"split", n > TARN_NDIM_MAX ? n : layout->ndim - 1 + n);
	if (r < 0)
		return r;
	/* 0 asks for an inferred size too, where it cannot be a size. */
	for (int i = 0; i < n; i++)
		wanted[i] = sizes[i] == 0 && layout->shape[dim] ? -1 : sizes[i];
	for (int i = 0; i < dim; i++)
		shape[i] = layout->shape[i];
	r = dim_infer("split", layout, dim, n, wanted, shape + dim);
	if (r < 0)
		return r;
	for (int i = dim + 1; i < layout->ndim; i++)
		shape[i - 1 + n] = layout->shape[i];
	return view_as("split", layout, layout->ndim - 1 + n, shape, ret);
}
