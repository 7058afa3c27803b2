// SPDX-License-Identifier: MIT
/*
 * Two layouts of one shape become a nest of loops. A walk in the order of one
 * side's strides goes through that side's memory (or file) forward, whatever
 * the order and direction of the dimensions; fusing what is adjacent on both
 * sides turns the common case, all contiguous, into a single row and so into
 * one memcpy.
 */
#include "lib/move/nest.h"

struct loop {
	int64_t extent, dst, src, channel;
};

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

static void put(struct nest *nest, int i, const struct loop *loop)
{
	nest->extent[i] = loop->extent;
	nest->dst[i] = loop->dst;
	nest->src[i] = loop->src;
	nest->channel[i] = loop->channel;
}

static struct loop get(const struct nest *nest, int i)
{
	return (struct loop) {
		.extent = nest->extent[i],
		.dst = nest->dst[i],
		.src = nest->src[i],
		.channel = nest->channel[i],
	};
}

static bool goes_before(
	const struct loop *a, const struct loop *b, enum nest_order order)
{
	uint64_t a_dst = magnitude(a->dst), b_dst = magnitude(b->dst);
	uint64_t a_src = magnitude(a->src), b_src = magnitude(b->src);

	if (order == NEST_BY_SRC)
		return a_src != b_src ? a_src > b_src : a_dst > b_dst;
	return a_dst != b_dst ? a_dst > b_dst : a_src > b_src;
}

static void insert_sorted(
	struct nest *nest, const struct loop *loop, enum nest_order order)
{
	int i = nest->n++;

	for (; i > 0; i--) {
		struct loop before = get(nest, i - 1);

		if (!goes_before(loop, &before, order))
			break;
		put(nest, i, &before);
	}
	put(nest, i, loop);
}

/* Steps may be taken in any order, so the leading side is walked forward. Two
 * sides that both run backwards become a run this way. */
static void turn_forward(
	struct nest *nest, struct loop *loop, enum nest_order order)
{
	int64_t first = order == NEST_BY_SRC ? loop->src : loop->dst;
	int64_t second = order == NEST_BY_SRC ? loop->dst : loop->src;

	if (first > 0 || (first == 0 && second >= 0))
		return;
	nest->dst0 += loop->dst * (loop->extent - 1);
	nest->src0 += loop->src * (loop->extent - 1);
	nest->channel0 += loop->channel * (loop->extent - 1);
	loop->dst = -loop->dst;
	loop->src = -loop->src;
	loop->channel = -loop->channel;
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
		struct loop outer = get(nest, n), inner = get(nest, i);

		if (steps_over(outer.dst, inner.extent, inner.dst) &&
			steps_over(outer.src, inner.extent, inner.src) &&
			steps_over(outer.channel, inner.extent, inner.channel))
			inner.extent *= outer.extent;
		else
			n++;
		put(nest, n, &inner);
	}
	nest->n = nest->n ? n + 1 : 0;
}

void nest_plan(struct nest *nest, const struct tarn_layout *dst,
	const struct tarn_layout *src, int channel_dim, enum nest_order order)
{
	*nest = (struct nest) {
		.dst_dtype = dst->dtype,
		.src_dtype = src->dtype,
		.n = src->ndim,
		.dst0 = dst->offset,
		.src0 = src->offset,
	};
	for (int i = 0; i < src->ndim; i++) {
		struct loop loop = {
			.extent = src->shape[i],
			.dst = dst->stride[i],
			.src = src->stride[i],
			.channel = i == channel_dim,
		};

		put(nest, i, &loop);
		nest->empty |= loop.extent == 0;
	}
	nest_tidy(nest, order);
}

void nest_tidy(struct nest *nest, enum nest_order order)
{
	int n = nest->empty ? 0 : nest->n;

	nest->n = 0;
	for (int i = 0; i < n; i++) {
		struct loop loop = get(nest, i);

		if (loop.extent == 1)
			continue;
		turn_forward(nest, &loop, order);
		insert_sorted(nest, &loop, order);
	}
	fuse(nest);
}

void nest_part(const struct nest *nest, int level, const int64_t *index,
	int64_t first, int64_t count, struct nest *ret)
{
	struct nest part = *nest;

	part.n = nest->n - level;
	part.empty = nest->empty || count == 0;
	for (int i = 0; i < level; i++) {
		part.dst0 += index[i] * nest->dst[i];
		part.src0 += index[i] * nest->src[i];
		part.channel0 += index[i] * nest->channel[i];
	}
	for (int i = 0; i < part.n; i++) {
		struct loop loop = get(nest, level + i);

		put(&part, i, &loop);
	}
	if (part.n > 0) {
		part.dst0 += first * part.dst[0];
		part.src0 += first * part.src[0];
		part.channel0 += first * part.channel[0];
		part.extent[0] = count;
	}
	*ret = part;
}

void nest_span(const struct nest *nest, enum nest_side side, int64_t *ret_first,
	int64_t *ret_last)
{
	const int64_t *stride = side == NEST_DST ? nest->dst : nest->src;
	int64_t first = side == NEST_DST ? nest->dst0 : nest->src0;
	int64_t last = first;

	for (int i = 0; i < nest->n; i++) {
		int64_t reach = stride[i] * (nest->extent[i] - 1);

		if (reach < 0)
			first += reach;
		else
			last += reach;
	}
	*ret_first = first;
	*ret_last = last;
}

int nest_walk(const struct nest *nest,
	int (*fn)(void *arg, const struct nest_row *row), void *arg)
{
	int last = nest->n - 1;
	int64_t index[TARN_NDIM_MAX] = {0};
	struct nest_row row = {
		.dst = nest->dst0,
		.src = nest->src0,
		.channel = nest->channel0,
		.count = nest->n ? nest->extent[last] : 1,
		.dst_stride = nest->n ? nest->dst[last] : 1,
		.src_stride = nest->n ? nest->src[last] : 1,
		.channel_stride = nest->n ? nest->channel[last] : 0,
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
			row.channel -= nest->channel[i] * (nest->extent[i] - 1);
			index[i] = 0;
		}
		if (i < 0)
			return 0;
		row.dst += nest->dst[i];
		row.src += nest->src[i];
		row.channel += nest->channel[i];
	}
}
