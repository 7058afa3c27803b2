// SPDX-License-Identifier: MIT
/*
 * The cost of a view operation. Each is called many times on a layout that the
 * compiler cannot see through, through the shared library as a user's program
 * would; the best of some rounds is taken, since the rest is other people's
 * work on the same cores.
 */
#include <stdio.h>
#include <string.h>

#include <tarn/layout.h>

#include "bench/times.h"

#define CALLS 100000
#define ROUNDS 25     /* picked: half a second in all */
#define TARGET_NS 25. /* of slice, select, transpose, permute, unsqueeze */

static const int order[] = {2, 0, 1};
static const int64_t wide[] = {4, 8, 5, 16};
static const int64_t pair[] = {128, 16};

static int do_slice(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_slice(l, 0, 1, 7, 1, ret);
}

static int do_slice_step(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_slice(l, 1, TARN_NONE, TARN_NONE, -2, ret);
}

static int do_select(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_select(l, 1, 3, ret);
}

static int do_transpose(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_transpose(l, 0, 2, ret);
}

static int do_permute(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_permute(l, 3, order, ret);
}

static int do_unsqueeze(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_unsqueeze(l, 1, ret);
}

static int do_expand(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_expand(l, 4, wide, ret);
}

static int do_view(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_view(l, 2, pair, ret);
}

static int do_expression(const struct tarn_layout *l, struct tarn_layout *ret)
{
	return tarn_layout_eval(l, "[0:4, ::2].transpose(0,1)", ret);
}

static const struct {
	const char *name;
	int (*call)(const struct tarn_layout *l, struct tarn_layout *ret);
	double target_ns; /* 0: none is promised */
} operations[] = {
	{"slice", do_slice, TARGET_NS},
	{"slice with step", do_slice_step, TARGET_NS},
	{"select", do_select, TARGET_NS},
	{"transpose", do_transpose, TARGET_NS},
	{"permute", do_permute, TARGET_NS},
	{"unsqueeze", do_unsqueeze, TARGET_NS},
	{"expand", do_expand, TARGET_NS},
	{"view", do_view, TARGET_NS},
	{"expression", do_expression, 0},
};

static double best_ns(
	int (*call)(const struct tarn_layout *, struct tarn_layout *),
	const struct tarn_layout *l)
{
	double best = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		struct tarn_layout out;
		double begin = wall_ns(), each;

		for (int i = 0; i < CALLS; i++) {
			if (call(l, &out) < 0)
				return -1;
			/* The result is used, and l may have changed. */
			__asm__ volatile("" : : "r"(&out), "r"(l) : "memory");
		}
		each = (wall_ns() - begin) / CALLS;
		if (each < best)
			best = each;
	}
	return best;
}

int main(void)
{
	static const int64_t shape[] = {8, 16, 16};
	static const int64_t ones[] = {8, 1, 16};
	struct tarn_layout l, narrow;

	if (tarn_layout_contiguous(TARN_F32, 3, shape, &l) < 0 ||
		tarn_layout_contiguous(TARN_F32, 3, ones, &narrow) < 0) {
		fprintf(stderr, "%s\n", tarn_error_message());
		return 1;
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]);
		i++) {
		bool expand = operations[i].call == do_expand;
		double ns = best_ns(operations[i].call, expand ? &narrow : &l);

		if (ns < 0) {
			fprintf(stderr, "%s: %s\n", operations[i].name,
				tarn_error_message());
			return 1;
		}
		printf("view: %-16s %6.1f ns", operations[i].name, ns);
		if (operations[i].target_ns > 0)
			printf("   target at most %g ns: %s",
				operations[i].target_ns,
				ns <= operations[i].target_ns ? "met"
							      : "missed");
		putchar('\n');
	}
	return 0;
}
