// SPDX-License-Identifier: MIT
/*
 * Tensors of other tensors' elements in other places: joined, padded, rolled, and
 * triangles of matrices. Each is copies from boxes to boxes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "ops/result.h"
#include "ops/threads.h"

#define LARGE (4 << 20) /* bytes for which threads are started */

/* A part of a tensor: extents from start on. */
static int box(const tarn_tensor *t, const int64_t *start,
	const int64_t *extent, tarn_tensor **ret)
{
	struct tarn_layout l = *tarn_tensor_layout(t);

	for (int i = 0; i < l.ndim; i++) {
		l.offset += start[i] * l.stride[i];
		l.shape[i] = extent[i];
	}
	if (!tarn_layout_numel(&l))
		l.offset = 0;
	return tarn_tensor_with_layout((tarn_tensor *)t, &l, ret);
}

static int copy(tarn_tensor *to, const tarn_tensor *from)
{
	const struct tarn_layout *l = tarn_tensor_layout(to);
	struct tarn_copy_options options = {0};

	if (tarn_layout_numel(l) * tarn_dtype_bits(l->dtype) / 8 >= LARGE)
		options.threads = threads_count();
	return tarn_copy(to, from, &options, NULL);
}

/* Copies a box of a tensor to a box of another. */
static int copy_box(const tarn_tensor *to, const int64_t *there,
	const tarn_tensor *from, const int64_t *here, const int64_t *extent)
{
	_cleanup_tensor_ tarn_tensor *dst = NULL, *src = NULL;
	int r = box(to, there, extent, &dst);

	if (r >= 0)
		r = box(from, here, extent, &src);
	return r < 0 ? r : copy(dst, src);
}

/* ---- one after the other -------------------------------------------------------- */

static int cat_shape(const tarn_tensor *const *tensors, size_t n, int *dim,
	struct tarn_layout *ret)
{
	const struct tarn_layout *first = tarn_tensor_layout(tensors[0]);
	int r = dim_of("cat", *dim, first->ndim, dim);

	if (r >= 0 && !first->ndim)
		r = tarn_error_set(EINVAL,
			"cat: the tensors have no dimensions; stack them");
	if (r < 0)
		return r;
	*ret = *first;
	for (size_t i = 1; i < n; i++) {
		const struct tarn_layout *l = tarn_tensor_layout(tensors[i]);
		bool fits = l->ndim == first->ndim;

		for (int j = 0; fits && j < l->ndim; j++)
			fits = j == *dim || l->shape[j] == first->shape[j];
		if (!fits)
			return tarn_error_set(EINVAL,
				"cat: tensor %zu is %s, and the first %s; but "
				"for dimension %d they must be the same",
				i, shape_words(l->ndim, l->shape).text,
				shape_words(first->ndim, first->shape).text,
				*dim);
		if (add_i64(ret->shape[*dim], l->shape[*dim],
			    &ret->shape[*dim]))
			return tarn_error_set(
				EINVAL, "cat: there are too many elements");
	}
	return 0;
}

static int check_places(
	const char *op, const tarn_tensor *const *tensors, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = refuse_device(op, tensors[i]);
	return r;
}

static int meet(
	const tarn_tensor *const *tensors, size_t n, enum tarn_dtype *ret)
{
	struct tarn_operand *operands = calloc(n, sizeof(*operands));
	int r;

	if (!operands)
		return tarn_error_set(
			ENOMEM, "cat: no memory for %zu tensors", n);
	for (size_t i = 0; i < n; i++)
		operands[i].tensor = tensors[i];
	r = tarn_result_dtype(operands, n, ret);
	free(operands);
	return r;
}

int tarn_cat(
	const tarn_tensor *const *tensors, size_t n, int dim, tarn_tensor **out)
{
	int64_t start[TARN_NDIM_MAX] = {0}, none[TARN_NDIM_MAX] = {0};
	struct tarn_layout shape;
	enum tarn_dtype dtype = TARN_DTYPE_NONE;
	struct result result;
	int r;

	if (!n)
		return tarn_error_set(EINVAL, "cat: there are no tensors");
	r = check_places("cat", tensors, n);
	if (r >= 0)
		r = cat_shape(tensors, n, &dim, &shape);
	if (r >= 0)
		r = meet(tensors, n, &dtype);
	if (r < 0)
		return r;
	r = result_begin_apart("cat", dtype, shape.ndim, shape.shape, tensors,
		n, out, &result);
	for (size_t i = 0; i < n && r >= 0; i++) {
		const int64_t *extent = tarn_tensor_layout(tensors[i])->shape;

		r = copy_box(result.work, start, tensors[i], none, extent);
		start[dim] += extent[dim];
	}
	return result_end(&result, r);
}

int tarn_stack(
	const tarn_tensor *const *tensors, size_t n, int dim, tarn_tensor **out)
{
	tarn_tensor **views = calloc(n + 1, sizeof(*views));
	int r = views ? 0 : -ENOMEM;
	size_t made = 0;

	if (r < 0)
		return tarn_error_set(
			ENOMEM, "stack: no memory for %zu tensors", n);
	r = check_places("stack", tensors, n);
	for (; made < n && r >= 0; made += r >= 0)
		r = tarn_tensor_unsqueeze(
			(tarn_tensor *)tensors[made], dim, &views[made]);
	if (r >= 0)
		r = tarn_cat((const tarn_tensor *const *)views, n, dim, out);
	while (made)
		tarn_tensor_unref(views[--made]);
	free(views);
	return r;
}

/* ---- padded --------------------------------------------------------------------- */

static int check_pads(const struct tarn_layout *l, int n,
	const int64_t (*pads)[2], enum tarn_pad_mode mode,
	struct tarn_layout *ret)
{
	if (n < 0 || n > l->ndim || (unsigned)mode > TARN_PAD_CIRCULAR)
		return tarn_error_set(EINVAL,
			"pad: %d dimensions of %d in mode %d; modes are 0 to "
			"%d",
			n, l->ndim, (int)mode, TARN_PAD_CIRCULAR);
	*ret = *l;
	for (int i = 0; i < n; i++) {
		int dim = l->ndim - n + i;
		int64_t extent = l->shape[dim],
			most = MAX(pads[i][0], pads[i][1]);
		int64_t limit = mode == TARN_PAD_REFLECT    ? extent - 1
				: mode == TARN_PAD_CIRCULAR ? extent
				: mode == TARN_PAD_CONSTANT || extent
					? INT64_MAX
					: 0;

		if (pads[i][0] < 0 || pads[i][1] < 0 || most > MAX(limit, 0))
			return tarn_error_set(EINVAL,
				"pad: dimension %d of extent %lld by %lld and "
				"%lld; in that mode 0 to %lld are possible",
				dim, (long long)extent, (long long)pads[i][0],
				(long long)pads[i][1],
				(long long)MAX(limit, 0));
		if (add_i64(extent, pads[i][0], &extent) ||
			add_i64(extent, pads[i][1], &ret->shape[dim]))
			return tarn_error_set(
				EINVAL, "pad: there are too many elements");
	}
	return 0;
}

/* The borders of one dimension, within those of the dimensions before it. */
static int fill_borders(const tarn_tensor *to, int dim, int64_t before,
	int64_t extent, int64_t *start, int64_t *size,
	const struct tarn_operand *value)
{
	int64_t all = size[dim];
	int r = 0;

	for (int side = 0; side < 2 && r >= 0; side++) {
		_cleanup_tensor_ tarn_tensor *border = NULL;

		start[dim] = side ? before + extent : 0;
		size[dim] = side ? all - start[dim] : before;
		r = box(to, start, size, &border);
		if (r >= 0 && size[dim])
			r = tensor_fill(border, value);
	}
	start[dim] = before;
	size[dim] = extent;
	return r;
}

static int pad_constant(const tarn_tensor *x, int n, const int64_t (*pads)[2],
	const struct tarn_operand *value, const struct tarn_layout *shape,
	tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	int64_t start[TARN_NDIM_MAX] = {0}, none[TARN_NDIM_MAX] = {0};
	int64_t size[TARN_NDIM_MAX];
	struct result result;
	int r = result_begin_apart("pad", l->dtype, shape->ndim, shape->shape,
		&x, 1, out, &result);

	memcpy(size, shape->shape, sizeof(size));
	for (int i = 0; i < n && r >= 0; i++) {
		int dim = l->ndim - n + i;

		r = fill_borders(result.work, dim, pads[i][0], l->shape[dim],
			start, size, value);
	}
	if (r >= 0)
		r = copy_box(result.work, start, x, none, l->shape);
	return result_end(&result, r);
}

static int64_t source_of(int64_t i, int64_t extent, enum tarn_pad_mode mode)
{
	if (mode == TARN_PAD_CIRCULAR)
		return i < 0 ? i + extent : i >= extent ? i - extent : i;
	if (mode == TARN_PAD_REPLICATE)
		return i < 0 ? 0 : MIN(i, extent - 1);
	return i < 0 ? -i : i >= extent ? 2 * (extent - 1) - i : i;
}

static int pad_dim(const tarn_tensor *x, int dim, const int64_t pad[2],
	enum tarn_pad_mode mode, tarn_tensor **out)
{
	int64_t extent = tarn_tensor_layout(x)->shape[dim];
	int64_t n = extent + pad[0] + pad[1], *at;
	_cleanup_tensor_ tarn_tensor *index = NULL;
	int r = result_new("pad", TARN_I64, 1, &n, &index);

	if (r < 0)
		return r;
	at = tarn_tensor_data(index);
	for (int64_t i = 0; i < n; i++)
		at[i] = source_of(i - pad[0], extent, mode);
	return tarn_index_select(x, dim, index, out);
}

int tarn_pad(const tarn_tensor *x, int n, const int64_t (*pads)[2],
	enum tarn_pad_mode mode, struct tarn_operand value, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	const int64_t none[1][2] = {{0, 0}};
	struct tarn_layout shape;
	tarn_tensor *last = NULL, *next;
	int r = dtype_check("pad", l->dtype);

	if (r >= 0)
		r = refuse_device("pad", x);
	if (r >= 0)
		r = check_pads(l, n, pads, mode, &shape);
	if (r >= 0 &&
		(value.tensor || (int)value.kind > (int)dtype_kind(l->dtype)))
		r = tarn_error_set(EINVAL,
			"pad: of %s with what is no number for it; cast the "
			"tensor",
			tarn_dtype_name(l->dtype));
	if (r >= 0)
		r = dtype_check_number("pad", l->dtype, &value);
	if (r < 0)
		return r;
	if (mode == TARN_PAD_CONSTANT || !l->ndim || !n)
		return pad_constant(x, l->ndim ? n : 0, n ? pads : none, &value,
			&shape, out);
	for (int i = 0; i < n - 1 && r >= 0; i++) {
		next = NULL;
		r = pad_dim(last ?: x, l->ndim - n + i, pads[i], mode, &next);
		if (r < 0)
			break;
		tarn_tensor_unref(last);
		last = next;
	}
	if (r >= 0)
		r = pad_dim(last ?: x, l->ndim - 1, pads[n - 1], mode, out);
	tarn_tensor_unref(last);
	return r;
}

/* ---- rolled --------------------------------------------------------------------- */

int tarn_roll(const tarn_tensor *x, int n, const int64_t *shifts,
	const int *dims, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	int64_t by[TARN_NDIM_MAX] = {0};
	struct result result;
	int dim, r = dtype_check("roll", l->dtype);

	if (r >= 0)
		r = refuse_device("roll", x);
	for (int i = 0; i < n && r >= 0; i++) {
		r = dim_of("roll", dims[i], l->ndim, &dim);
		if (r < 0 || !l->ndim || !l->shape[dim])
			continue;
		by[dim] =
			(by[dim] + shifts[i] % l->shape[dim] + l->shape[dim]) %
			l->shape[dim];
	}
	if (r < 0)
		return r;
	r = result_begin_apart(
		"roll", l->dtype, l->ndim, l->shape, &x, 1, out, &result);
	/* What goes over the end of a dimension is a box of its own. */
	for (unsigned part = 0; part < 1u << l->ndim && r >= 0; part++) {
		int64_t there[TARN_NDIM_MAX], here[TARN_NDIM_MAX];
		int64_t extent[TARN_NDIM_MAX];
		bool some = true;

		for (int i = 0; i < l->ndim; i++) {
			bool over = part >> i & 1;

			there[i] = over ? 0 : by[i];
			here[i] = over ? l->shape[i] - by[i] : 0;
			extent[i] = over ? by[i] : l->shape[i] - by[i];
			some = some && extent[i];
		}
		if (some)
			r = copy_box(result.work, there, x, here, extent);
	}
	return result_end(&result, r);
}

/* ---- triangles ------------------------------------------------------------------ */

/* Of a row: the elements that become 0. */
static void clear(
	char *row, int64_t stride, int64_t size, int64_t first, int64_t end)
{
	if (first >= end)
		return;
	if (stride == 1) {
		memset(row + first * size, 0, (size_t)((end - first) * size));
		return;
	}
	for (; first < end; first++)
		memset(row + first * stride * size, 0, (size_t)size);
}

static void clear_rows(tarn_tensor *t, bool lower, int64_t k)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	int64_t size = tarn_dtype_bits(l->dtype) / 8, rows = 1;
	int64_t n = l->shape[l->ndim - 1], m = l->shape[l->ndim - 2];
	char *data = tarn_tensor_data(t);

	for (int i = 0; i < l->ndim - 1; i++)
		rows *= l->shape[i];
	for (int64_t row = 0; row < rows; row++) {
		int64_t number = row, at = 0, edge;

		for (int i = l->ndim - 2; i >= 0; i--) {
			at += number % l->shape[i] * l->stride[i];
			number /= l->shape[i];
		}
		if (add_i64(row % m, k, &edge))
			edge = n;
		edge = MIN(MAX(edge + lower, 0), n);
		clear(data + at * size, l->stride[l->ndim - 1], size,
			lower ? edge : 0, lower ? n : edge);
	}
}

int tarn_triangle(enum tarn_triangle which, const tarn_tensor *x, int64_t k,
	tarn_tensor **out)
{
	const char *op = which == TARN_LOWER ? "tril" : "triu";
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_source_ struct source source = {0};
	struct result result;
	int r = source_open(op, x, &source);

	if (r >= 0 && ((unsigned)which > TARN_UPPER || l->ndim < 2))
		r = tarn_error_set(EINVAL,
			"triangle %d of %s: it must be TARN_LOWER or "
			"TARN_UPPER, of a matrix or a stack of them",
			(int)which, shape_words(l->ndim, l->shape).text);
	if (r < 0)
		return r;
	k = MIN(MAX(k, INT64_MIN / 2), INT64_MAX / 2);
	r = result_begin(op, l->dtype, l->ndim, l->shape, out, &result);
	if (r >= 0 && !result.made)
		r = source_part(&source, result.work);
	/* In place it is there already. */
	if (r >= 0 &&
		(result.made || !tensors_overlap(source.tensor, result.work)))
		r = copy(result.work, source.tensor);
	if (r >= 0 && tarn_layout_numel(l))
		clear_rows(result.work, which == TARN_LOWER, k);
	return result_end(&result, r);
}
