// SPDX-License-Identifier: MIT
/*
 * Views that add, drop or repeat dimensions of one element: unsqueeze,
 * squeeze, expand, broadcast. The strides of extents of 1 are PyTorch's
 * (size times stride of the next dimension), though nothing depends on them.
 */
#include "lib/layout/layout.h"

int tarn_layout_unsqueeze(
	const struct tarn_layout *layout, int dim, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int ndim = layout->ndim;
	int d = dim < 0 ? dim + ndim + 1 : dim;
	int64_t stride = 1;
	int r;

	r = layout_check_ndim("unsqueeze", ndim + 1);
	if (r < 0)
		return r;
	if (d < 0 || d > ndim)
		return tarn_fail(EINVAL,
			"unsqueeze: dimension %d is not one of the %d that "
			"shape %s would have (%d to %d)",
			dim, ndim + 1, LAYOUT_TEXT(layout), -ndim - 1, ndim);
	if (d < ndim)
		stride = stride_times(layout->shape[d], layout->stride[d]);
	out = view_begin(layout, ret, &spare);
	layout_insert_dim(out, d, 1, stride);
	return view_end("unsqueeze", out, ret);
}

int tarn_layout_squeeze(
	const struct tarn_layout *layout, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out = view_begin(layout, ret, &spare);
	int n = 0;

	for (int i = 0; i < out->ndim; i++) {
		if (out->shape[i] == 1)
			continue;
		out->shape[n] = out->shape[i];
		out->stride[n] = out->stride[i];
		n++;
	}
	for (int i = n; i < out->ndim; i++)
		out->shape[i] = out->stride[i] = 0;
	out->ndim = n;
	return view_end("squeeze", out, ret);
}

int tarn_layout_squeeze_dim(
	const struct tarn_layout *layout, int dim, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int r;

	r = layout_dim_or_scalar("squeeze", layout, dim, &dim);
	if (r < 0)
		return r;
	out = view_begin(layout, ret, &spare);
	if (out->ndim && out->shape[dim] == 1)
		layout_drop_dim(out, dim);
	return view_end("squeeze", out, ret);
}

/* The size of one dimension of expand, for the requested size wanted; the input
 * has n there (1 if the dimension is new, d < 0). */
static int expand_size(const struct tarn_layout *layout, int d, int new_d,
	int64_t n, int64_t *wanted)
{
	if (*wanted == -1 && d >= 0)
		*wanted = n;
	if (*wanted < 0)
		return tarn_fail(EINVAL,
			d < 0 ? "expand: size %lld of new dimension %d: a "
				"dimension that is new needs a size"
			      : "expand: size %lld of dimension %d is neither "
				"a size nor -1",
			(long long)*wanted, new_d);
	if (*wanted != n && n != 1)
		return tarn_fail(EINVAL,
			"expand: dimension %d of shape %s has %lld elements; "
			"only 1 can be expanded to %lld",
			d, LAYOUT_TEXT(layout), (long long)n,
			(long long)*wanted);
	return 0;
}

/* Strides of 0 reach no further, but there may be too many elements. */
static int expand_end(const char *op, const struct tarn_layout *layout,
	int ndim, const int64_t *sizes, const int64_t *stride,
	struct tarn_layout *ret)
{
	struct tarn_layout out;
	int64_t numel;
	int r = layout_count(op, layout->dtype, ndim, sizes, &numel);

	if (r < 0)
		return r;
	if (!dtype_is_packed(layout->dtype)) {
		layout_write(ret, layout->dtype, ndim, layout->offset, sizes,
			stride);
		return 0;
	}
	layout_write(&out, layout->dtype, ndim, layout->offset, sizes, stride);
	return view_reaching(op, &out, ret);
}

static int expand_to(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	int64_t sizes[TARN_NDIM_MAX], stride[TARN_NDIM_MAX];

	for (int i = ndim - 1; i >= 0; i--) {
		int d = i - (ndim - layout->ndim);
		int64_t n = d < 0 ? 1 : layout->shape[d], size = shape[i];

		if (size != n) {
			int r = expand_size(layout, d, i, n, &size);

			if (r < 0)
				return r;
		}
		sizes[i] = size;
		if (size != n)
			stride[i] = 0;
		else if (d >= 0)
			stride[i] = layout->stride[d];
		else if (i + 1 < ndim)
			stride[i] = stride_times(sizes[i + 1], stride[i + 1]);
		else
			stride[i] = 1;
	}
	return expand_end(op, layout, ndim, sizes, stride, ret);
}

int tarn_layout_expand(const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	int r;

	r = layout_check_ndim("expand", ndim);
	if (r < 0)
		return r;
	if (ndim < layout->ndim)
		return tarn_fail(EINVAL,
			"expand: %s has fewer dimensions than shape %s",
			SHAPE_TEXT(ndim, shape), LAYOUT_TEXT(layout));
	return expand_to("expand", layout, ndim, shape, ret);
}

int tarn_layout_broadcast(
	const struct tarn_layout *layouts, size_t n, struct tarn_layout *rets)
{
	int64_t shape[TARN_NDIM_MAX];
	struct tarn_layout out;
	int ndim = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		ndim = MAX(ndim, layouts[i].ndim);
	for (int d = 0; d < ndim; d++)
		shape[d] = 1;
	for (size_t i = 0; i < n; i++) {
		int front = ndim - layouts[i].ndim;

		for (int d = front; d < ndim; d++) {
			int64_t size = layouts[i].shape[d - front];

			if (shape[d] == 1)
				shape[d] = size;
			else if (size != 1 && size != shape[d])
				return tarn_fail(EINVAL,
					"broadcast: shape %s does not fit %s "
					"in the dimension that has %lld and "
					"%lld",
					LAYOUT_TEXT(&layouts[i]),
					SHAPE_TEXT(ndim, shape),
					(long long)size, (long long)shape[d]);
		}
	}
	/* First all of them, so that a failure leaves rets untouched. */
	for (size_t i = 0; i < n; i++) {
		r = expand_to("broadcast", &layouts[i], ndim, shape, &out);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		r = expand_to("broadcast", &layouts[i], ndim, shape, &rets[i]);
		if (r < 0)
			return r;
	}
	return 0;
}
