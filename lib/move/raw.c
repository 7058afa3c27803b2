// SPDX-License-Identifier: MIT
/*
 * Loops over elements become the two that matter, and the others around them.
 *
 * The innermost loop is the one that walks dst in the smallest steps. Where the
 * same loop walks src in the smallest steps as well, it is a row; otherwise
 * that other loop is its columns, and the two are one pair (raw_pair.c). A
 * short run of both sides counts as one wider element.
 *
 * Where the columns are shorter than a cache line, the other elements of the
 * line belong to another loop, and would be reached after the line is evicted;
 * so a stretch of that loop is walked directly outside of the pair.
 */
#include "lib/move/raw.h"

#include <stdlib.h>

#include "base/checked.h"

/* Runs up to this size count as elements: moving longer ones in another order
 * gains nothing. */
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

/* The loop with the smallest steps of src that are not 0, and of equal ones the
 * innermost; -1: none moves. */
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

/* Walking columns of src backwards would walk its lines backwards. */
static void turn(struct raw_job *job, struct raw *raw, int loop)
{
	job->dst0 += raw->dst[loop] * (raw->extent[loop] - 1);
	job->src0 += raw->src[loop] * (raw->extent[loop] - 1);
	raw->dst[loop] = -raw->dst[loop];
	raw->src[loop] = -raw->src[loop];
}

/* Groups within a row: where the innermost loop reverses a few elements, the
 * columns are the groups, consecutive on both sides. */
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

/* Finds the loop of the columns; -1: none, there are only rows. */
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

static void plan_cols(struct raw_pair *pair, struct raw *outer, int loop)
{
	pair->cols = outer->extent[loop];
	pair->col_dst = outer->dst[loop];
	pair->col_src = outer->src[loop];
	*outer = without(outer, loop);
}

static void plan_rows(struct raw_pair *pair, struct raw *outer)
{
	int last = outer->n - 1;

	if (last < 0)
		return;
	pair->rows = outer->extent[last];
	pair->row_dst = outer->dst[last];
	pair->row_src = outer->src[last];
	outer->n--;
}

/* Finds the loop that is walked in stretches, and their length: four lines of
 * src. */
static void plan_near(struct raw_job *job)
{
	const struct raw_pair *pair = &job->pair;
	int near = smallest_src(&job->outer);
	int64_t step = near < 0 ? 0 : llabs(job->outer.src[near]);

	job->near = -1;
	if (pair->cols == 1 || pair->cols * llabs(pair->col_src) >= LINE ||
		step == 0 || step > 2 * LINE || near == job->outer.n - 1 ||
		job->outer.n == TARN_NDIM_MAX)
		return;
	job->near = near;
	job->stretch = MIN(4 * LINE / step, job->outer.extent[near]);
}

void raw_plan(struct raw_job *ret, const struct raw *raw)
{
	struct raw_pair *pair = &ret->pair;
	struct raw *outer = &ret->outer;
	int cols;

	ret->outer = *raw;
	ret->dst0 = ret->src0 = 0;
	widen(outer);
	*pair = (struct raw_pair) {
		.simd = simd_get(),
		.large = raw->large,
		.size = outer->size,
		.rows = 1,
		.row_dst = outer->size,
		.row_src = outer->size,
		.cols = 1,
	};
	cols = columns_loop(outer);
	if (cols >= 0) {
		if (outer->src[cols] < 0)
			turn(ret, outer, cols);
		plan_cols(pair, outer, cols);
	}
	plan_rows(pair, outer);
	/* With rows alone, including the loop around them saves calls. */
	if (cols < 0 && outer->n > 0)
		plan_cols(pair, outer, outer->n - 1);
	raw_pair_plan(pair);
	plan_near(ret);
}

/* ---- the run ------------------------------------------------------- */

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

static void insert(
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
}

/* Whole stretches, and then the rest. */
static void walk_stretches(
	const struct raw_job *job, char *dst, const char *src)
{
	const struct raw *outer = &job->outer;
	int64_t near_dst = outer->dst[job->near];
	int64_t near_src = outer->src[job->near];
	int64_t extent = outer->extent[job->near];
	int64_t left = extent % job->stretch;
	struct raw loops = without(outer, job->near);

	insert(&loops, loops.n, job->stretch, near_dst, near_src);
	insert(&loops, job->near, extent / job->stretch,
		near_dst * job->stretch, near_src * job->stretch);
	walk(&loops, 0, &job->pair, dst, src);
	if (left == 0)
		return;
	loops = without(outer, job->near);
	insert(&loops, loops.n, left, near_dst, near_src);
	walk(&loops, 0, &job->pair, dst + (extent - left) * near_dst,
		src + (extent - left) * near_src);
}

void raw_run(const struct raw_job *job, char *dst, const char *src)
{
	dst += job->dst0;
	src += job->src0;
	if (job->near >= 0)
		walk_stretches(job, dst, src);
	else
		walk(&job->outer, 0, &job->pair, dst, src);
}
