// SPDX-License-Identifier: MIT
/*
 * Views that change the order in which dimensions are walked: permute,
 * transpose, flip. Extents and strides travel together; the reach stays the
 * same.
 */
#include "lib/layout/layout.h"

static int fail_permute(const struct tarn_layout *layout, int ndim,
	const int *dims, const char *why)
{
	int64_t wide[TARN_NDIM_MAX];

	for (int i = 0; i < MIN(ndim, TARN_NDIM_MAX); i++)
		wide[i] = dims[i];
	return tarn_fail(EINVAL,
		"permute: %s is no order of the %d dimensions "
		"of shape %s: %s",
		SHAPE_TEXT(ndim, wide), layout->ndim, LAYOUT_TEXT(layout), why);
}

int tarn_layout_permute(const struct tarn_layout *layout, int ndim,
	const int *dims, struct tarn_layout *ret)
{
	struct tarn_layout spare, before, *out;
	int order[TARN_NDIM_MAX];
	unsigned int seen = 0;

	if (ndim != layout->ndim)
		return fail_permute(layout, ndim, dims, "the numbers differ");
	for (int i = 0; i < ndim; i++) {
		int d = 0;
		int r = layout_dim("permute", layout, dims[i], &d);

		if (r < 0)
			return r;
		if (seen & (1u << d))
			return fail_permute(
				layout, ndim, dims, "one is named twice");
		seen |= 1u << d;
		order[i] = d;
	}
	if (layout == ret) {
		before = *layout;
		layout = &before;
	}
	out = view_begin(layout, ret, &spare);
	for (int i = 0; i < ndim; i++) {
		out->shape[i] = layout->shape[order[i]];
		out->stride[i] = layout->stride[order[i]];
	}
	return view_end("permute", out, ret);
}

int tarn_layout_transpose(
	const struct tarn_layout *layout, int a, int b, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int64_t n, stride;
	int r;

	r = layout_dim_or_scalar("transpose", layout, a, &a);
	if (r == 0)
		r = layout_dim_or_scalar("transpose", layout, b, &b);
	if (r < 0)
		return r;
	out = view_begin(layout, ret, &spare);
	n = out->shape[a];
	stride = out->stride[a];
	out->shape[a] = out->shape[b];
	out->stride[a] = out->stride[b];
	out->shape[b] = n;
	out->stride[b] = stride;
	return view_end("transpose", out, ret);
}

int tarn_layout_flip(
	const struct tarn_layout *layout, int dim, struct tarn_layout *ret)
{
	struct tarn_layout spare, *out;
	int r;

	r = layout_dim_or_scalar("flip", layout, dim, &dim);
	if (r < 0)
		return r;
	out = view_begin(layout, ret, &spare);
	/* As numpy: without elements there is no last one to begin at. */
	if (out->shape[dim] > 0) {
		int64_t stride = out->stride[dim];

		if (out->shape[dim] > 1)
			out->offset += (out->shape[dim] - 1) * stride;
		out->stride[dim] = stride_times(stride, -1);
	}
	return view_end("flip", out, ret);
}
