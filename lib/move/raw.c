// SPDX-License-Identifier: MIT
/*
 * Loops over elements become the two that matter, and the others around them.
 *
 * The innermost loop is the one that walks dst in the smallest steps. Where
 * the same loop walks src in the smallest steps as well, it is a row;
 * otherwise that other loop is its columns, and the two are one pair
 * (raw_pair.c). A short run of both sides counts as one wider element.
 *
 * Where the columns are shorter than a line of the cache, what shares the line
 * with them is in another loop, and would be met again when the line is gone;
 * so a stretch of that loop is walked right outside of the pair.
 */
#include "lib/move/raw.h"

#include <stdlib.h>

#include "base/checked.h"

/* Runs up to here are elements: beyond it there is nothing to win by moving
 * them in another order. */
#define WIDE LINE

static struct raw without(const struct raw *raw, int loop)
{
	struct raw ret = *raw;

	ret.n--;
	for (int i = loop; i < ret.n; i++) {
		ret.extent[i] = raw->extent[i + 1];
		ret.dst[i] = raw->dst[i + 1];
		ret.src[i] = raw->src[i + 1];
	}
	return ret;
}

static void widen(struct raw *raw)
{
	while (raw->n > 1) {
		int last = raw->n - 1;

		if (raw->dst[last] != raw->size ||
			raw->src[last] != raw->size ||
			raw->extent[last] * raw->size > WIDE)
			break;
		raw->size *= raw->extent[last];
		raw->n--;
	}
}

/* The loop with the smallest steps of src that are not 0, and if among equals
 * the innermost; -1: none moves. */
static int smallest_src(const struct raw *raw)
{
	int best = -1;

	for (int i = raw->n - 1; i >= 0; i--)
		if (raw->src[i] != 0 &&
			(best < 0 ||
				llabs(raw->src[i]) < llabs(raw->src[best])))
			best = i;
	return best;
}

static void turn(struct raw *raw, int loop, char **dst, const char **src)
{
	*dst += raw->dst[loop] * (raw->extent[loop] - 1);
	*src += raw->src[loop] * (raw->extent[loop] - 1);
	raw->dst[loop] = -raw->dst[loop];
	raw->src[loop] = -raw->src[loop];
}

/* Groups within a row: where the innermost loop turns round a few elements,
 * the columns are the groups, one after the other on both sides. */
static int groups_loop(const struct raw *raw)
{
	int last = raw->n - 1;
	int64_t group = raw->extent[last] * raw->size;

	if (raw->src[last] == -raw->size && raw->dst[last] == raw->size &&
		raw->extent[last] <= 4)
		for (int i = 0; i < last; i++)
			if (raw->dst[i] == group && raw->src[i] == group)
				return i;
	return -1;
}

/* Which loop is the columns; -1: none, it is rows alone. */
static int columns_loop(const struct raw *raw)
{
	int last = raw->n - 1, cols;

	if (last < 1 || raw->src[last] == 0)
		return -1;
	cols = groups_loop(raw);
	if (cols < 0)
		cols = smallest_src(raw);
	return cols == last ? -1 : cols;
}

static void walk(const struct raw *raw, int level, const struct raw_pair *pair,
	char *dst, const char *src)
{
	if (level == raw->n) {
		raw_pair_run(pair, dst, src);
		return;
	}
	for (int64_t i = 0; i < raw->extent[level]; i++)
		walk(raw, level + 1, pair, dst + i * raw->dst[level],
			src + i * raw->src[level]);
}

static int insert_loop(
	struct raw *raw, int at, int64_t extent, int64_t dst, int64_t src)
{
	for (int i = raw->n++; i > at; i--) {
		raw->extent[i] = raw->extent[i - 1];
		raw->dst[i] = raw->dst[i - 1];
		raw->src[i] = raw->src[i - 1];
	}
	raw->extent[at] = extent;
	raw->dst[at] = dst;
	raw->src[at] = src;
	return at;
}

/* Walks the outer loops, with stretches of loop near right outside of the
 * pair, and what is left over after whole stretches. */
static void walk_near(struct raw *outer, int near, int64_t stretch,
	const struct raw_pair *pair, char *dst, const char *src)
{
	int64_t extent = outer->extent[near], left = extent % stretch;
	struct raw rest = *outer, inner = without(outer, near);

	insert_loop(
		&inner, inner.n, stretch, outer->dst[near], outer->src[near]);
	insert_loop(&inner, near, extent / stretch, outer->dst[near] * stretch,
		outer->src[near] * stretch);
	walk(&inner, 0, pair, dst, src);
	if (left == 0)
		return;
	dst += (extent - left) * outer->dst[near];
	src += (extent - left) * outer->src[near];
	rest = without(outer, near);
	insert_loop(&rest, rest.n, left, outer->dst[near], outer->src[near]);
	walk(&rest, 0, pair, dst, src);
}

static void walk_outer(struct raw *outer, const struct raw_pair *pair,
	char *dst, const char *src)
{
	int near = smallest_src(outer);
	int64_t step = near < 0 ? 0 : llabs(outer->src[near]);
	int64_t stretch = step ? 4 * LINE / step : 0;

	if (pair->cols > 1 && pair->cols * llabs(pair->col_src) < LINE &&
		near >= 0 && near < outer->n - 1 && stretch > 1 &&
		outer->n + 1 < TARN_MAX_NDIM)
		walk_near(outer, near, MIN(stretch, outer->extent[near]), pair,
			dst, src);
	else
		walk(outer, 0, pair, dst, src);
}

enum raw_way raw_run(const struct raw *raw, char *dst, const char *src)
{
	struct raw outer = *raw;
	struct raw_pair pair = {.simd = simd_get(), .rows = 1, .cols = 1};
	int last, cols;

	widen(&outer);
	pair.size = pair.row_dst = pair.row_src = outer.size;
	pair.large = outer.large;
	cols = columns_loop(&outer);
	if (cols >= 0) {
		if (outer.src[cols] < 0)
			turn(&outer, cols, &dst, &src);
		pair.cols = outer.extent[cols];
		pair.col_dst = outer.dst[cols];
		pair.col_src = outer.src[cols];
		outer = without(&outer, cols);
	}
	last = outer.n - 1;
	if (last >= 0) {
		pair.rows = outer.extent[last];
		pair.row_dst = outer.dst[last];
		pair.row_src = outer.src[last];
		outer.n--;
	}
	raw_pair_plan(&pair);
	if (cols < 0 && pair.way != RAW_TRANSPOSE && outer.n > 0) {
		/* Rows: the loop around them saves calls. */
		last = outer.n - 1;
		pair.cols = outer.extent[last];
		pair.col_dst = outer.dst[last];
		pair.col_src = outer.src[last];
		outer.n--;
		raw_pair_plan(&pair);
	}
	walk_outer(&outer, &pair, dst, src);
	if (pair.large)
		pair.simd->fence();
	return pair.way;
}
