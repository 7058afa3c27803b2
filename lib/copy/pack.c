// SPDX-License-Identifier: MIT
/*
 * A range of a count over nested loops is not a nest, but it consists of a few:
 * the end of the first step, whole steps, and the beginning of the last one;
 * the two ends are divided again in the same way, one loop further in.
 */
#include "lib/copy/pack.h"

#include "base/checked.h"

void pack_plan(struct pack *ret, const struct nest *nest,
	const struct convert *convert)
{
	ret->move = (struct move) {.nest = *nest, .convert = *convert};
	ret->count = 1;
	for (int i = nest->n - 1; i >= 0; i--) {
		ret->steps[i] = ret->count;
		ret->move.nest.dst[i] = ret->count;
		ret->count *= nest->extent[i];
	}
	ret->move.nest.dst0 = 0;
}

struct range {
	const struct pack *pack;
	int64_t index[TARN_NDIM_MAX];
	int64_t first; /* goes to the beginning of dst */
	void *dst;
	const void *src;
};

static void run_part(struct range *r, int level, int64_t first, int64_t count)
{
	struct move part = r->pack->move;

	nest_part(
		&r->pack->move.nest, level, r->index, first, count, &part.nest);
	part.nest.dst0 -= r->first;
	move_run(&part, r->dst, r->src);
}

/* Elements first .. end - 1 of loop level, counted from the position of the
 * outer loops. It does not recurse deeper than there are loops: a step of the
 * innermost one is an element. */
static void run_loop(struct range *r, int level, int64_t first, int64_t end)
{
	int64_t step = r->pack->steps[level];
	int64_t head = first / step, inside = first % step;

	if (inside) {
		int64_t stop = MIN(end - head * step, step);

		r->index[level] = head++;
		run_loop(r, level + 1, inside, stop);
	}
	if (head < end / step)
		run_part(r, level, head, end / step - head);
	if (end / step >= head && end % step) {
		r->index[level] = end / step;
		run_loop(r, level + 1, 0, end % step);
	}
}

void pack_run(const struct pack *pack, int64_t first, int64_t count, void *dst,
	const void *src)
{
	struct range r = {
		.pack = pack,
		.first = first,
		.dst = dst,
		.src = src,
	};

	if (pack->move.nest.n == 0)
		move_run(&pack->move, dst, src);
	else if (count > 0)
		run_loop(&r, 0, first, first + count);
}

int64_t pack_source(const struct pack *pack, int64_t i)
{
	const struct nest *nest = &pack->move.nest;
	int64_t at = nest->src0;

	for (int l = 0; l < nest->n; l++) {
		at += i / pack->steps[l] * nest->src[l];
		i %= pack->steps[l];
	}
	return at;
}
