// SPDX-License-Identifier: MIT
/*
 * Views that reinterpret the strides: diagonal (two strides become their sum),
 * unfold (one stride serves two dimensions), bitcast (the same bits counted in
 * other elements).
 */
#include "lib/layout/layout.h"

int tarn_layout_diagonal(const struct tarn_layout *layout, int64_t k, int a,
	int b, struct tarn_layout *ret)
{
	struct tarn_layout out = *layout;
	int64_t rows, columns, n, stride;
	int r;

	r = layout_dim("diagonal", layout, a, &a);
	if (r == 0)
		r = layout_dim("diagonal", layout, b, &b);
	if (r < 0)
		return r;
	if (a == b)
		return tarn_fail(EINVAL,
			"diagonal: dimension %d of shape %s is named twice", a,
			LAYOUT_TEXT(layout));
	rows = layout->shape[a] + MIN(k, 0);
	columns = layout->shape[b] - MAX(k, 0);
	n = MAX(MIN(rows, columns), 0);
	/* Outside of the matrix the offset does not move, as in PyTorch. */
	if (n > 0)
		out.offset +=
			k >= 0 ? k * layout->stride[b] : -k * layout->stride[a];
	if (add_i64(layout->stride[a], layout->stride[b], &stride))
		stride = 0;
	layout_drop_dim(&out, MAX(a, b));
	layout_drop_dim(&out, MIN(a, b));
	layout_insert_dim(&out, out.ndim, n, stride);
	return view_checked("diagonal", &out, ret);
}

int tarn_layout_unfold(const struct tarn_layout *layout, int dim, int64_t size,
	int64_t step, struct tarn_layout *ret)
{
	struct tarn_layout out = *layout;
	bool scalar = layout->ndim == 0;
	int64_t n, stride, windows;
	int r;

	r = layout_dim_or_scalar("unfold", layout, dim, &dim);
	if (r == 0)
		r = layout_check_ndim("unfold", layout->ndim + 1);
	if (r < 0)
		return r;
	n = scalar ? 1 : layout->shape[dim];
	stride = scalar ? 1 : layout->stride[dim];
	if (step < 1)
		return tarn_fail(EINVAL, "unfold: step %lld is not positive",
			(long long)step);
	if (size < 0 || size > n)
		return tarn_fail(EINVAL,
			"unfold: a window of %lld does not fit into dimension "
			"%d of shape %s",
			(long long)size, dim, LAYOUT_TEXT(layout));
	/* Only an empty tensor has an extent as large as that. */
	if (add_i64((n - size) / step, 1, &windows))
		return tarn_fail(EOVERFLOW,
			"unfold: windows of %lld in dimension %d of shape %s "
			"are more than 2^63 - 1",
			(long long)size, dim, LAYOUT_TEXT(layout));
	if (!scalar) {
		out.shape[dim] = windows;
		out.stride[dim] = stride_times(stride, step);
	}
	layout_insert_dim(&out, out.ndim, size, stride);
	return view_checked("unfold", &out, ret);
}

/* ---- bitcast ------------------------------------------------------- */

/* n elements of from bits, counted in elements of to bits; true if that is
 * not a whole number. */
static bool recount(int64_t n, int from, int to, int64_t *ret)
{
	int64_t bits;

	if (mul_i64(n, from, &bits) || bits % to)
		return true;
	*ret = bits / to;
	return false;
}

static int fail_bitcast(
	const struct tarn_layout *l, int dtype, const char *what, int64_t value)
{
	return tarn_fail(EINVAL,
		"bitcast: %s %lld of %s with strides %s is no whole number of "
		"%s",
		what, (long long)value, LAYOUT_TEXT(l), STRIDE_TEXT(l),
		tarn_dtype_name(dtype));
}

int tarn_layout_bitcast(const struct tarn_layout *layout, enum tarn_dtype dtype,
	struct tarn_layout *ret)
{
	struct tarn_layout out = *layout;
	int from = tarn_dtype_bits(layout->dtype);
	int to = tarn_dtype_bits(dtype);
	int last = layout->ndim - 1;

	if (to == 0)
		return tarn_fail(
			EINVAL, "bitcast: there is no dtype %d", dtype);
	out.dtype = dtype;
	if (from == to)
		return view_checked("bitcast", &out, ret);
	if (layout->ndim == 0)
		return tarn_fail(EINVAL,
			"bitcast: rank 0 can change from %s only to a dtype "
			"of the same size, not %s",
			tarn_dtype_name(layout->dtype), tarn_dtype_name(dtype));
	if (layout->stride[last] != 1 && layout->shape[last] != 1 &&
		tarn_layout_numel(layout))
		return tarn_fail(EINVAL,
			"bitcast: the last dimension of %s has stride %lld; "
			"its elements must be adjacent",
			LAYOUT_TEXT(layout), (long long)layout->stride[last]);
	if (recount(layout->offset, from, to, &out.offset))
		return fail_bitcast(layout, dtype, "offset", layout->offset);
	if (recount(layout->shape[last], from, to, &out.shape[last]))
		return fail_bitcast(
			layout, dtype, "last dimension", layout->shape[last]);
	out.stride[last] = 1;
	for (int i = 0; i < last; i++) {
		if (!recount(layout->stride[i], from, to, &out.stride[i]))
			continue;
		if (layout->shape[i] > 1)
			return fail_bitcast(
				layout, dtype, "stride", layout->stride[i]);
		out.stride[i] = 0;
	}
	return view_checked("bitcast", &out, ret);
}
