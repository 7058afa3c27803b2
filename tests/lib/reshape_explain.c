// SPDX-License-Identifier: MIT
/*
 * A reshape explained as merges and splits: the plans that the documentation
 * promises, and then, for every pair of shapes of a few small products, that
 * the steps really lead from one to the other and that the kind is the
 * simplest that can.
 */
#include "tests/kit/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <tarn/layout.h>

#define SHAPES_MAX 600

struct shape {
	int ndim;
	int64_t v[TARN_NDIM_MAX];
};

/* Does the steps' arithmetic and gives the shape that comes out; false where
 * a step does not fit the shape that it meets. */
static bool follow(const struct tarn_reshape_plan *plan, struct shape *s)
{
	for (int i = 0; i < plan->n_steps; i++) {
		const struct tarn_reshape_step *step = &plan->steps[i];
		bool merge = step->kind == 'm';
		int old = merge ? step->n : 1, new = merge ? 1 : step->n;
		int64_t before = 1, after = 1;

		if (step->dim + old > s->ndim || s->ndim - old + new > 12)
			return false;
		for (int k = 0; k < old; k++)
			before *= s->v[step->dim + k];
		for (int k = 0; k < new; k++)
			after *= step->sizes[k];
		if (before != after)
			return false;
		memmove(s->v + step->dim + new, s->v + step->dim + old,
			(s->ndim - step->dim - old) * sizeof(int64_t));
		memcpy(s->v + step->dim, step->sizes, new * sizeof(int64_t));
		s->ndim += new - old;
	}
	return true;
}

/* Every cut of b is one of a, as often. */
static bool cuts_within(const struct shape *a, const struct shape *b)
{
	int64_t p = 1, q = 1;
	int i = 0;

	for (int j = 0; j < b->ndim; j++) {
		q *= b->v[j];
		do {
			if (i == a->ndim)
				return false;
			p *= a->v[i++];
		} while (p != q);
	}
	return true;
}

static int make_shapes(
	int64_t numel, int depth, struct shape *now, struct shape *all, int n)
{
	if (numel == 1)
		all[n++] = *now;
	if (now->ndim == depth)
		return n;
	for (int64_t f = 1; f <= numel; f++) {
		if (numel % f)
			continue;
		now->v[now->ndim++] = f;
		n = make_shapes(numel / f, depth, now, all, n);
		now->ndim--;
	}
	return n;
}

static void test_all_pairs(int64_t numel, int depth)
{
	static struct shape all[SHAPES_MAX];
	struct shape now = {.ndim = 0};
	int n = make_shapes(numel, depth, &now, all, 0);
	int wrong = 0, unkind = 0, flat = 0;

	for (int i = 0; i < n; i++) {
		for (int j = 0; j < n; j++) {
			struct tarn_reshape_plan plan;
			struct shape s = all[i];
			bool merges = cuts_within(&all[i], &all[j]);
			bool splits = cuts_within(&all[j], &all[i]);

			if (tarn_reshape_explain(all[i].ndim, all[i].v,
				    all[j].ndim, all[j].v, &plan) < 0)
				bail("%s", tarn_error_message());
			if (!follow(&plan, &s) || s.ndim != all[j].ndim ||
				memcmp(s.v, all[j].v,
					s.ndim * sizeof(int64_t)) != 0)
				wrong++;
			if (all[i].ndim && all[j].ndim)
				unkind += merges != (plan.kind <= 1) ||
					  splits != (plan.kind == 0 ||
							    plan.kind == 2);
			flat += plan.kind == TARN_RESHAPE_FLAT;
		}
	}
	is_int(0, wrong,
		"%d shapes of %lld elements: the steps lead from each to each",
		n, (long long)numel);
	is_int(0, unkind,
		"a plan has only merges or only splits where those suffice");
	diag("%d pairs go through one flat dimension", flat);
}

static void plan_is(int kind, const char *wanted, int m, const int64_t *from,
	int n, const int64_t *to)
{
	struct tarn_reshape_plan plan;
	char text[400] = "";

	if (tarn_reshape_explain(m, from, n, to, &plan) < 0)
		bail("%s", tarn_error_message());
	for (int i = 0; i < plan.n_steps; i++) {
		size_t at = strlen(text);

		snprintf(text + at, sizeof(text) - at, "%s%c%d", i ? " " : "",
			plan.steps[i].kind, plan.steps[i].dim);
		for (int k = 0;
			k < (plan.steps[i].kind == 'm' ? 1 : plan.steps[i].n);
			k++) {
			at = strlen(text);
			snprintf(text + at, sizeof(text) - at, ",%lld",
				(long long)plan.steps[i].sizes[k]);
		}
	}
	is_int(kind, plan.kind, "the plan has the expected kind: \"%s\"",
		wanted);
	is_str(wanted, text, "the plan has the expected steps");
}

#define SHAPE(...)                                                             \
	sizeof((int64_t[]) {__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) \
	{                                                                      \
		__VA_ARGS__                                                    \
	}

int main(void)
{
	static const int64_t two[] = {2};
	struct tarn_reshape_plan plan;

	plan_is(TARN_RESHAPE_MERGES, "m0,6 m1,20", SHAPE(2, 3, 4, 5),
		SHAPE(6, 20));
	plan_is(TARN_RESHAPE_SPLITS, "s0,2,3 s2,4,5", SHAPE(6, 20),
		SHAPE(2, 3, 4, 5));
	plan_is(TARN_RESHAPE_SPLITS_MERGES, "s0,2,3 m1,24", SHAPE(6, 8),
		SHAPE(2, 24));
	plan_is(TARN_RESHAPE_FLAT, "m0,48 s0,4,12", SHAPE(6, 8), SHAPE(4, 12));
	/* What need not be flat is left alone, or takes its own way. */
	plan_is(TARN_RESHAPE_FLAT, "m1,48 s1,4,12", SHAPE(2, 6, 8, 5),
		SHAPE(2, 4, 12, 5));
	plan_is(TARN_RESHAPE_FLAT, "m0,48 s0,4,12 s2,3,5 m3,35",
		SHAPE(6, 8, 15, 7), SHAPE(4, 12, 3, 35));
	plan_is(TARN_RESHAPE_FLAT, "m0,24 m1,24 s0,6,4 s2,6,4",
		SHAPE(4, 6, 4, 6), SHAPE(6, 4, 6, 4));
	plan_is(TARN_RESHAPE_SAME, "", SHAPE(6, 8), SHAPE(6, -1));
	plan_is(TARN_RESHAPE_SPLITS_MERGES, "s1,6,1 m0,6", SHAPE(1, 6),
		SHAPE(6, 1));
	plan_is(TARN_RESHAPE_MERGES, "m0,0", SHAPE(2, 0, 3), SHAPE(0));
	plan_is(TARN_RESHAPE_FLAT, "m0,0 s0,0,5", SHAPE(2, 0, 3), SHAPE(0, 5));
	plan_is(TARN_RESHAPE_MERGES, "m0,1", 0, NULL, SHAPE(1));
	plan_is(TARN_RESHAPE_SPLITS, "s0", SHAPE(1), 0, NULL);
	/* The refinement would have 16 dimensions. */
	plan_is(TARN_RESHAPE_FLAT, "m0,65536 s0,2,4,4,4,4,4,4,4,2",
		SHAPE(4, 4, 4, 4, 4, 4, 4, 4),
		SHAPE(2, 4, 4, 4, 4, 4, 4, 4, 2));

	test_all_pairs(12, 4);
	test_all_pairs(36, 3);
	test_all_pairs(30, 3);
	test_all_pairs(1, 4);

	is_int(-EINVAL, tarn_reshape_explain(1, two, SHAPE(3), &plan),
		"a plan for another number of elements is refused");
	is_str("explain: shape [2] has 2 elements, which [3] cannot hold",
		tarn_error_message(),
		"the error names the shape that does not fit");
	is_int(-EINVAL,
		tarn_reshape_explain(
			13, (const int64_t[13]) {0}, 1, two, &plan),
		"a plan from rank 13 is refused");
	return done(39);
}
