// SPDX-License-Identifier: MIT
/*
 * Equality of values. One nest of loops walks both layouts; integers that are
 * adjacent on both sides are compared as bytes, F32 and F64 by the CPU, and all
 * others as numbers.
 */
#include "lib/tensor/tensor.h"

#include <string.h>

#include "lib/move/nest.h"
#include "lib/number/number.h"

struct comparison {
	int dtype;
	const void *a, *b;
};

/* Types that the CPU compares; at any alignment. */
#define COMPARE_ROW(type)                                                      \
	do {                                                                   \
		const char *p = (const char *)c->a + row->dst * size;          \
		const char *q = (const char *)c->b + row->src * size;          \
		for (int64_t i = 0; i < row->count; i++) {                     \
			type x, y;                                             \
			memcpy(&x, p + i * row->dst_stride * size, sizeof(x)); \
			memcpy(&y, q + i * row->src_stride * size, sizeof(y)); \
			if (x != y)                                            \
				return 1;                                      \
		}                                                              \
		return 0;                                                      \
	} while (0)

static int compare_row(void *arg, const struct nest_row *row)
{
	const struct comparison *c = arg;
	int64_t size = tarn_dtype_bits(c->dtype) / 8;

	if (c->dtype == TARN_F32)
		COMPARE_ROW(float);
	if (c->dtype == TARN_F64)
		COMPARE_ROW(double);
	if (number_is_integer(c->dtype) && row->dst_stride == 1 &&
		row->src_stride == 1)
		return memcmp((const char *)c->a + row->dst * size,
			       (const char *)c->b + row->src * size,
			       (size_t)(row->count * size)) != 0;
	for (int64_t i = 0; i < row->count; i++) {
		int64_t a = row->dst + i * row->dst_stride;
		int64_t b = row->src + i * row->src_stride;

		if (!number_equal(c->dtype, number_load(c->dtype, c->a, a),
			    number_load(c->dtype, c->b, b)))
			return 1;
	}
	return 0;
}

static bool same_shape(const struct tarn_layout *a, const struct tarn_layout *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0]));
}

/* The tensor itself, or a copy in memory if it is in a file. */
static int in_memory(const tarn_tensor *tensor, tarn_tensor **ret)
{
	if (!storage_by_address(tensor->storage))
		return tarn_tensor_clone(tensor, ret);
	*ret = tarn_tensor_ref((tarn_tensor *)tensor);
	return 0;
}

int tarn_tensor_equal(const tarn_tensor *a, const tarn_tensor *b)
{
	_cleanup_tensor_ tarn_tensor *x = NULL, *y = NULL;
	struct comparison c = {.dtype = a->layout.dtype};
	struct nest nest;
	int r;

	if (a->layout.dtype != b->layout.dtype ||
		!same_shape(&a->layout, &b->layout))
		return 0;
	if (tarn_layout_numel(&a->layout) == 0)
		return 1;
	r = in_memory(a, &x);
	if (r >= 0)
		r = in_memory(b, &y);
	if (r < 0)
		return r;
	c.a = tarn_tensor_origin(x);
	c.b = tarn_tensor_origin(y);
	nest_plan(&nest, &x->layout, &y->layout, -1, NEST_BY_SRC);
	return nest_walk(&nest, compare_row, &c) == 0;
}
