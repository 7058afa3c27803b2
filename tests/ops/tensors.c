// SPDX-License-Identifier: MIT
#include "tests/ops/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/tap.h"

int must_succeed(int r, const char *call, const char *file, int line)
{
	if (r < 0)
		bail("%s:%d: %s returned %d: %s", file, line, call, r,
			tarn_error_message());
	return r;
}

uint64_t random_next(struct random_state *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int64_t random_below(struct random_state *r, int64_t n)
{
	return (int64_t)(random_next(r) % (uint64_t)n);
}

int random_shape(
	struct random_state *r, int max_ndim, int64_t shape[TARN_NDIM_MAX])
{
	static const int64_t extents[] = {1, 2, 3, 5, 8, 17, 33, 70};
	int ndim = (int)random_below(r, max_ndim + 1);
	int64_t n = 1;

	for (int i = 0; i < ndim; i++) {
		shape[i] = extents[random_below(r, n > 2000 ? 3 : 8)];
		n *= shape[i];
	}
	if (ndim && !random_below(r, 20))
		shape[random_below(r, ndim)] = 0;
	else if (ndim && n < 50 && !random_below(r, 4))
		shape[random_below(r, ndim)] = 5000;
	return ndim;
}

static double number(struct random_state *r, enum tarn_dtype dtype)
{
	double x = (double)random_below(r, 1 << 20) / (1 << 17) - 4;

	switch (dtype) {
	case TARN_BOOL:
		return x > 0;
	case TARN_U8:
	case TARN_U16:
	case TARN_U32:
	case TARN_U64:
		return floor(fabs(x * 8));
	case TARN_F16:
	case TARN_BF16:
	case TARN_F32:
	case TARN_F64:
		return x;
	default:
		return floor(x * 8);
	}
}

static tarn_tensor *make(struct random_state *r, enum tarn_dtype dtype,
	int ndim, const int64_t *shape)
{
	int dims[TARN_NDIM_MAX], back[TARN_NDIM_MAX] = {0};
	int64_t wide[TARN_NDIM_MAX] = {0}, step[TARN_NDIM_MAX];
	tarn_tensor *t, *next;

	for (int i = 0; i < ndim; i++)
		dims[i] = i;
	for (int i = ndim - 1; i > 0 && random_below(r, 3); i--) {
		int j = (int)random_below(r, i + 1), kept = dims[i];

		dims[i] = dims[j];
		dims[j] = kept;
	}
	for (int i = 0; i < ndim; i++) {
		back[dims[i]] = i;
		step[dims[i]] =
			(const int64_t[]) {1, 1, 1, 2, -1}[random_below(r, 5)];
		wide[i] = shape[dims[i]] * (step[dims[i]] == 2 ? 2 : 1);
	}
	must(tarn_tensor_zeros(dtype, ndim, wide, &t));
	must(tarn_tensor_permute(t, ndim, back, &next));
	tarn_tensor_unref(t);
	for (int i = 0; i < ndim; i++) {
		t = next;
		must(tarn_tensor_slice(
			t, i, TARN_NONE, TARN_NONE, step[i], &next));
		tarn_tensor_unref(t);
	}
	return next;
}

tarn_tensor *random_tensor(struct random_state *r, enum tarn_dtype dtype,
	int ndim, const int64_t *shape, bool special)
{
	static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0};
	tarn_tensor *t = make(r, dtype, ndim, shape), *plain;
	int64_t n = tarn_layout_numel(tarn_tensor_layout(t));
	double *numbers = calloc((size_t)n + 1, sizeof(*numbers));

	for (int64_t i = 0; i < n; i++)
		numbers[i] = number(r, dtype);
	for (int64_t i = 0; n && special && i < 1 + n / 100; i++)
		numbers[random_below(r, n)] = specials[random_below(r, 4)];
	plain = tensor_of(TARN_F64, ndim, shape, numbers);
	must(tarn_copy(t, plain, NULL, NULL));
	tarn_tensor_unref(plain);
	free(numbers);
	return t;
}

static void *elements(const tarn_tensor *t, enum tarn_dtype dtype)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	size_t size =
		(size_t)(tarn_layout_numel(l) * tarn_dtype_bits(dtype) / 8);
	void *bytes = malloc(size + 1);
	tarn_tensor *plain;

	must(tarn_tensor_zeros(dtype, l->ndim, l->shape, &plain));
	must(tarn_copy(plain, t, NULL, NULL));
	if (size)
		memcpy(bytes, tarn_tensor_data(plain), size);
	tarn_tensor_unref(plain);
	return bytes;
}

double *tensor_numbers(const tarn_tensor *t)
{
	return elements(t, TARN_F64);
}

int64_t *tensor_integers(const tarn_tensor *t)
{
	return elements(t, TARN_I64);
}

tarn_tensor *tensor_of(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const double *numbers)
{
	tarn_tensor *t, *plain;
	size_t size;

	must(tarn_tensor_zeros(TARN_F64, ndim, shape, &plain));
	size = (size_t)tarn_layout_numel(tarn_tensor_layout(plain)) * 8;
	if (size)
		memcpy(tarn_tensor_data(plain), numbers, size);
	if (dtype == TARN_F64)
		return plain;
	must(tarn_tensor_zeros(dtype, ndim, shape, &t));
	must(tarn_copy(t, plain, NULL, NULL));
	tarn_tensor_unref(plain);
	return t;
}

bool tensor_agrees(
	const tarn_tensor *t, int64_t n, const double *wanted, double tolerance)
{
	double *seen;
	bool agree = tarn_layout_numel(tarn_tensor_layout(t)) == n;

	if (!agree) {
		diag("wanted %lld elements", (long long)n);
		return false;
	}
	seen = tensor_numbers(t);
	for (int64_t i = 0; agree && i < n; i++) {
		double w = wanted[i], s = seen[i];

		agree = w == s || (isnan(w) && isnan(s)) ||
			fabs(w - s) <= tolerance + tolerance * fabs(w);
		if (!agree)
			diag("element %lld: wanted %.17g, seen %.17g",
				(long long)i, w, s);
	}
	free(seen);
	return agree;
}

bool tensors_same_bits(const tarn_tensor *a, const tarn_tensor *b)
{
	enum tarn_dtype dtype = tarn_tensor_layout(a)->dtype;
	int64_t n = tarn_layout_numel(tarn_tensor_layout(a));
	void *x = elements(a, dtype), *y = elements(b, dtype);
	bool same = n == tarn_layout_numel(tarn_tensor_layout(b)) &&
		    tarn_tensor_layout(b)->dtype == dtype &&
		    !memcmp(x, y, (size_t)(n * tarn_dtype_bits(dtype) / 8));

	free(x);
	free(y);
	return same;
}

tarn_tensor *tensor_read_only(const tarn_tensor *t)
{
	tarn_storage *from = tarn_tensor_storage(t), *storage;
	tarn_tensor *ret;

	must(tarn_storage_borrow(tarn_storage_data(from),
		tarn_storage_size(from), 0, NULL, NULL, &storage));
	must(tarn_tensor_new(
		storage, tarn_tensor_base(t), tarn_tensor_layout(t), &ret));
	tarn_storage_unref(storage);
	return ret;
}
