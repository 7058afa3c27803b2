// SPDX-License-Identifier: MIT
/*
 * Elements that are selected by numbers and by masks, and written through them,
 * beside plain loops: tensors, lists and masks of any strides, numbers that are
 * negative and that repeat, destinations that are views; with one thread and
 * with two. A list with a number that is none of the tensor's writes nothing.
 */
#include <tarn/ops.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"
#include "tests/ops/tensors.h"

static const enum tarn_dtype dtypes[] = {TARN_BOOL, TARN_U8, TARN_I8, TARN_U16,
	TARN_I16, TARN_U32, TARN_I32, TARN_I64, TARN_F16, TARN_BF16, TARN_F32,
	TARN_F64};

/* A case: a tensor, the numbers of its elements, and a list for one dimension. */
struct lot {
	struct random_state r;
	enum tarn_dtype dtype;
	int ndim, dim;
	int64_t shape[TARN_NDIM_MAX], index_shape[TARN_NDIM_MAX], n;
	tarn_tensor *x, *index;
	double *numbers;
	int64_t *list;
};

static int64_t product(int ndim, const int64_t *shape)
{
	int64_t n = 1;

	for (int i = 0; i < ndim; i++)
		n *= shape[i];
	return n;
}

/* Numbers of -extent .. extent - 1, in I64 or I32. */
static void make_list(struct lot *a, int ndim)
{
	int64_t extent = a->shape[a->dim], n = product(ndim, a->index_shape);
	double *list = calloc((size_t)n + 1, sizeof(*list));
	tarn_tensor *plain;

	for (int64_t i = 0; i < n; i++)
		list[i] = (double)(random_below(&a->r, 2 * extent) - extent);
	a->index = random_tensor(&a->r,
		random_below(&a->r, 2) ? TARN_I64 : TARN_I32, ndim,
		a->index_shape, false);
	plain = tensor_of(TARN_I64, ndim, a->index_shape, list);
	must(tarn_copy(a->index, plain, NULL, NULL));
	tarn_tensor_unref(plain);
	a->list = tensor_integers(a->index);
	for (int64_t i = 0; i < n; i++)
		a->list[i] += a->list[i] < 0 ? extent : 0;
	free(list);
}

static void make(struct lot *a, uint64_t seed)
{
	memset(a, 0, sizeof(*a));
	a->r.state = seed;
	a->dtype = dtypes[random_below(&a->r, 12)];
	do
		a->ndim = random_shape(&a->r, 4, a->shape);
	while (!a->ndim || !product(a->ndim, a->shape));
	a->dim = (int)random_below(&a->r, a->ndim);
	a->n = product(a->ndim, a->shape);
	a->x = random_tensor(&a->r, a->dtype, a->ndim, a->shape, false);
	a->numbers = tensor_numbers(a->x);
}

static void drop(struct lot *a)
{
	tarn_tensor_unref(a->x);
	tarn_tensor_unref(a->index);
	free(a->numbers);
	free(a->list);
}

/* Half of the time a destination of any strides; else none. */
static tarn_tensor *destination(
	struct lot *a, enum tarn_dtype dtype, int ndim, const int64_t *shape)
{
	return random_below(&a->r, 2)
		       ? random_tensor(&a->r, dtype, ndim, shape, false)
		       : NULL;
}

/* ---- numbers ------------------------------------------------------------ */

/* Copies between a tensor's numbers and those of its slices. */
static void plain_slices(
	const struct lot *a, int64_t n, double *x, double *slices, bool put)
{
	int64_t outer = product(a->dim, a->shape), extent = a->shape[a->dim];
	int64_t inner = a->n / outer / extent;

	for (int64_t o = 0; o < outer; o++)
		for (int64_t j = 0; j < n; j++)
			for (int64_t k = 0; k < inner; k++) {
				double *there =
					&x[(o * extent + a->list[j]) * inner +
						k];
				double *here = &slices[(o * n + j) * inner + k];

				*(put ? there : here) = *(put ? here : there);
			}
}

static bool slices_case(struct lot *a)
{
	int ndim = (int)random_below(&a->r, 3), rest = a->ndim - a->dim - 1;
	int64_t shape[TARN_NDIM_MAX] = {0}, n;
	tarn_tensor *out, *src;
	double *wanted, *from;
	bool good;

	for (int i = 0; i < ndim; i++)
		a->index_shape[i] = random_below(&a->r, 7);
	make_list(a, ndim);
	memcpy(shape, a->shape, (size_t)a->dim * sizeof(*shape));
	memcpy(shape + a->dim, a->index_shape, (size_t)ndim * sizeof(*shape));
	memcpy(shape + a->dim + ndim, a->shape + a->dim + 1,
		(size_t)rest * sizeof(*shape));
	ndim += a->dim + rest;
	n = product(ndim, shape);
	wanted = calloc((size_t)n + 1, sizeof(*wanted));
	plain_slices(a, n * a->shape[a->dim] / a->n, a->numbers, wanted, false);
	out = destination(a, a->dtype, ndim, shape);
	must(tarn_index_select(a->x, a->dim - a->ndim, a->index, &out));
	good = tensor_agrees(out, n, wanted, 0);
	src = random_tensor(&a->r, a->dtype, ndim, shape, false);
	from = tensor_numbers(src);
	plain_slices(a, n * a->shape[a->dim] / a->n, a->numbers, from, true);
	must(tarn_index_put(a->x, a->dim, a->index, tarn_of(src)));
	good = good && tensor_agrees(a->x, a->n, a->numbers, 0);
	tarn_tensor_unref(out);
	tarn_tensor_unref(src);
	free(wanted);
	free(from);
	return good;
}

static void plain_along(
	const struct lot *a, double *x, double *elements, bool put)
{
	int64_t n = product(a->ndim, a->index_shape), index[TARN_NDIM_MAX], at;

	for (int64_t i = 0; i < n; i++) {
		must(tarn_layout_unravel_index(
			a->ndim, a->index_shape, i, TARN_ORDER_C, index));
		index[a->dim] = a->list[i];
		at = 0;
		for (int j = 0; j < a->ndim; j++)
			at = at * a->shape[j] + index[j];
		*(put ? &x[at] : &elements[i]) = *(put ? &elements[i] : &x[at]);
	}
}

static bool along_case(struct lot *a)
{
	tarn_tensor *out, *src;
	double *wanted, *from;
	int64_t n;
	bool good;

	for (int i = 0; i < a->ndim; i++)
		a->index_shape[i] =
			random_below(&a->r, i == a->dim ? 9 : a->shape[i] + 1);
	make_list(a, a->ndim);
	n = product(a->ndim, a->index_shape);
	wanted = calloc((size_t)n + 1, sizeof(*wanted));
	plain_along(a, a->numbers, wanted, false);
	out = destination(a, a->dtype, a->ndim, a->index_shape);
	must(tarn_take_along(a->x, a->dim, a->index, &out));
	good = tensor_agrees(out, n, wanted, 0);
	src = random_tensor(&a->r, a->dtype, a->ndim, a->index_shape, false);
	from = tensor_numbers(src);
	plain_along(a, a->numbers, from, true);
	must(tarn_put_along(a->x, a->dim, a->index, tarn_of(src)));
	good = good && tensor_agrees(a->x, a->n, a->numbers, 0);
	tarn_tensor_unref(out);
	tarn_tensor_unref(src);
	free(wanted);
	free(from);
	return good;
}

/* ---- masks ---------------------------------------------------------------- */

static bool mask_case(struct lot *a)
{
	tarn_tensor *mask =
		random_tensor(&a->r, TARN_BOOL, a->ndim, a->shape, false);
	tarn_tensor *out = NULL, *places = NULL, *src;
	double *is = tensor_numbers(mask), *wanted, *from;
	int64_t n = 0, index[TARN_NDIM_MAX], m = 0;
	bool good;

	wanted = calloc((size_t)(a->n * a->ndim) + 1, sizeof(*wanted));
	for (int64_t i = 0; i < a->n; i++)
		if (is[i] != 0)
			wanted[n++] = a->numbers[i];
	must(tarn_masked_select(a->x, mask, &out));
	good = tensor_agrees(out, n, wanted, 0);
	src = random_tensor(&a->r, a->dtype, 1, &n, false);
	from = tensor_numbers(src);
	for (int64_t i = 0; i < a->n; i++)
		if (is[i] != 0)
			a->numbers[i] = from[m++];
	must(tarn_masked_put(a->x, mask, tarn_of(src)));
	good = good && tensor_agrees(a->x, a->n, a->numbers, 0);
	m = 0;
	for (int64_t i = 0; i < a->n; i++) {
		if (a->numbers[i] == 0)
			continue;
		must(tarn_layout_unravel_index(
			a->ndim, a->shape, i, TARN_ORDER_C, index));
		for (int j = 0; j < a->ndim; j++)
			wanted[m++] = (double)index[j];
	}
	must(tarn_nonzero(a->x, &places));
	good = good && tensor_agrees(places, m, wanted, 0);
	for (int64_t i = 0; i < a->n; i++)
		a->numbers[i] = is[i] != 0 ? 1 : a->numbers[i];
	must(tarn_masked_fill(a->x, mask,
		(struct tarn_operand) {.kind = TARN_NUMBER_BOOL, .i = 1}));
	good = good && tensor_agrees(a->x, a->n, a->numbers, 0);
	tarn_tensor_unref(mask);
	tarn_tensor_unref(out);
	tarn_tensor_unref(places);
	tarn_tensor_unref(src);
	free(is);
	free(wanted);
	free(from);
	return good;
}

static void random_cases(const char *what, bool (*one)(struct lot *))
{
	unsigned n = test_cases(400), good = 0;

	for (unsigned i = 0; i < n && good == i; i++) {
		struct lot a;

		must(tarn_ops_set_threads(1 + i % 2));
		make(&a, i);
		if (one(&a))
			good++;
		else
			diag("%s, seed %u: %s, dimension %d", what, i,
				tarn_dtype_name(a.dtype), a.dim);
		drop(&a);
	}
	is_int(n, good, "%s of random tensors are those of plain loops", what);
}

/* ---- corners ----------------------------------------------------------------- */

/* Rows that are large enough for several threads, and a table look-up. */
static void embeddings(void)
{
	struct random_state r = {5};
	int64_t shape[2] = {300, 700}, list[2] = {40, 50}, n = 2000;
	tarn_tensor *table = random_tensor(&r, TARN_F32, 2, shape, false);
	double *rows = tensor_numbers(table), *ids, *wanted;
	tarn_tensor *index, *one = NULL, *two = NULL;

	ids = calloc((size_t)n, sizeof(*ids));
	wanted = calloc((size_t)(n * shape[1]), sizeof(*wanted));
	for (int64_t i = 0; i < n; i++) {
		ids[i] = (double)random_below(&r, shape[0]);
		memcpy(wanted + i * shape[1], rows + (int64_t)ids[i] * shape[1],
			(size_t)shape[1] * sizeof(*rows));
	}
	index = tensor_of(TARN_I32, 2, list, ids);
	must(tarn_ops_set_threads(1));
	must(tarn_index_select(table, 0, index, &one));
	must(tarn_ops_set_threads(2));
	must(tarn_index_select(table, 0, index, &two));
	ok(tensor_agrees(one, n * shape[1], wanted, 0),
		"rows of a table are looked up by a matrix of numbers");
	ok(tensors_same_bits(one, two), "two threads look up the same");
	tarn_tensor_unref(one);
	one = NULL;
	must(tarn_take(table, index, &one));
	for (int64_t i = 0; i < n; i++)
		wanted[i] = rows[(int64_t)ids[i]];
	ok(tensor_agrees(one, n, wanted, 0), "take counts in C order of all");
	tarn_tensor_unref(one);
	tarn_tensor_unref(two);
	tarn_tensor_unref(table);
	tarn_tensor_unref(index);
	free(rows);
	free(ids);
	free(wanted);
}

static void in_place(void)
{
	const double numbers[] = {5, 6, 7, 8}, back[] = {3, 2, 1, 0};
	const double turned[] = {8, 7, 6, 5};
	int64_t four = 4;
	tarn_tensor *x = tensor_of(TARN_F32, 1, &four, numbers), *same = x;
	tarn_tensor *index = tensor_of(TARN_I64, 1, &four, back);

	must(tarn_index_select(x, 0, index, &same));
	ok(tensor_agrees(x, 4, turned, 0),
		"a tensor is its own destination, in another order");
	must(tarn_index_put(x, 0, index, tarn_of(x)));
	ok(tensor_agrees(x, 4, numbers, 0),
		"a tensor is written to itself, in another order");
	must(tarn_index_put(x, 0, index, tarn_int(3)));
	ok(tensor_agrees(x, 4, (const double[]) {3, 3, 3, 3}, 0),
		"a number is written to all places of a list");
	tarn_tensor_unref(x);
	tarn_tensor_unref(index);
}

static void refused(void)
{
	const double numbers[] = {5, 6, 7, 8}, bad[] = {0, 1, -5, 2};
	const double few[] = {0, 1, 2, 3};
	int64_t four = 4, shape[2] = {4, 1};
	tarn_tensor *x = tensor_of(TARN_F32, 1, &four, numbers), *out = NULL;
	tarn_tensor *index = tensor_of(TARN_I64, 1, &four, bad);
	tarn_tensor *locked = tensor_read_only(x), *number;
	tarn_tensor *i = tensor_of(TARN_I32, 1, &four, few);
	tarn_tensor *two = tensor_of(TARN_I64, 2, shape, numbers);

	must(tarn_tensor_full(TARN_F32, 0, NULL, 1, &number));
	is_int(-ERANGE, tarn_index_select(x, 0, index, &out),
		"a number that is none of the tensor's is refused");
	is_str("index_select: number 2 of the index is -5; there are 4 to "
	       "select from",
		tarn_error_message(), "the sentence has its place and value");
	is_int(-ERANGE, tarn_index_put(x, 0, index, tarn_int(1)),
		"it is refused where it would be written");
	ok(tensor_agrees(x, 4, numbers, 0), "nothing is written then");
	is_int(-EROFS, tarn_index_put(locked, 0, i, tarn_int(1)),
		"a read-only tensor is not written through numbers");
	is_int(-EROFS, tarn_masked_put(locked, index, tarn_int(1)),
		"a read-only tensor is not written through a mask");
	is_int(-EINVAL, tarn_index_select(x, 0, x, &out),
		"a list of F32 is refused");
	is_str("index_select: the index is F32; it must be I64 or another "
	       "integer",
		tarn_error_message(), "the sentence says what would work");
	is_int(-EINVAL, tarn_index_put(i, 0, i, tarn_of(x)),
		"F32 is not written to I32");
	is_str("index_put: I32 cannot hold F32; cast one of them",
		tarn_error_message(), "the sentence has both dtypes");
	is_int(-EINVAL, tarn_take_along(x, 0, two, &out),
		"a list with another number of dimensions is refused");
	is_int(-EINVAL, tarn_masked_select(x, index, &out),
		"a mask of I64 is refused");
	is_int(-EINVAL, tarn_index_select(number, 0, i, &out),
		"a tensor without dimensions has none to select from");
	ok(!out, "a refused call makes no tensor");
	tarn_tensor_unref(x);
	tarn_tensor_unref(index);
	tarn_tensor_unref(locked);
	tarn_tensor_unref(number);
	tarn_tensor_unref(i);
	tarn_tensor_unref(two);
}

int main(void)
{
	random_cases("slices", slices_case);
	random_cases("elements along a dimension", along_case);
	random_cases("elements of masks", mask_case);
	embeddings();
	in_place();
	refused();
	return done(3 + 3 + 3 + 14);
}
