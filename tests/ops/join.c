// SPDX-License-Identifier: MIT
/*
 * Elements in other places, beside plain loops: tensors one after the other,
 * stacked, padded, rolled, sorted, and triangles of matrices, of any strides,
 * to destinations that are views, with one thread and with two.
 */
#include <tarn/ops.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"
#include "tests/ops/tensors.h"

static const enum tarn_dtype dtypes[] = {TARN_BOOL, TARN_U8, TARN_I8, TARN_U16,
	TARN_I16, TARN_U32, TARN_I32, TARN_U64, TARN_I64, TARN_F16, TARN_BF16,
	TARN_F32, TARN_F64};

struct lot {
	struct random_state r;
	enum tarn_dtype dtype;
	int ndim, dim;
	int64_t shape[TARN_NDIM_MAX], n;
	tarn_tensor *x;
	double *numbers;
};

static int64_t product(int ndim, const int64_t *shape)
{
	int64_t n = 1;

	for (int i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

static void make(struct lot *a, uint64_t seed)
{
	memset(a, 0, sizeof(*a));
	a->r.state = seed;
	a->dtype = dtypes[random_below(&a->r, 13)];
	do
		a->ndim = random_shape(&a->r, 4, a->shape);
	while (!a->ndim);
	a->dim = (int)random_below(&a->r, a->ndim);
	a->n = product(a->ndim, a->shape);
	a->x = random_tensor(&a->r, a->dtype, a->ndim, a->shape,
		tarn_dtype_bits(a->dtype) > 8 && random_below(&a->r, 2) &&
			a->dtype != TARN_U16 && a->dtype != TARN_I16 &&
			a->dtype != TARN_U32 && a->dtype != TARN_I32 &&
			a->dtype != TARN_U64 && a->dtype != TARN_I64);
	a->numbers = tensor_numbers(a->x);
}

static tarn_tensor *destination(
	struct lot *a, enum tarn_dtype dtype, int ndim, const int64_t *shape)
{
	return random_below(&a->r, 2)
		       ? random_tensor(&a->r, dtype, ndim, shape, false)
		       : NULL;
}

/* The element of a tensor in C order, by what an index becomes. */
static double *gathered(const struct lot *a, const int64_t *shape,
	bool (*from)(const struct lot *, int64_t *index, void *arg), void *arg)
{
	int64_t n = product(a->ndim, shape), index[TARN_NDIM_MAX], at;
	double *to = calloc((size_t)n + 1, sizeof(*to));

	for (int64_t i = 0; i < n; i++) {
		must(tarn_layout_unravel_index(
			a->ndim, shape, i, TARN_ORDER_C, index));
		if (!from(a, index, arg))
			continue;
		at = 0;
		for (int j = 0; j < a->ndim; j++)
			at = at * a->shape[j] + index[j];
		to[i] = a->numbers[at];
	}
	return to;
}

/* ---- one after the other ------------------------------------------------- */

static bool from_twice(const struct lot *a, int64_t *index, void *arg)
{
	(void)arg;
	index[a->dim] %= a->shape[a->dim];
	return true;
}

static bool cat_case(struct lot *a)
{
	const tarn_tensor *both[2] = {a->x, a->x};
	int64_t shape[TARN_NDIM_MAX];
	tarn_tensor *out, *stacked = NULL, *half = NULL;
	double *wanted;
	bool good;

	memcpy(shape, a->shape, sizeof(shape));
	shape[a->dim] *= 2;
	wanted = gathered(a, shape, from_twice, NULL);
	out = destination(a, a->dtype, a->ndim, shape);
	must(tarn_cat(both, 2, a->dim - a->ndim, &out));
	good = tensor_agrees(out, 2 * a->n, wanted, 0);
	must(tarn_stack(both, 2, a->dim, &stacked));
	good = good && tarn_tensor_layout(stacked)->shape[a->dim] == 2 &&
	       tensor_agrees(stacked, 2 * a->n, wanted, 0);
	/* Into the first half of what is joined: two tensors share bytes. */
	must(tarn_tensor_narrow(out, a->dim, 0, a->shape[a->dim], &half));
	both[0] = half;
	must(tarn_cat(both, 2, a->dim, &out));
	good = good && tensor_agrees(out, 2 * a->n, wanted, 0);
	tarn_tensor_unref(out);
	tarn_tensor_unref(half);
	tarn_tensor_unref(stacked);
	free(wanted);
	return good;
}

/* ---- padded ---------------------------------------------------------------- */

struct pads {
	enum tarn_pad_mode mode;
	int n;
	int64_t by[TARN_NDIM_MAX][2];
};

static bool from_padded(const struct lot *a, int64_t *index, void *arg)
{
	const struct pads *p = arg;

	for (int i = 0; i < p->n; i++) {
		int64_t extent = a->shape[a->ndim - p->n + i];
		int64_t *at = &index[a->ndim - p->n + i];

		*at -= p->by[i][0];
		if (*at >= 0 && *at < extent)
			continue;
		if (p->mode == TARN_PAD_CONSTANT)
			return false;
		if (p->mode == TARN_PAD_REPLICATE)
			*at = *at < 0 ? 0 : extent - 1;
		else if (p->mode == TARN_PAD_CIRCULAR)
			*at = (*at + extent) % extent;
		else
			*at = *at < 0 ? -*at : 2 * extent - 2 - *at;
	}
	return true;
}

static bool pad_case(struct lot *a)
{
	struct pads p = {(enum tarn_pad_mode)random_below(&a->r, 4),
		(int)random_below(&a->r, a->ndim + 1), {{0}}};
	int64_t shape[TARN_NDIM_MAX];
	tarn_tensor *out;
	double *wanted;
	bool good;

	memcpy(shape, a->shape, sizeof(shape));
	for (int i = 0; i < p.n; i++) {
		int64_t *extent = &shape[a->ndim - p.n + i], least = *extent;

		least = p.mode == TARN_PAD_REFLECT ? least : least + 1;
		if (p.mode == TARN_PAD_CONSTANT)
			least = 4;
		least = least < 1 ? 1 : least > 4 ? 4 : least;
		for (int side = 0; side < 2; side++)
			p.by[i][side] = random_below(&a->r, least);
		*extent += p.by[i][0] + p.by[i][1];
	}
	wanted = gathered(a, shape, from_padded, &p);
	out = destination(a, a->dtype, a->ndim, shape);
	must(tarn_pad(a->x, p.n, p.by, p.mode,
		(struct tarn_operand) {.kind = TARN_NUMBER_BOOL}, &out));
	good = tensor_agrees(out, product(a->ndim, shape), wanted, 0);
	tarn_tensor_unref(out);
	free(wanted);
	return good;
}

/* ---- rolled, and triangles --------------------------------------------------- */

static bool from_rolled(const struct lot *a, int64_t *index, void *arg)
{
	const int64_t *shifts = arg;

	for (int i = 0; i < a->ndim; i++)
		index[i] =
			((index[i] - shifts[i]) % a->shape[i] + a->shape[i]) %
			a->shape[i];
	return true;
}

static bool from_triangle(const struct lot *a, int64_t *index, void *arg)
{
	const int64_t *k = arg;
	int64_t above = index[a->ndim - 1] - index[a->ndim - 2];

	return k[1] ? above >= k[0] : above <= k[0];
}

static bool roll_case(struct lot *a)
{
	int64_t shifts[TARN_NDIM_MAX] = {0}, k[2];
	int dims[TARN_NDIM_MAX];
	tarn_tensor *out = a->x;
	double *wanted;
	bool good;

	for (int i = 0; i < a->ndim; i++) {
		dims[i] = i;
		shifts[i] = random_below(&a->r, 30) - 15;
	}
	wanted = gathered(a, a->shape, from_rolled, shifts);
	must(tarn_roll(a->x, a->ndim, shifts, dims, &out));
	good = tensor_agrees(out, a->n, wanted, 0);
	memcpy(a->numbers, wanted, (size_t)a->n * sizeof(*wanted));
	free(wanted);
	if (a->ndim < 2)
		return good;
	k[0] = random_below(&a->r, 20) - 10;
	k[1] = random_below(&a->r, 2);
	wanted = gathered(a, a->shape, from_triangle, k);
	if (random_below(&a->r, 2))
		out = NULL;
	must(tarn_triangle(k[1] ? TARN_UPPER : TARN_LOWER, a->x, k[0], &out));
	good = good && tensor_agrees(out, a->n, wanted, 0);
	if (out != a->x)
		tarn_tensor_unref(out);
	free(wanted);
	return good;
}

/* ---- sorted ------------------------------------------------------------------ */

static bool less(double x, double y, bool descending)
{
	if (descending)
		return isnan(x) ? !isnan(y) : x > y;
	return isnan(y) ? !isnan(x) : x < y;
}

/* Insertion, which keeps the order of equal ones. */
static void plain_sort(const double *x, int64_t n, int64_t step,
	bool descending, double *values, double *places)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t j = i;

		for (; j > 0 &&
			less(x[i * step], values[(j - 1) * step], descending);
			j--) {
			values[j * step] = values[(j - 1) * step];
			places[j * step] = places[(j - 1) * step];
		}
		values[j * step] = x[i * step];
		places[j * step] = (double)i;
	}
}

static bool sort_case(struct lot *a)
{
	double *values = calloc((size_t)a->n + 1, sizeof(*values));
	double *places = calloc((size_t)a->n + 1, sizeof(*places));
	bool descending = random_below(&a->r, 2), good;
	int64_t inner = product(a->ndim - a->dim - 1, a->shape + a->dim + 1);
	int64_t extent = a->shape[a->dim], k;
	tarn_tensor *v, *p, *top = NULL, *first = NULL;

	for (int64_t i = 0; a->n && i < a->n / extent; i++) {
		int64_t at = i / inner * extent * inner + i % inner;

		plain_sort(a->numbers + at, extent, inner, descending,
			values + at, places + at);
	}
	v = destination(a, a->dtype, a->ndim, a->shape);
	p = destination(a, TARN_I64, a->ndim, a->shape);
	must(tarn_sort(a->x, a->dim - a->ndim, descending, &v, &p));
	good = tensor_agrees(v, a->n, values, 0) &&
	       tensor_agrees(p, a->n, places, 0);
	k = random_below(
		&a->r, random_below(&a->r, 2) && extent > 3 ? 4 : extent + 1);
	must(tarn_top(a->x, k, a->dim, descending, NULL, &top));
	must(tarn_tensor_narrow(p, a->dim, 0, k, &first));
	good = good && tensors_same_bits(top, first);
	tarn_tensor_unref(v);
	tarn_tensor_unref(p);
	tarn_tensor_unref(top);
	tarn_tensor_unref(first);
	free(values);
	free(places);
	return good;
}

static void random_cases(const char *what, bool (*one)(struct lot *))
{
	unsigned n = test_cases(300), good = 0;

	for (unsigned i = 0; i < n && good == i; i++) {
		struct lot a;

		must(tarn_ops_set_threads(1 + i % 2));
		make(&a, i);
		if (one(&a))
			good++;
		else
			diag("%s, seed %u: %s, dimension %d", what, i,
				tarn_dtype_name(a.dtype), a.dim);
		tarn_tensor_unref(a.x);
		free(a.numbers);
	}
	is_int(n, good, "random tensors are %s as plain loops do it", what);
}

/* ---- refused ------------------------------------------------------------------ */

static void refused(void)
{
	int64_t shape[2] = {2, 3}, other[2] = {2, 4}, by[1][2] = {{3, 0}};
	tarn_tensor *x, *y, *one, *locked, *out = NULL;
	const tarn_tensor *both[2];

	must(tarn_tensor_ones(TARN_F32, 2, shape, &x));
	must(tarn_tensor_ones(TARN_F32, 2, other, &y));
	must(tarn_tensor_ones(TARN_F32, 0, NULL, &one));
	locked = tensor_read_only(x);
	both[0] = x;
	both[1] = y;
	is_int(-EINVAL, tarn_cat(both, 2, 0, &out),
		"tensors that do not fit are not joined");
	is_str("cat: tensor 1 is [2, 4], and the first [2, 3]; but for "
	       "dimension 0 they must be the same",
		tarn_error_message(), "the sentence has both shapes");
	is_int(-EINVAL, tarn_cat(both, 0, 0, &out),
		"no tensors are not joined");
	is_int(-EINVAL, tarn_pad(x, 1, by, TARN_PAD_REFLECT, tarn_int(0), &out),
		"no more is mirrored than there is");
	is_str("pad: dimension 1 of extent 3 by 3 and 0; in that mode 0 to 2 "
	       "are possible",
		tarn_error_message(), "the sentence says what is possible");
	is_int(-EINVAL, tarn_triangle(TARN_LOWER, one, 0, &out),
		"a number has no triangle");
	is_int(-EINVAL, tarn_top(x, 4, 1, true, &out, NULL),
		"there are no more largest ones than elements");
	is_int(-EROFS, tarn_sort(x, 0, false, &locked, NULL),
		"a read-only tensor is not sorted to");
	is_int(-EROFS, tarn_roll(x, 0, NULL, NULL, &locked),
		"a read-only tensor is not rolled to");
	ok(!out, "a refused call makes no tensor");
	tarn_tensor_unref(x);
	tarn_tensor_unref(y);
	tarn_tensor_unref(one);
	tarn_tensor_unref(locked);
}

int main(void)
{
	random_cases("joined and stacked", cat_case);
	random_cases("padded", pad_case);
	random_cases("rolled and cut to triangles", roll_case);
	random_cases("sorted", sort_case);
	refused();
	return done(4 + 10);
}
