// SPDX-License-Identifier: MIT
/*
 * Layouts: making and checking them.
 *
 * Sizes are checked here, once, when a layout is made; every view of it then
 * only shrinks or reorders its reach, so views need no checks of their own
 * (lib/layout/layout.h has the reason).
 */
#include "lib/layout/layout.h"

int layout_check_ndim(const char *op, int ndim)
{
	if (ndim >= 0 && ndim <= TARN_NDIM_MAX)
		return 0;
	return tarn_fail(EINVAL,
		"%s: a layout has 0 to %d dimensions, and this would have %d",
		op, TARN_NDIM_MAX, ndim);
}

int layout_fail_dim(const char *op, const struct tarn_layout *layout, int dim)
{
	if (layout->ndim == 0)
		return tarn_fail(EINVAL,
			"%s: there is no dimension %d in a tensor of rank 0",
			op, dim);
	return tarn_fail(EINVAL,
		"%s: there is no dimension %d in shape %s (%d to %d)", op, dim,
		LAYOUT_TEXT(layout), -layout->ndim, layout->ndim - 1);
}

int layout_count(
	const char *op, int dtype, int ndim, const int64_t *shape, int64_t *ret)
{
	int bits = tarn_dtype_bits(dtype);
	bool too_many = false;
	bool empty = false;
	int64_t n = 1;
	int64_t unused;

	if (bits == 0)
		return tarn_fail(EINVAL, "%s: there is no dtype %d", op, dtype);
	for (int i = 0; i < ndim; i++) {
		if (shape[i] < 0)
			return tarn_fail(EINVAL,
				"%s: size %lld of dimension %d is negative", op,
				(long long)shape[i], i);
		if (shape[i] == 0)
			empty = true;
		else if (mul_i64(n, shape[i], &n))
			too_many = true;
	}
	if (!empty && (too_many || mul_i64(n, bits, &unused)))
		return tarn_fail(EOVERFLOW,
			"%s: shape %s of %s has more bits than 2^63", op,
			SHAPE_TEXT(ndim, shape), tarn_dtype_name(dtype));
	*ret = empty ? 0 : n;
	return 0;
}

/* first and last element; true when either does not fit. */
static bool layout_reach(
	const struct tarn_layout *l, int64_t *ret_first, int64_t *ret_last)
{
	int64_t first = l->offset;
	int64_t last = l->offset;
	int64_t span;

	for (int i = 0; i < l->ndim; i++) {
		if (l->shape[i] < 2 || l->stride[i] == 0)
			continue;
		if (mul_i64(l->shape[i] - 1, l->stride[i], &span))
			return true;
		if (span < 0 ? add_i64(first, span, &first)
			     : add_i64(last, span, &last))
			return true;
	}
	*ret_first = first;
	*ret_last = last;
	return false;
}

int layout_check_packs(const char *op, const struct tarn_layout *l)
{
	int64_t pack = tarn_dtype_pack(l->dtype);
	const char *name = tarn_dtype_name(l->dtype);
	bool innermost = true;

	if (pack == 1 || tarn_layout_numel(l) == 0)
		return 0;
	if (l->offset % pack)
		return tarn_fail(ENOTSUP,
			"%s: offset %lld would begin inside a byte of %s; it "
			"must be a multiple of %lld",
			op, (long long)l->offset, name, (long long)pack);
	for (int i = l->ndim - 1; i >= 0; i--) {
		int64_t n = l->shape[i], stride = l->stride[i];

		if (n == 1)
			continue;
		if (innermost && (stride != 1 || n % pack))
			return tarn_fail(ENOTSUP,
				"%s: the last dimension of %s would have %lld "
				"elements with stride %lld; %s needs stride 1 "
				"and a multiple of %lld",
				op, LAYOUT_TEXT(l), (long long)n,
				(long long)stride, name, (long long)pack);
		if (!innermost && stride % pack)
			return tarn_fail(ENOTSUP,
				"%s: stride %lld of dimension %d would step "
				"into a byte of %s; it must be a multiple of "
				"%lld",
				op, (long long)stride, i, name,
				(long long)pack);
		innermost = false;
	}
	if (innermost)
		return tarn_fail(ENOTSUP,
			"%s: one element of %s is not a whole byte", op, name);
	return 0;
}

int layout_check(const char *op, const struct tarn_layout *l)
{
	int bits = tarn_dtype_bits(l->dtype);
	int64_t numel, first, last, unused;
	int r;

	r = layout_count(op, l->dtype, l->ndim, l->shape, &numel);
	if (r < 0)
		return r;
	if (layout_reach(l, &first, &last) || sub_i64(last, first, &unused) ||
		add_i64(unused, 1, &unused) || mul_i64(unused, bits, &unused) ||
		mul_i64(first, bits, &unused) || mul_i64(last, bits, &unused))
		return tarn_fail(EOVERFLOW,
			"%s: shape %s with strides %s and offset %lld reaches "
			"past 2^63 bits",
			op, LAYOUT_TEXT(l), STRIDE_TEXT(l),
			(long long)l->offset);
	return layout_check_packs(op, l);
}

int tarn_layout_check(const struct tarn_layout *layout)
{
	static const uint8_t zero[sizeof(layout->reserved)];
	int r;

	if (layout->ndim > TARN_NDIM_MAX)
		return layout_check_ndim("layout", layout->ndim);
	if (memcmp(layout->reserved, zero, sizeof(zero)) != 0)
		return tarn_fail(EINVAL, "layout: reserved bytes are not 0");
	r = layout_check("layout", layout);
	if (r < 0)
		return r;
	for (int i = layout->ndim; i < TARN_NDIM_MAX; i++)
		if (layout->shape[i] || layout->stride[i])
			return tarn_fail(EINVAL,
				"layout: entry %d is past rank %d and not 0", i,
				layout->ndim);
	return 0;
}

void layout_fill_contiguous(struct tarn_layout *l)
{
	int bits = tarn_dtype_bits(l->dtype);
	int64_t step = 1;

	for (int i = l->ndim - 1; i >= 0; i--) {
		int64_t next = stride_times(step, MAX(l->shape[i], 1));

		/* In bits, because the number of bits must fit. */
		if (stride_times(next, bits) == 0)
			step = next = 0;
		l->stride[i] = step;
		step = next;
	}
}

static void layout_fill_fortran(struct tarn_layout *l)
{
	int bits = tarn_dtype_bits(l->dtype);
	int64_t step = 1;

	for (int i = 0; i < l->ndim; i++) {
		int64_t next = stride_times(step, MAX(l->shape[i], 1));

		if (stride_times(next, bits) == 0)
			step = next = 0;
		l->stride[i] = step;
		step = next;
	}
}

/* Shared by the makers: a layout with a shape and nothing else. */
static int layout_begin(const char *op, int dtype, int ndim,
	const int64_t *shape, int64_t *ret_numel, struct tarn_layout *ret)
{
	int r = layout_check_ndim(op, ndim);

	if (r < 0)
		return r;
	r = layout_count(op, dtype, ndim, shape, ret_numel);
	if (r < 0)
		return r;
	memset(ret, 0, sizeof(*ret));
	ret->dtype = dtype;
	ret->ndim = ndim;
	if (ndim)
		memcpy(ret->shape, shape, ndim * sizeof(*shape));
	return 0;
}

bool layout_write_contiguous(int dtype, int ndim, const int64_t *shape,
	struct tarn_layout *ret, uint64_t *ret_size)
{
	int64_t stride[TARN_NDIM_MAX], n = 1;
	int bits = tarn_dtype_bits(dtype);

	if (ndim < 0 || ndim > TARN_NDIM_MAX || bits < 8)
		return false;
	for (int i = ndim - 1; i >= 0; i--) {
		stride[i] = n;
		if (shape[i] <= 0 || mul_i64(n, shape[i], &n))
			return false;
	}
	if (mul_i64(n, bits, &n))
		return false;
	*ret_size = (uint64_t)n / 8;
	layout_write(ret, dtype, ndim, 0, shape, stride);
	return true;
}

int layout_contiguous(const char *op, enum tarn_dtype dtype, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	struct tarn_layout out;
	uint64_t size;
	int64_t numel;
	int r;

	if (layout_write_contiguous(dtype, ndim, shape, ret, &size))
		return 0;
	r = layout_begin(op, dtype, ndim, shape, &numel, &out);
	if (r < 0)
		return r;
	layout_fill_contiguous(&out);
	if (numel == 0)
		return view_checked(op, &out, ret);
	/* It reaches 0 to numel - 1, whose bits were counted: in reach. */
	r = layout_check_packs(op, &out);
	if (r >= 0)
		*ret = out;
	return r;
}

int tarn_layout_contiguous(enum tarn_dtype dtype, int ndim,
	const int64_t *shape, struct tarn_layout *ret)
{
	return layout_contiguous("contiguous", dtype, ndim, shape, ret);
}

int tarn_layout_fortran(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	struct tarn_layout *ret)
{
	struct tarn_layout out;
	int64_t numel;
	int r;

	r = layout_begin("fortran", dtype, ndim, shape, &numel, &out);
	if (r < 0)
		return r;
	layout_fill_fortran(&out);
	return view_checked("fortran", &out, ret);
}

int tarn_layout_strided(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const int64_t *stride, int64_t offset, struct tarn_layout *ret)
{
	struct tarn_layout out;
	int64_t numel;
	int r;

	r = layout_begin("strided", dtype, ndim, shape, &numel, &out);
	if (r < 0)
		return r;
	out.offset = offset;
	if (ndim)
		memcpy(out.stride, stride, ndim * sizeof(*stride));
	return view_checked("strided", &out, ret);
}
