// SPDX-License-Identifier: MIT
/*
 * Two layouts of one shape become a nest of loops. Walking in the order of
 * the source's strides reads memory (or a file) forward, whatever order the
 * dimensions have; fusing what is adjacent on both sides turns the common
 * case, all contiguous, into a single row and so into one memcpy.
 */
#include "lib/move/nest.h"

#include <stdlib.h>
#include <string.h>

#include "lib/number/number.h"

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

static bool goes_before(
	const struct nest *nest, int64_t dst, int64_t src, int i)
{
	if (magnitude(src) != magnitude(nest->src[i]))
		return magnitude(src) > magnitude(nest->src[i]);
	return magnitude(dst) > magnitude(nest->dst[i]);
}

static void insert_sorted(
	struct nest *nest, int64_t extent, int64_t dst, int64_t src)
{
	int i = nest->n++;

	for (; i > 0 && goes_before(nest, dst, src, i - 1); i--) {
		nest->extent[i] = nest->extent[i - 1];
		nest->dst[i] = nest->dst[i - 1];
		nest->src[i] = nest->src[i - 1];
	}
	nest->extent[i] = extent;
	nest->dst[i] = dst;
	nest->src[i] = src;
}

static bool steps_over(int64_t outer, int64_t extent, int64_t inner)
{
	int64_t span;

	return !__builtin_mul_overflow(extent, inner, &span) && outer == span;
}

static void fuse(struct nest *nest)
{
	int n = 0;

	for (int i = 1; i < nest->n; i++) {
		int64_t extent = nest->extent[i];

		if (steps_over(nest->dst[n], extent, nest->dst[i]) &&
			steps_over(nest->src[n], extent, nest->src[i])) {
			extent *= nest->extent[n];
		} else {
			n++;
		}
		nest->extent[n] = extent;
		nest->dst[n] = nest->dst[i];
		nest->src[n] = nest->src[i];
	}
	nest->n = nest->n ? n + 1 : 0;
}

void nest_plan(struct nest *nest, const struct tarn_layout *dst,
	const struct tarn_layout *src)
{
	nest->dtype = src->dtype;
	nest->n = 0;
	nest->empty = false;
	nest->dst0 = dst->offset;
	nest->src0 = src->offset;
	for (int i = 0; i < src->ndim; i++) {
		if (src->shape[i] == 0)
			nest->empty = true;
		if (src->shape[i] != 1)
			insert_sorted(nest, src->shape[i], dst->stride[i],
				src->stride[i]);
	}
	fuse(nest);
}

int nest_walk(const struct nest *nest,
	int (*fn)(void *arg, const struct nest_row *row), void *arg)
{
	int last = nest->n - 1;
	int64_t index[TARN_MAX_NDIM] = {0};
	struct nest_row row = {
		.dst = nest->dst0,
		.src = nest->src0,
		.count = nest->n ? nest->extent[last] : 1,
		.dst_stride = nest->n ? nest->dst[last] : 1,
		.src_stride = nest->n ? nest->src[last] : 1,
	};

	if (nest->empty)
		return 0;
	for (;;) {
		int i = last - 1;
		int r = fn(arg, &row);

		if (r != 0)
			return r;
		for (; i >= 0 && ++index[i] == nest->extent[i]; i--) {
			row.dst -= nest->dst[i] * (nest->extent[i] - 1);
			row.src -= nest->src[i] * (nest->extent[i] - 1);
			index[i] = 0;
		}
		if (i < 0)
			return 0;
		row.dst += nest->dst[i];
		row.src += nest->src[i];
	}
}

struct copy {
	int dtype, bits;
	char *dst;
	const char *src;
};

/* Elements of whole bytes; memcpy because nothing need be aligned. */
#define COPY_ROW(size)                                                         \
	do {                                                                   \
		for (int64_t i = 0; i < row->count; i++) {                     \
			memcpy(d, s, size);                                    \
			d += row->dst_stride * (size);                         \
			s += row->src_stride * (size);                         \
		}                                                              \
	} while (0)

static void copy_bytes(const struct copy *c, const struct nest_row *row)
{
	int64_t size = c->bits / 8;
	char *d = c->dst + row->dst * size;
	const char *s = c->src + row->src * size;

	if (row->dst_stride == 1 && row->src_stride == 1) {
		memcpy(d, s, (size_t)(row->count * size));
		return;
	}
	switch (size) {
	case 1:
		COPY_ROW(1);
		break;
	case 2:
		COPY_ROW(2);
		break;
	case 4:
		COPY_ROW(4);
		break;
	default:
		COPY_ROW(8);
		break;
	}
}

/* Elements smaller than bytes: whole bytes where the run has them. */
static void copy_bits(const struct copy *c, const struct nest_row *row)
{
	int64_t at_dst = row->dst * c->bits, at_src = row->src * c->bits;
	int64_t pack = tarn_dtype_pack(c->dtype), done = 0;

	if (row->dst_stride == 1 && row->src_stride == 1 && at_dst % 8 == 0 &&
		at_src % 8 == 0) {
		done = row->count - row->count % pack;
		memcpy(c->dst + at_dst / 8, c->src + at_src / 8,
			(size_t)(done * c->bits / 8));
	}
	for (int64_t i = done; i < row->count; i++)
		number_store(c->dtype, c->dst, row->dst + i * row->dst_stride,
			number_load(c->dtype, c->src,
				row->src + i * row->src_stride));
}

static int copy_row(void *arg, const struct nest_row *row)
{
	const struct copy *c = arg;

	if (c->bits % 8 == 0)
		copy_bytes(c, row);
	else
		copy_bits(c, row);
	return 0;
}

void nest_copy(const struct nest *nest, void *dst, const void *src)
{
	struct copy c = {
		.dtype = nest->dtype,
		.bits = tarn_dtype_bits(nest->dtype),
		.dst = dst,
		.src = src,
	};

	nest_walk(nest, copy_row, &c);
}
