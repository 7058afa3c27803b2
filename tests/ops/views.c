// SPDX-License-Identifier: MIT
#include "tests/ops/views.h"

#include <stdlib.h>
#include <string.h>

#include <tarn/copy.h>

#include "tests/kit/tap.h"

static uint64_t state;

void view_seed(uint64_t seed)
{
	state = seed;
}

uint64_t view_below(uint64_t n)
{
	/* splitmix64 */
	uint64_t x = state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % n;
}

static void must(int r)
{
	if (r < 0)
		bail("%s", tarn_error_message());
}

static bool is_float(enum tarn_dtype dtype)
{
	return dtype == TARN_F16 || dtype == TARN_BF16 || dtype == TARN_F32 ||
	       dtype == TARN_F64;
}

static void fill(tarn_tensor *flat, int64_t n, unsigned flags)
{
	enum tarn_dtype dtype = tarn_tensor_layout(flat)->dtype;
	size_t size = (size_t)tarn_dtype_bits(dtype) / 8;
	char *at = tarn_tensor_data(flat);

	for (int64_t i = 0; i < n; i++) {
		double value = ((double)view_below(33) - 16) / 8;
		uint64_t bits = view_below(UINT64_MAX);

		if (is_float(dtype))
			must(tarn_tensor_set_f64(flat, &i, value));
		else if (dtype == TARN_BOOL)
			at[i] = bits & 1;
		else if (flags & VIEW_WIDE)
			memcpy(at + (size_t)i * size, &bits, size);
		else
			must(tarn_tensor_set_i64(
				flat, &i, (int64_t)view_below(7)));
	}
}

/* Strides for the dimensions in a random order of memory; returns how many
 * elements are reached. */
static int64_t random_strides(struct tarn_layout *l, unsigned flags)
{
	int order[TARN_NDIM_MAX];
	int64_t total = 1;

	for (int i = 0; i < l->ndim; i++) {
		int j = (int)view_below((uint64_t)i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	if (view_below(2))
		for (int i = 0; i < l->ndim; i++)
			order[i] = l->ndim - 1 - i;
	for (int i = 0; i < l->ndim; i++) {
		int d = order[i];
		int64_t step = view_below(8) ? 1 : 2;

		if (flags & VIEW_REPEATED && !view_below(12)) {
			l->stride[d] = 0;
			continue;
		}
		l->stride[d] = total * step;
		total *= l->shape[d] * step;
		if (!view_below(8)) {
			l->offset += (l->shape[d] - 1) * l->stride[d];
			l->stride[d] = -l->stride[d];
		}
		if (!view_below(6))
			total += (int64_t)view_below(3);
	}
	return total;
}

tarn_tensor *view_random(
	enum tarn_dtype dtype, int ndim, const int64_t *shape, unsigned flags)
{
	struct tarn_layout l,
		flat = {.dtype = (uint8_t)dtype, .ndim = 1, .stride = {1}};
	tarn_storage *storage;
	tarn_tensor *all, *t;
	uint64_t base = flags & VIEW_SKEW && !view_below(10);

	must(tarn_layout_contiguous(dtype, ndim, shape, &l));
	if (tarn_layout_numel(&l)) {
		flat.shape[0] = random_strides(&l, flags);
		l.offset += (int64_t)view_below(3);
		flat.shape[0] += 2;
	}
	must(tarn_storage_alloc(
		base + (uint64_t)(flat.shape[0] * tarn_dtype_bits(dtype) / 8),
		&storage));
	must(tarn_tensor_new(storage, base, &flat, &all));
	fill(all, flat.shape[0], flags);
	must(tarn_tensor_new(storage, base, &l, &t));
	tarn_tensor_unref(all);
	tarn_storage_unref(storage);
	return t;
}

tarn_tensor *view_of(enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const double *values)
{
	tarn_tensor *wide, *t;
	size_t size;

	must(tarn_tensor_zeros(TARN_F64, ndim, shape, &wide));
	size = (size_t)tarn_layout_nbytes(tarn_tensor_layout(wide));
	if (size)
		memcpy(tarn_tensor_data(wide), values, size);
	must(tarn_tensor_zeros(dtype, ndim, shape, &t));
	must(tarn_copy(t, wide, NULL, NULL));
	tarn_tensor_unref(wide);
	return t;
}

static void *values(const tarn_tensor *t, enum tarn_dtype dtype)
{
	const struct tarn_layout *l = tarn_tensor_layout(t);
	uint64_t size = (uint64_t)tarn_layout_numel(l) * 8;
	void *ret = malloc(size + 1);
	tarn_tensor *wide;

	must(tarn_tensor_zeros(dtype, l->ndim, l->shape, &wide));
	must(tarn_copy(wide, t, NULL, NULL));
	must(tarn_tensor_ravel(wide, TARN_ORDER_C, ret, size));
	tarn_tensor_unref(wide);
	return ret;
}

double *view_values(const tarn_tensor *t)
{
	return values(t, TARN_F64);
}

int64_t *view_integers(const tarn_tensor *t)
{
	bool wide = tarn_tensor_layout(t)->dtype == TARN_U64;

	return values(t, wide ? TARN_U64 : TARN_I64);
}

struct view_before view_before(const tarn_tensor *to)
{
	tarn_storage *storage = tarn_tensor_storage(to);
	struct view_before b = {.size = tarn_storage_size(storage)};

	b.bytes = malloc(b.size + 1);
	if (b.size)
		memcpy(b.bytes, tarn_storage_data(storage), b.size);
	return b;
}

bool view_written(
	struct view_before before, tarn_tensor *to, const tarn_tensor *wanted)
{
	tarn_storage *storage = tarn_tensor_storage(to);
	unsigned char *seen = malloc(before.size + 1);
	bool same;

	/* What is seen, put aside; then what is wanted, in the same memory. */
	if (before.size) {
		memcpy(seen, tarn_storage_data(storage), before.size);
		memcpy(tarn_storage_data(storage), before.bytes, before.size);
	}
	must(tarn_copy(to, wanted, NULL, NULL));
	same = !before.size ||
	       !memcmp(seen, tarn_storage_data(storage), before.size);
	free(seen);
	free(before.bytes);
	return same;
}
