// SPDX-License-Identifier: MIT
/*
 * Elements that are picked by lists of their numbers, and written by them. One
 * side is a tensor of any strides; the other is packed, in C order of the list.
 *
 * The list is copied before its numbers are checked: what another process makes
 * of it meanwhile does not matter. Those that are written are written by one
 * thread for each place, in the order of the list, so of duplicates the last
 * one stays.
 */
#include <errno.h>
#include <string.h>

#include <tarn/copy.h>

#include "base/checked.h"
#include "lib/move/move.h"
#include "ops/result.h"
#include "ops/select.h"
#include "ops/threads.h"

#define PART 65536 /* bytes that pay for a thread */

/* ---- operands ------------------------------------------------------------------- */

int numbers_open(const char *op, const tarn_tensor *index, int64_t extent,
	struct source *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(index);
	int64_t n = tarn_layout_numel(l), *at;
	tarn_tensor *copy;
	int r;

	*ret = (struct source) {0};
	if (dtype_kind(l->dtype) != KIND_INT)
		return tarn_error_set(EINVAL,
			"%s: the index is %s; it must be I64 or another "
			"integer",
			op, tarn_dtype_name(l->dtype));
	r = refuse_device(op, index);
	if (r >= 0)
		r = result_new(op, TARN_I64, l->ndim, l->shape, &copy);
	if (r < 0)
		return r;
	ret->copy = copy;
	ret->tensor = copy;
	r = tarn_copy(copy, index, NULL, NULL);
	at = tarn_tensor_data(copy);
	for (int64_t i = 0; i < n && r >= 0; i++) {
		if (at[i] < -extent || at[i] >= extent)
			r = tarn_error_set(ERANGE,
				"%s: number %lld of the index is %lld; there "
				"are %lld to select from",
				op, (long long)i, (long long)at[i],
				(long long)extent);
		at[i] += at[i] < 0 ? extent : 0;
	}
	if (r < 0)
		source_close(ret);
	return r;
}

static bool same_shape(
	const struct tarn_layout *l, int ndim, const int64_t *shape)
{
	bool same = l->ndim == ndim;

	for (int i = 0; same && i < ndim; i++)
		same = l->shape[i] == shape[i];
	return same;
}

/* A copy, of a number or of what is broadcast. */
static int expand(const char *op, const struct tarn_operand *operand,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	struct source *ret)
{
	tarn_tensor *copy;
	int r = result_new(op, dtype, ndim, shape, &copy);

	if (r < 0)
		return r;
	if (operand->tensor)
		r = tarn_copy(copy, operand->tensor, NULL, NULL);
	else
		r = tensor_fill(copy, operand);
	if (r < 0) {
		tarn_tensor_unref(copy);
		return r;
	}
	ret->copy = copy;
	ret->tensor = copy;
	return 0;
}

int operand_open(const char *op, const struct tarn_operand *operand,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const tarn_tensor *to, struct source *ret)
{
	const tarn_tensor *t = operand->tensor;
	enum kind kind = (enum kind)operand->kind;
	int r = 0;

	*ret = (struct source) {0};
	if (t) {
		kind = dtype_kind(tarn_tensor_layout(t)->dtype);
		r = dtype_check(op, tarn_tensor_layout(t)->dtype);
		if (r >= 0)
			r = refuse_device(op, t);
	} else {
		r = dtype_check_number(op, dtype, operand);
	}
	if (r >= 0 && kind > dtype_kind(dtype))
		r = tarn_error_set(EINVAL,
			"%s: %s cannot hold %s; cast one of them", op,
			tarn_dtype_name(dtype),
			t ? tarn_dtype_name(tarn_tensor_layout(t)->dtype)
			  : "that number");
	if (r < 0)
		return r;
	if (!t || !same_shape(tarn_tensor_layout(t), ndim, shape) ||
		tensors_overlap(t, to))
		return expand(op, operand, dtype, ndim, shape, ret);
	return source_open_plain(op, t, dtype, ret);
}

/* Sizes that are the compiler's to inline. */
static inline void copy_bytes(void *dst, const void *src, int64_t n)
{
	switch (n) {
	case 1:
		memcpy(dst, src, 1);
		break;
	case 2:
		memcpy(dst, src, 2);
		break;
	case 4:
		memcpy(dst, src, 4);
		break;
	case 8:
		memcpy(dst, src, 8);
		break;
	default:
		memcpy(dst, src, (size_t)n);
	}
}

/* ---- slices of one dimension ---------------------------------------------------- */

struct slices {
	const struct tarn_layout *l; /* of the tensor; its numbers are of dim */
	int dim;
	char *at, *packed; /* [outer][n], slices of so many bytes */
	int64_t size, outer, n, bytes;
	const int64_t *numbers;
	bool put, adjacent;
	struct move move; /* of a slice that is not adjacent */
	int64_t a_part;
};

static void slices_plan(struct slices *s)
{
	const struct tarn_layout *l = s->l;
	struct tarn_layout there = {.dtype = l->dtype}, packed;
	int64_t stride = 1;

	s->size = tarn_dtype_bits(l->dtype) / 8;
	s->outer = 1;
	for (int i = 0; i < s->dim; i++)
		s->outer *= l->shape[i];
	for (int i = s->dim + 1; i < l->ndim; i++) {
		there.shape[there.ndim] = l->shape[i];
		there.stride[there.ndim++] = l->stride[i];
	}
	packed = there;
	for (int i = there.ndim - 1; i >= 0; i--) {
		packed.stride[i] = stride;
		stride *= there.shape[i];
	}
	s->bytes = stride * s->size;
	s->adjacent = tarn_layout_is_contiguous(&there);
	if (!s->adjacent && move_plan(&s->move, s->put ? &there : &packed,
				    s->put ? &packed : &there, NULL) < 0)
		__builtin_unreachable(); /* the same dtype on both sides */
	s->a_part = MAX(PART / MAX(s->bytes, 1), 1);
	if (s->put)
		s->a_part = (s->a_part + s->n - 1) / s->n * s->n;
}

static char *outer_place(const struct slices *s, int64_t number)
{
	int64_t at = 0;

	for (int i = s->dim - 1; i >= 0; i--) {
		at += number % s->l->shape[i] * s->l->stride[i];
		number /= s->l->shape[i];
	}
	return s->at + at * s->size;
}

static void slice(const struct slices *s, char *there, char *packed)
{
	if (!s->adjacent)
		move_run(&s->move, s->put ? there : packed,
			s->put ? packed : there);
	else if (s->put)
		copy_bytes(there, packed, s->bytes);
	else
		copy_bytes(packed, there, s->bytes);
}

/* Elements alone, in a loop for their size. */
#define PICK(size)                                                             \
	for (int64_t j = 0; j < n; j++)                                        \
		memcpy(packed + j * (size), outer + numbers[j] * stride, size);

static void slices_line(const struct slices *s, char *outer,
	const int64_t *numbers, int64_t n, char *packed)
{
	int64_t stride = s->l->stride[s->dim] * s->size;

	if (!s->put && s->adjacent && s->bytes == 4) {
		PICK(4)
	} else if (!s->put && s->adjacent && s->bytes == 2) {
		PICK(2)
	} else if (!s->put && s->adjacent && s->bytes == 8) {
		PICK(8)
	} else {
		for (int64_t j = 0; j < n; j++)
			slice(s, outer + numbers[j] * stride,
				packed + j * s->bytes);
	}
}

static void slices_part(void *arg, size_t part)
{
	const struct slices *s = arg;
	int64_t i = (int64_t)part * s->a_part;
	int64_t end = MIN(i + s->a_part, s->outer * s->n);

	while (i < end) {
		int64_t j = i % s->n, n = MIN(s->n - j, end - i);

		slices_line(s, outer_place(s, i / s->n), s->numbers + j, n,
			s->packed + i * s->bytes);
		i += n;
	}
}

static void slices_run(struct slices *s)
{
	int64_t n;

	if (!s->n)
		return;
	slices_plan(s);
	n = s->bytes ? s->outer * s->n : 0;
	threads_run((size_t)((n + s->a_part - 1) / s->a_part), slices_part, s);
}

static int dim_with_numbers(
	const char *op, const tarn_tensor *x, int dim, int *ret)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);

	if (!l->ndim)
		return tarn_error_set(EINVAL,
			"%s: the tensor has no dimensions to select from", op);
	return dim_of(op, dim, l->ndim, ret);
}

/* dim becomes the dimensions of the index. */
static int selected_shape(const char *op, const struct tarn_layout *l, int dim,
	const struct tarn_layout *index, struct tarn_layout *ret)
{
	int rest = l->ndim - dim - 1, ndim = dim + index->ndim + rest;

	if (ndim > TARN_NDIM_MAX)
		return tarn_error_set(EINVAL,
			"%s: the result would have %d dimensions; %d are "
			"possible",
			op, ndim, TARN_NDIM_MAX);
	*ret = *l;
	ret->ndim = (uint8_t)ndim;
	for (int i = 0; i < index->ndim; i++)
		ret->shape[dim + i] = index->shape[i];
	for (int i = 0; i < rest; i++)
		ret->shape[dim + index->ndim + i] = l->shape[dim + 1 + i];
	return 0;
}

int tarn_index_select(const tarn_tensor *x, int dim, const tarn_tensor *index,
	tarn_tensor **out)
{
	const char *op = "index_select";
	const tarn_tensor *operands[2] = {x, index};
	_cleanup_source_ struct source source = {0}, numbers = {0};
	struct tarn_layout shape;
	struct result result;
	struct slices s = {.l = tarn_tensor_layout(x)};
	int r = dim_with_numbers(op, x, dim, &s.dim);

	if (r >= 0)
		r = source_open(op, x, &source);
	if (r >= 0)
		r = selected_shape(
			op, s.l, s.dim, tarn_tensor_layout(index), &shape);
	if (r >= 0)
		r = numbers_open(op, index, s.l->shape[s.dim], &numbers);
	if (r < 0)
		return r;
	r = result_begin_plain(op, s.l->dtype, shape.ndim, shape.shape,
		operands, 2, out, &result);
	if (r >= 0) {
		s.l = tarn_tensor_layout(source.tensor);
		s.at = tarn_tensor_data(source.tensor);
		s.packed = tarn_tensor_data(result.work);
		s.n = tarn_layout_numel(tarn_tensor_layout(numbers.tensor));
		s.numbers = tarn_tensor_data(numbers.tensor);
		slices_run(&s);
	}
	return result_end(&result, r);
}

int tarn_index_put(tarn_tensor *dst, int dim, const tarn_tensor *index,
	struct tarn_operand src)
{
	const char *op = "index_put";
	_cleanup_source_ struct source source = {0}, numbers = {0};
	struct tarn_layout shape;
	struct result result;
	struct slices s = {.l = tarn_tensor_layout(dst), .put = true};
	int r = dtype_check(op, s.l->dtype);

	if (r >= 0)
		r = dim_with_numbers(op, dst, dim, &s.dim);
	if (r >= 0)
		r = selected_shape(
			op, s.l, s.dim, tarn_tensor_layout(index), &shape);
	if (r >= 0)
		r = result_begin(
			op, s.l->dtype, s.l->ndim, s.l->shape, &dst, &result);
	if (r >= 0)
		r = numbers_open(op, index, s.l->shape[s.dim], &numbers);
	if (r >= 0)
		r = operand_open(op, &src, s.l->dtype, shape.ndim, shape.shape,
			dst, &source);
	if (r < 0)
		return r;
	s.at = tarn_tensor_data(dst);
	s.packed = tarn_tensor_data(source.tensor);
	s.n = tarn_layout_numel(tarn_tensor_layout(numbers.tensor));
	s.numbers = tarn_tensor_data(numbers.tensor);
	slices_run(&s);
	return 0;
}

int tarn_take(const tarn_tensor *x, const tarn_tensor *index, tarn_tensor **out)
{
	const struct tarn_layout *l = tarn_tensor_layout(x);
	_cleanup_source_ struct source plain = {0};
	_cleanup_tensor_ tarn_tensor *flat = NULL;
	struct tarn_layout line = {.ndim = 1, .stride = {1}};
	int r = source_open_plain("take", x, l->dtype, &plain);

	if (r < 0)
		return r;
	line.dtype = l->dtype;
	line.offset = tarn_tensor_layout(plain.tensor)->offset;
	line.shape[0] = tarn_layout_numel(l);
	r = tarn_tensor_with_layout((tarn_tensor *)plain.tensor, &line, &flat);
	return r < 0 ? r : tarn_index_select(flat, 0, index, out);
}

/* ---- elements along a dimension ------------------------------------------------- */

struct elements {
	const struct tarn_layout *l, *index;
	int dim;
	char *at, *packed;
	const int64_t *numbers;
	int64_t size, rows, n, a_part;
	bool put;
};

/* A row of the index's last dimension. */
static void elements_row(const struct elements *e, int64_t row)
{
	int last = e->index->ndim - 1;
	int64_t along = e->l->stride[e->dim] * e->size, at = 0, number = row;
	int64_t step = last == e->dim ? 0 : e->l->stride[last] * e->size;
	const int64_t *numbers = e->numbers + row * e->n;
	char *packed = e->packed + row * e->n * e->size, *there;

	for (int i = last - 1; i >= 0; i--) {
		if (i != e->dim)
			at += number % e->index->shape[i] * e->l->stride[i];
		number /= e->index->shape[i];
	}
	there = e->at + at * e->size;
	for (int64_t i = 0; i < e->n; i++, there += step) {
		char *element = there + numbers[i] * along;

		if (e->put)
			copy_bytes(element, packed + i * e->size, e->size);
		else
			copy_bytes(packed + i * e->size, element, e->size);
	}
}

static void elements_part(void *arg, size_t part)
{
	const struct elements *e = arg;
	int64_t row = (int64_t)part * e->a_part;
	int64_t end = MIN(row + e->a_part, e->rows);

	for (; row < end; row++)
		elements_row(e, row);
}

static void elements_run(struct elements *e)
{
	int64_t all = tarn_layout_numel(e->index);

	if (!all)
		return;
	e->size = tarn_dtype_bits(e->l->dtype) / 8;
	e->n = e->index->shape[e->index->ndim - 1];
	e->rows = all / e->n;
	e->a_part = MAX(PART / (e->n * e->size), 1);
	if (e->put) /* places of duplicates are anywhere */
		e->a_part = e->rows;
	threads_run((size_t)((e->rows + e->a_part - 1) / e->a_part),
		elements_part, e);
}

static int check_index(const char *op, const struct tarn_layout *l,
	const struct tarn_layout *index, int dim)
{
	bool fits = l->ndim == index->ndim;

	for (int i = 0; fits && i < l->ndim; i++)
		fits = i == dim || index->shape[i] <= l->shape[i];
	if (fits)
		return 0;
	return tarn_error_set(EINVAL,
		"%s: the index is %s and the tensor %s; but for dimension %d "
		"it must lie within that",
		op, shape_words(index->ndim, index->shape).text,
		shape_words(l->ndim, l->shape).text, dim);
}

int tarn_take_along(const tarn_tensor *x, int dim, const tarn_tensor *index,
	tarn_tensor **out)
{
	const char *op = "take_along";
	const tarn_tensor *operands[2] = {x, index};
	_cleanup_source_ struct source source = {0}, numbers = {0};
	struct result result;
	struct elements e = {
		.l = tarn_tensor_layout(x), .index = tarn_tensor_layout(index)};
	int r = dim_with_numbers(op, x, dim, &e.dim);

	if (r >= 0)
		r = check_index(op, e.l, e.index, e.dim);
	if (r >= 0)
		r = source_open(op, x, &source);
	if (r >= 0)
		r = numbers_open(op, index, e.l->shape[e.dim], &numbers);
	if (r < 0)
		return r;
	r = result_begin_plain(op, e.l->dtype, e.index->ndim, e.index->shape,
		operands, 2, out, &result);
	if (r >= 0) {
		e.l = tarn_tensor_layout(source.tensor);
		e.at = tarn_tensor_data(source.tensor);
		e.packed = tarn_tensor_data(result.work);
		e.numbers = tarn_tensor_data(numbers.tensor);
		elements_run(&e);
	}
	return result_end(&result, r);
}

int tarn_put_along(tarn_tensor *dst, int dim, const tarn_tensor *index,
	struct tarn_operand src)
{
	const char *op = "put_along";
	_cleanup_source_ struct source source = {0}, numbers = {0};
	struct result result;
	struct elements e = {.l = tarn_tensor_layout(dst),
		.index = tarn_tensor_layout(index),
		.put = true};
	int r = dtype_check(op, e.l->dtype);

	if (r >= 0)
		r = dim_with_numbers(op, dst, dim, &e.dim);
	if (r >= 0)
		r = check_index(op, e.l, e.index, e.dim);
	if (r >= 0)
		r = result_begin(
			op, e.l->dtype, e.l->ndim, e.l->shape, &dst, &result);
	if (r >= 0)
		r = numbers_open(op, index, e.l->shape[e.dim], &numbers);
	if (r >= 0)
		r = operand_open(op, &src, e.l->dtype, e.index->ndim,
			e.index->shape, dst, &source);
	if (r < 0)
		return r;
	e.at = tarn_tensor_data(dst);
	e.packed = tarn_tensor_data(source.tensor);
	e.numbers = tarn_tensor_data(numbers.tensor);
	elements_run(&e);
	return 0;
}
