// SPDX-License-Identifier: MIT
/*
 * The nest of loops that two layouts make. Random pairs are planned both ways
 * and walked; every element must be met once, with the source and the channel
 * that plain counting through the indices gives it. Parts of a nest must add
 * up to the whole, and nothing may lie outside of its span.
 */
#include <stdlib.h>
#include <string.h>

#include <tarn/layout.h>

#include "base/checked.h"
#include "lib/move/nest.h"
#include "tests/kit/must.h"
#include "tests/kit/tap.h"

#define CASES 3000
#define ROOM 4096 /* elements that a case may reach on either side */

struct meeting {
	int64_t src, channel;
	int times;
};

struct meetings {
	struct meeting at[ROOM]; /* by element of dst */
	const struct nest *nest; /* whose span holds them */
	int64_t outside;
};

static uint64_t seed = 1;

static int64_t below(int64_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* A shape laid out in a random order of dimensions, with gaps, some of them
 * backwards; spread: some stand still. */
static struct tarn_layout random_layout(
	int ndim, const int64_t *shape, bool spread)
{
	struct tarn_layout l = {.dtype = TARN_U8, .ndim = (uint8_t)ndim};
	int order[TARN_NDIM_MAX];
	int64_t stride = 1;

	for (int i = 0; i < ndim; i++)
		order[i] = i;
	for (int i = ndim - 1; i > 0; i--) {
		int j = (int)below(i + 1), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (int i = 0; i < ndim; i++) {
		int dim = order[i];
		int64_t steps = MAX(shape[dim], 1) - 1;

		l.shape[dim] = shape[dim];
		if (spread && below(5) == 0)
			continue;
		stride += below(4) == 0;
		l.stride[dim] = below(4) == 0 ? -stride : stride;
		if (l.stride[dim] < 0)
			l.offset += stride * steps;
		stride *= steps + 1;
	}
	return l;
}

static int64_t element_at(const struct tarn_layout *l, const int64_t *index)
{
	int64_t at = l->offset;

	for (int i = 0; i < l->ndim; i++)
		at += l->stride[i] * index[i];
	return at;
}

static int meet(void *arg, const struct nest_row *row)
{
	struct meetings *m = arg;
	int64_t first[2], last[2];

	nest_span(m->nest, NEST_DST, &first[0], &last[0]);
	nest_span(m->nest, NEST_SRC, &first[1], &last[1]);
	for (int64_t i = 0; i < row->count; i++) {
		int64_t dst = row->dst + i * row->dst_stride;
		int64_t src = row->src + i * row->src_stride;

		if (dst < first[0] || dst > last[0] || src < first[1] ||
			src > last[1]) {
			m->outside++;
			continue;
		}
		m->at[dst].src = src;
		m->at[dst].channel = row->channel + i * row->channel_stride;
		m->at[dst].times++;
	}
	return 0;
}

static bool as_counted(const struct meetings *m, const struct tarn_layout *dst,
	const struct tarn_layout *src, int channel_dim)
{
	int64_t numel = tarn_layout_numel(dst), met = 0;
	int64_t index[TARN_NDIM_MAX];

	for (int64_t flat = 0; flat < numel; flat++) {
		const struct meeting *at;

		must(tarn_layout_unravel_index(
			dst->ndim, dst->shape, flat, TARN_ORDER_C, index));
		at = &m->at[element_at(dst, index)];
		if (at->times != 1 || at->src != element_at(src, index) ||
			at->channel !=
				(channel_dim < 0 ? 0 : index[channel_dim]))
			return false;
	}
	for (int i = 0; i < ROOM; i++)
		met += m->at[i].times;
	return met == numel && m->outside == 0;
}

/* Cuts a loop somewhere into single pieces; each may be cut again. */
static void walk_parts(struct meetings *m, const struct nest *nest, int depth)
{
	int level = nest->n ? (int)below(nest->n) : 0;
	int64_t index[TARN_NDIM_MAX] = {0};
	struct nest part;

	m->nest = nest;
	if (depth == 0 || nest->n == 0) {
		nest_walk(nest, meet, m);
		return;
	}
	for (;;) {
		int i = level - 1;
		int64_t step;

		for (int64_t at = 0; at < nest->extent[level]; at += step) {
			step = 1 + below(nest->extent[level] - at);
			nest_part(nest, level, index, at, step, &part);
			walk_parts(m, &part, depth - 1);
		}
		for (; i >= 0 && ++index[i] == nest->extent[i]; i--)
			index[i] = 0;
		if (i < 0)
			return;
	}
}

static bool ordered(const struct nest *nest, enum nest_order order)
{
	const int64_t *lead = order == NEST_BY_SRC ? nest->src : nest->dst;

	for (int i = 0; i < nest->n; i++)
		if (lead[i] < 0 || (i > 0 && lead[i] > lead[i - 1]))
			return false;
	return true;
}

static int64_t random_cases(enum nest_order order)
{
	static struct meetings m;
	int64_t wrong = 0;

	for (int i = 0; i < CASES; i++) {
		int ndim = (int)below(6);
		int64_t shape[TARN_NDIM_MAX] = {0};
		int channel_dim = (int)below(ndim + 1) - 1;
		struct tarn_layout dst, src;
		struct nest nest;

		for (int d = 0; d < ndim; d++)
			shape[d] = below(40) == 0 ? 0 : 1 + below(4);
		dst = random_layout(ndim, shape, false);
		src = random_layout(ndim, shape, true);
		nest_plan(&nest, &dst, &src, channel_dim, order);

		m = (struct meetings) {.nest = &nest};
		nest_walk(&nest, meet, &m);
		wrong += !ordered(&nest, order) ||
			 !as_counted(&m, &dst, &src, channel_dim);
		m = (struct meetings) {0};
		if (!nest.empty)
			walk_parts(&m, &nest, 2);
		wrong += !as_counted(&m, &dst, &src, channel_dim);
	}
	return wrong;
}

static int loops(const char *dst, const char *src, int channel_dim)
{
	struct tarn_layout d, s;
	struct nest nest;

	if (tarn_layout_parse(dst, &d) < 0 || tarn_layout_parse(src, &s) < 0)
		bail("%s, %s: %s", dst, src, tarn_error_message());
	nest_plan(&nest, &d, &s, channel_dim, NEST_BY_DST);
	return nest.n;
}

static void fused(void)
{
	is_int(1, loops("U8[4,5,6]", "U8[4,5,6]", -1),
		"two contiguous layouts make one loop");
	is_int(1, loops("U8[4,5]:(-5,-1)+19", "U8[4,5]:(-5,-1)+19", -1),
		"two layouts that are both reversed make one loop");
	is_int(1, loops("U8[4,5]:(1,4)", "U8[4,5]:(1,4)", -1),
		"two Fortran layouts make one loop");
	is_int(3, loops("U8[4,5,6]", "U8[4,5,6]", 1),
		"a channel in the middle keeps its loop");
	is_int(3, loops("U8[4,3,5,6]", "U8[4,3,5,6]:(90,1,18,3)", -1),
		"channels first from channels last make three loops");
	is_int(0, loops("U8[1,1]", "U8[1,1]:(7,9)", -1),
		"a single element makes no loop");
}

int main(void)
{
	fused();
	is_int(0, random_cases(NEST_BY_DST),
		"a nest planned by the destination meets each element, %d "
		"cases",
		CASES);
	is_int(0, random_cases(NEST_BY_SRC),
		"a nest planned by the source meets each element, %d cases",
		CASES);
	return done(8);
}
