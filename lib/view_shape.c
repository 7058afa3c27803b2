// SPDX-License-Identifier: MIT
/*
 * Views that add, drop or repeat dimensions of one element: unsqueeze,
 * squeeze, expand, broadcast. The strides of extents of 1 are PyTorch's
 * (size times stride of the next dimension), though nothing depends on them.
 */
#include "lib/layout.h"

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

/* One dimension of expand: what was n (1 where it is new) becomes wanted. */
static int expand_dim(const struct tarn_layout *layout, int d, int new_d,
	int64_t wanted, struct tarn_layout *out)
{
	bool is_new = d < 0;
	int64_t n = is_new ? 1 : layout->shape[d];

	if (wanted == -1 && !is_new)
		wanted = n;
	if (wanted < 0)
		return tarn_fail(EINVAL,
			is_new ? "expand: size %lld of new dimension %d: a "
				 "dimension that is new needs a size"
			       : "expand: size %lld of dimension %d is neither "
				 "a size nor -1",
			(long long)wanted, new_d);
	if (wanted != n && n != 1)
		return tarn_fail(EINVAL,
			"expand: dimension %d of shape %s has %lld elements; "
			"only 1 can be expanded to %lld",
			d, LAYOUT_TEXT(layout), (long long)n,
			(long long)wanted);
	out->shape[new_d] = wanted;
	if (wanted != n)
		out->stride[new_d] = 0;
	else if (!is_new)
		out->stride[new_d] = layout->stride[d];
	else if (new_d + 1 < out->ndim)
		out->stride[new_d] = stride_times(
			out->shape[new_d + 1], out->stride[new_d + 1]);
	else
		out->stride[new_d] = 1;
	return 0;
}

static int expand_to(const char *op, const struct tarn_layout *layout, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	struct tarn_layout out = {
		.dtype = layout->dtype,
		.ndim = ndim,
		.offset = layout->offset,
	};
	int64_t numel;
	int r;

	for (int i = ndim - 1; i >= 0; i--) {
		r = expand_dim(
			layout, i - (ndim - layout->ndim), i, shape[i], &out);
		if (r < 0)
			return r;
	}
	/* Strides of 0 reach no further, but there may be too many elements. */
	r = layout_count(op, out.dtype, ndim, out.shape, &numel);
	return r < 0 ? r : view_reaching(op, &out, ret);
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
	int n, const struct tarn_layout *layouts, struct tarn_layout *rets)
{
	int64_t shape[TARN_MAX_NDIM];
	struct tarn_layout out;
	int ndim = 0;
	int r;

	for (int i = 0; i < n; i++)
		ndim = MAX(ndim, layouts[i].ndim);
	for (int d = 0; d < ndim; d++)
		shape[d] = 1;
	for (int i = 0; i < n; i++) {
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
	for (int i = 0; i < n; i++) {
		r = expand_to("broadcast", &layouts[i], ndim, shape, &out);
		if (r < 0)
			return r;
	}
	for (int i = 0; i < n; i++) {
		r = expand_to("broadcast", &layouts[i], ndim, shape, &rets[i]);
		if (r < 0)
			return r;
	}
	return 0;
}
