// SPDX-License-Identifier: MIT
/*
 * The steps of a reshape.
 *
 * A shape cuts the line of all elements at its prefix products: [6, 8] at 6 and
 * 48, [2, 24] at 2 and 48. Splitting a dimension adds a cut, merging two takes
 * one away. So the two lists of cuts, walked once in parallel, determine
 * everything: with all the cuts of both, the shape is the common refinement
 * ([2, 3, 8]), provided that each cut divides the next; splits lead to it and
 * merges lead on. Where some cut does not divide the next (4 and 6), the
 * dimensions between the two nearest cuts that both have are flattened first;
 * the others stay as they are.
 *
 * The walk goes from the last cut, which both have, to the first: so that of
 * cuts that repeat (extents of 1) the last ones are paired, and every group is
 * closed.
 */
#include "lib/layout/layout.h"
#include "lib/layout/reshape.h"

/* The dimensions of from between two cuts that both have. */
struct segment {
	int first;
	int last;
	bool fits; /* each cut divides the next */
};

/* The segments, the last one first; returns how many. */
static int find_segments(int m, const int64_t *from, int n, const int64_t *to,
	int64_t numel, struct segment segments[TARN_NDIM_MAX])
{
	int64_t p = numel, q = numel, after = numel;
	int i = m - 1, j = n - 1;
	int n_segments = 0;

	/* The last cut of both is the same, and opens the first segment. */
	while (i >= 0 || j >= 0) {
		bool take_from = i >= 0 && (j < 0 || p >= q);
		bool take_to = j >= 0 && (i < 0 || q >= p);
		int64_t cut = take_from ? p : q;

		if (take_from && take_to)
			segments[n_segments++] = (struct segment) {i, i, true};
		if (after % cut)
			segments[n_segments - 1].fits = false;
		after = cut;
		if (take_from) {
			segments[n_segments - 1].first = i;
			p /= from[i--];
		}
		if (take_to)
			q /= to[j--];
	}
	return n_segments;
}

/* The common refinement, last dimension first. */
struct refinement {
	int n;
	struct {
		int64_t cut;
		bool from; /* is it a cut of from? */
		bool to;
	} at[2 * TARN_NDIM_MAX];
};

/* Of shapes in which every cut divides the next. false where the refinement
 * would have too many dimensions for a layout. */
static bool refine(int m, const int64_t *from, int n, const int64_t *to,
	int64_t numel, struct refinement *ret)
{
	int64_t p = numel, q = numel;
	int i = m - 1, j = n - 1;

	ret->n = 0;
	while (i >= 0 || j >= 0) {
		bool take_from = i >= 0 && (j < 0 || p >= q);
		bool take_to = j >= 0 && (i < 0 || q >= p);

		ret->at[ret->n].cut = take_from ? p : q;
		ret->at[ret->n].from = take_from;
		ret->at[ret->n].to = take_to;
		ret->n++;
		if (take_from)
			p /= from[i--];
		if (take_to)
			q /= to[j--];
	}
	return ret->n <= TARN_NDIM_MAX;
}

static struct tarn_reshape_step *add_step(
	struct tarn_reshape_plan *plan, uint8_t kind, int dim, int n)
{
	struct tarn_reshape_step *step = &plan->steps[plan->n_steps++];

	step->kind = kind;
	step->dim = dim;
	step->n = n;
	return step;
}

static void add_merge(
	struct tarn_reshape_plan *plan, int dim, int n, int64_t extent)
{
	add_step(plan, 'm', dim, n)->sizes[0] = extent;
}

static void add_split(
	struct tarn_reshape_plan *plan, int dim, int n, const int64_t *sizes)
{
	struct tarn_reshape_step *step = add_step(plan, 's', dim, n);

	for (int i = 0; i < n; i++)
		step->sizes[i] = sizes[i];
}

/* Splits to the refinement, then merges from it: group by group. */
static void plan_refined(const struct refinement *fine, const int64_t *to,
	struct tarn_reshape_plan *plan)
{
	int64_t sizes[TARN_NDIM_MAX];
	int64_t before = 1;
	int begin = 0, merged = 0;
	int splits;

	for (int k = 0; k < fine->n; k++) {
		int64_t cut = fine->at[fine->n - 1 - k].cut;

		sizes[k] = cut / before;
		before = cut;
		if (!fine->at[fine->n - 1 - k].from)
			continue;
		if (k > begin)
			add_split(plan, begin, k + 1 - begin, sizes + begin);
		begin = k + 1;
	}
	splits = plan->n_steps;
	begin = 0;
	for (int k = 0; k < fine->n; k++) {
		if (!fine->at[fine->n - 1 - k].to)
			continue;
		if (k > begin)
			add_merge(plan, merged, k + 1 - begin, to[merged]);
		merged++;
		begin = k + 1;
	}
	if (plan->n_steps == 0)
		plan->kind = TARN_RESHAPE_SAME;
	else if (splits == 0)
		plan->kind = TARN_RESHAPE_MERGES;
	else if (splits == plan->n_steps)
		plan->kind = TARN_RESHAPE_SPLITS;
	else
		plan->kind = TARN_RESHAPE_SPLITS_MERGES;
}

/* Merges the segments that do not fit; the shape that is left, and its rank. */
static int plan_segments(int n, const struct segment *segments,
	const int64_t *from, int64_t *shape, struct tarn_reshape_plan *plan)
{
	int ndim = 0;

	while (n-- > 0) {
		const struct segment *s = &segments[n];
		int64_t extent = 1;

		for (int i = s->first; i <= s->last; i++) {
			extent *= from[i];
			if (s->fits)
				shape[ndim++] = from[i];
		}
		if (s->fits)
			continue;
		add_merge(plan, ndim, s->last + 1 - s->first, extent);
		shape[ndim++] = extent;
	}
	return ndim;
}

/* Segment by segment; false where only one flat dimension for all will work. */
static bool plan_cuts(int m, const int64_t *from, int n, const int64_t *to,
	int64_t numel, struct tarn_reshape_plan *plan)
{
	struct segment segments[TARN_NDIM_MAX];
	struct tarn_reshape_plan steps = {.n_steps = 0};
	struct refinement fine;
	int64_t shape[TARN_NDIM_MAX];
	int ndim = plan_segments(find_segments(m, from, n, to, numel, segments),
		segments, from, shape, &steps);
	bool flat = steps.n_steps > 0;

	if (!refine(ndim, shape, n, to, numel, &fine))
		return false;
	plan_refined(&fine, to, &steps);
	if (flat)
		steps.kind = TARN_RESHAPE_FLAT;
	*plan = steps;
	return true;
}

/* Through [numel]. A scalar is a merge of no dimensions at all. */
static void plan_flat(int m, int n, const int64_t *to, int64_t numel,
	struct tarn_reshape_plan *plan)
{
	plan->kind = TARN_RESHAPE_FLAT;
	if (m != 1)
		add_merge(plan, 0, m, numel);
	else
		plan->kind = TARN_RESHAPE_SPLITS;
	if (n != 1)
		add_split(plan, 0, n, to);
	else
		plan->kind = TARN_RESHAPE_MERGES;
}

int tarn_reshape_explain(int from_ndim, const int64_t *from, int to_ndim,
	const int64_t *to, struct tarn_reshape_plan *ret)
{
	struct tarn_reshape_plan plan = {.kind = TARN_RESHAPE_SAME};
	int64_t sizes[TARN_NDIM_MAX], numel = 0;
	int r;

	r = layout_check_ndim("explain", from_ndim);
	if (r == 0)
		r = layout_count("explain", TARN_U8, from_ndim, from, &numel);
	if (r == 0)
		r = shape_infer("explain", TARN_U8, from_ndim, from, to_ndim,
			to, sizes);
	if (r < 0)
		return r;
	if (from_ndim == to_ndim &&
		(to_ndim == 0 ||
			memcmp(from, sizes, to_ndim * sizeof(*to)) == 0))
		; /* nothing to do */
	else if (numel == 0 || from_ndim == 0 || to_ndim == 0 ||
		 !plan_cuts(from_ndim, from, to_ndim, sizes, numel, &plan))
		plan_flat(from_ndim, to_ndim, sizes, numel, &plan);
	*ret = plan;
	return 0;
}
