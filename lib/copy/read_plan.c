/* SPDX-License-Identifier: MIT */
/*
 * Plans the reading of a view. The nest is ordered by the file, so that its
 * loops fall into three groups, from the inside out:
 *
 *	those whose gaps are cheaper to read than to skip: together one range;
 *	those whose steps still fit into a window: many ranges of one part,
 *	laid side by side in it, the gaps squeezed out;
 *	the others, stepped through part by part.
 *
 * A window is an affine image of the file: each loop has a stride there too, so
 * that what was read is one box again, moved by one call. Direct reads may
 * round ranges outward; so strides in the window are congruent to those in the
 * file.
 *
 * Rows that go to memory transposed are cut into tiles first: a window of one
 * long row would touch as many cache lines as it has elements.
 */
#include "lib/copy/read_plan.h"

#include <stdlib.h>

#include "base/checked.h"

enum {
	/* Bytes of dst that a part produces, so that a broadcast does not
	 * occupy the thread for long; but no part reads fewer than the second
	 * constant for that. Picked, not tuned. */
	PART_DST_MAX = 4 << 20,
	PART_LEAST = 64 << 10,
	/* The least that transposed writes to memory should fill. */
	CACHE_LINE = 64,
};

/* ---- sizes ----------------------------------------------------------- */

static uint64_t bytes_of(int64_t elements, int bits)
{
	return ((uint64_t)elements * (uint64_t)bits + 7) / 8;
}

/* From the first to the last element of the loops from level on. */
static int64_t span_of(const struct nest *nest, int level)
{
	int64_t span = 1;

	for (int i = level; i < nest->n; i++)
		span += nest->src[i] * (nest->extent[i] - 1);
	return span;
}

static uint64_t slack(const struct read_plan *plan)
{
	return 2 * (uint64_t)(plan->price.align - 1);
}

/*
 * The stride in a window of a loop whose steps are separate ranges: room for a
 * step, and the remainder of its stride in the file. Three aligned blocks hold
 * whole packs of six-bit elements.
 */
static int64_t pitch_of(const struct read_plan *plan, int loop, uint64_t inside)
{
	uint64_t block = plan->price.align;
	uint64_t stride = bytes_of(plan->nest.src[loop], plan->src_bits);
	uint64_t pitch;

	if (plan->src_bits == 6)
		block *= 3;
	pitch = inside - inside % block + stride % block;
	if (pitch < inside)
		pitch += block;
	return (int64_t)(pitch * 8 / (uint64_t)plan->src_bits);
}

/* ---- choosing -------------------------------------------------------- */

/* The outermost loop from which on it is cheaper to read the gaps than to skip
 * them. */
static int find_apart(const struct read_plan *plan)
{
	const struct nest *nest = &plan->nest;
	int i = nest->n;

	for (; i > 0; i--) {
		int64_t gap = nest->src[i - 1] - span_of(nest, i);

		if (gap > 0 && bytes_of(gap, plan->src_bits) > plan->price.gap)
			break;
	}
	return i;
}

/* Computes the bytes of window that the loops from each level on need, and a
 * loop's steps. */
static void measure(struct read_plan *plan)
{
	const struct nest *nest = &plan->nest;

	for (int i = nest->n; i >= plan->apart; i--)
		plan->size[i] = bytes_of(span_of(nest, i), plan->src_bits) +
				slack(plan);
	for (int i = plan->apart - 1; i >= 0; i--) {
		uint64_t more;

		plan->size[i] = UINT64_MAX;
		if (plan->size[i + 1] > plan->price.window)
			continue;
		plan->pitch[i] = pitch_of(plan, i, plan->size[i + 1]);
		if (!mul_u64((uint64_t)nest->extent[i] - 1,
			    bytes_of(plan->pitch[i], plan->src_bits), &more))
			add_u64(more, plan->size[i + 1], &plan->size[i]);
	}
}

static bool is_row(const struct read_plan *plan)
{
	int last = plan->nest.n - 1;

	return plan->plain && plan->nest.src[last] == 1 &&
	       plan->nest.dst[last] == 1 &&
	       (last == 0 || bytes_of(plan->nest.extent[last],
				     plan->src_bits) >= plan->price.straight);
}

/* Steps of plan->level that a part may have. */
static int64_t count_steps(const struct read_plan *plan)
{
	const struct nest *nest = &plan->nest;
	int level = plan->level;
	bool apart = level < plan->apart;
	uint64_t room = plan->price.window - plan->size[level + 1];
	uint64_t step = bytes_of(
		apart ? plan->pitch[level] : nest->src[level], plan->src_bits);
	int64_t inside = 1, steps = nest->extent[level], least, pack;

	for (int i = level + 1; i < nest->n; i++)
		inside *= nest->extent[i];
	inside = (int64_t)bytes_of(inside, plan->dst_bits);
	if (plan->price.window <= plan->size[level + 1])
		return 1;
	if (step > 0)
		steps = MIN(steps, (int64_t)(room / step) + 1);
	least = step > 0 ? (int64_t)(PART_LEAST / step) + 1 : 1;
	if (steps > least)
		steps = MAX(least, MIN(steps, PART_DST_MAX / inside));
	/* Both sides of a cut begin at a byte. */
	pack = MAX(tarn_dtype_pack(nest->src_dtype),
		tarn_dtype_pack(nest->dst_dtype));
	if (steps < nest->extent[level] && steps > pack)
		steps -= steps % pack;
	return steps;
}

static void choose(struct read_plan *plan)
{
	int last = plan->nest.n - 1;

	plan->straight = is_row(plan);
	plan->level = last;
	plan->steps = plan->nest.extent[last];
	plan->apart = last;
	if (plan->straight)
		return;
	plan->apart = find_apart(plan);
	measure(plan);
	for (plan->level = 0; plan->level < last; plan->level++)
		if (plan->size[plan->level + 1] <= plan->price.window)
			break;
	plan->steps = count_steps(plan);
}

/* ---- tiles ----------------------------------------------------------- */

/* The loop whose steps lie closest together in dst. */
static int closest_in_dst(const struct nest *nest)
{
	int best = nest->n - 1;

	for (int i = nest->n - 2; i >= 0; i--)
		if (nest->dst[i] &&
			llabs(nest->dst[i]) < llabs(nest->dst[best]))
			best = i;
	return best;
}

/* Does a part, for lack of rows, write only a small part of each cache line of
 * dst? */
static bool is_transposed(const struct read_plan *plan, int64_t line)
{
	int last = plan->nest.n - 1, at = closest_in_dst(&plan->nest);

	if (plan->straight || plan->nest.src[last] != 1 || at == last)
		return false;
	return at < plan->level ||
	       (at == plan->level && plan->steps * 4 < line &&
		       plan->steps < plan->nest.extent[at]);
}

/* The elements of a row that a tile has: so many that reading them costs more
 * than requesting them, and so few that a window has room for as many rows as
 * fill a cache line of dst. 0: rows are not cut. */
static int64_t tile_of(const struct read_plan *plan)
{
	uint64_t line = CACHE_LINE * 8 / (uint64_t)plan->dst_bits;
	uint64_t bytes = MAX(plan->price.window / (line + 1), plan->price.gap);
	int64_t tile = (int64_t)(bytes * 8 / (uint64_t)plan->src_bits);

	if (!is_transposed(plan, (int64_t)line))
		return 0;
	tile += -tile & 63; /* whole packs, whole words */
	/* The rest of the row must be a gap that is not read too. */
	return plan->nest.extent[plan->nest.n - 1] >= 4 * tile ? tile : 0;
}

/* Converts row after row into tile after tile: the row's loop is split, and its
 * outer half goes around the loop that is close in dst. */
static void cut_rows(struct nest *nest, int64_t tile)
{
	int last = nest->n - 1, at = closest_in_dst(nest);
	struct nest was = *nest;

	nest->n++;
	for (int i = at; i < last; i++) {
		nest->extent[i + 1] = was.extent[i];
		nest->dst[i + 1] = was.dst[i];
		nest->src[i + 1] = was.src[i];
		nest->channel[i + 1] = was.channel[i];
	}
	nest->extent[at] = was.extent[last] / tile;
	nest->dst[at] = was.dst[last] * tile;
	nest->src[at] = was.src[last] * tile;
	nest->channel[at] = was.channel[last] * tile;
	nest->extent[last + 1] = tile;
	nest->dst[last + 1] = was.dst[last];
	nest->src[last + 1] = was.src[last];
	nest->channel[last + 1] = was.channel[last];
}

static void cut_into_tiles(struct read_plan *plan)
{
	int last = plan->nest.n - 1;
	int64_t tile = tile_of(plan), whole;

	if (tile == 0 || plan->nest.n == TARN_NDIM_MAX)
		return;
	whole = plan->nest.extent[last] - plan->nest.extent[last] % tile;
	plan->rest = plan->nest;
	plan->rest.extent[last] -= whole;
	plan->rest.dst0 += plan->nest.dst[last] * whole;
	plan->rest.src0 += plan->nest.src[last] * whole;
	plan->rest.channel0 += plan->nest.channel[last] * whole;
	plan->has_rest = plan->rest.extent[last] > 0;
	plan->nest.extent[last] = whole;
	cut_rows(&plan->nest, tile);
	choose(plan);
}

void read_plan(struct read_plan *plan, const struct nest *nest, bool plain,
	uint64_t file_offset, const struct read_price *price)
{
	*plan = (struct read_plan) {
		.price = *price,
		.nest = *nest,
		.file = file_offset,
		.src_bits = tarn_dtype_bits(nest->src_dtype),
		.dst_bits = tarn_dtype_bits(nest->dst_dtype),
		.plain = plain,
		.ended = nest->empty,
	};
	if (nest->empty)
		return;
	if (nest->n == 0) {
		plan->nest.n = 1;
		plan->nest.extent[0] = 1;
		plan->nest.dst[0] = plan->nest.src[0] = 1;
		plan->nest.channel[0] = 0;
	}
	choose(plan);
	cut_into_tiles(plan);
}

/* ---- parts ----------------------------------------------------------- */

static uint64_t place(const struct read_plan *plan, int64_t element)
{
	return plan->file + (uint64_t)(element * plan->src_bits / 8);
}

static void make_loops(const struct read_plan *plan, struct read_part *part)
{
	struct nest *box = &part->box;

	part->n = MAX(plan->apart - plan->level, 0);
	part->count = 1;
	for (int i = 0; i < part->n; i++) {
		int64_t pitch = plan->pitch[plan->level + i];

		part->loops[i] = (struct read_loop) {
			.count = (uint64_t)box->extent[i],
			.file = bytes_of(box->src[i], plan->src_bits),
			.window = bytes_of(pitch, plan->src_bits),
		};
		box->src[i] = pitch;
		part->count *= (uint64_t)box->extent[i];
	}
}

static void make_part(const struct read_plan *plan, int64_t first,
	int64_t count, struct read_part *part)
{
	struct nest *box = &part->box;
	int64_t elements = 1;

	nest_part(&plan->nest, plan->level, plan->index, first, count, box);
	for (int i = 0; i < box->n; i++)
		elements *= box->extent[i];
	part->straight = plan->straight;
	part->begin = place(plan, box->src0);
	part->dst = box->dst0 * plan->dst_bits / 8;
	part->bytes = bytes_of(elements, plan->dst_bits);
	part->lead = part->begin % plan->price.align;
	part->size = bytes_of(span_of(box, MAX(plan->apart - plan->level, 0)),
		plan->src_bits);
	box->src0 = 0;
	if (plan->straight) {
		part->size = part->bytes;
		part->n = 0;
		part->count = 1;
	} else {
		make_loops(plan, part);
	}
}

/* Goes to the next steps, or to the next iteration of the outer loops. */
static void advance(struct read_plan *plan, int64_t count)
{
	int i = plan->level;

	for (plan->index[i] += count;
		i >= 0 && plan->index[i] == plan->nest.extent[i];) {
		plan->index[i] = 0;
		if (--i >= 0)
			plan->index[i]++;
	}
	plan->ended = i < 0;
	if (!plan->ended || !plan->has_rest)
		return;
	plan->nest = plan->rest;
	plan->has_rest = false;
	plan->ended = false;
	choose(plan);
}

bool read_plan_next(struct read_plan *plan, struct read_part *ret)
{
	int64_t first, count;

	if (plan->ended)
		return false;
	first = plan->index[plan->level];
	count = MIN(plan->steps, plan->nest.extent[plan->level] - first);
	make_part(plan, first, count, ret);
	advance(plan, count);
	return true;
}

void read_part_range(const struct read_part *part, uint64_t i,
	uint64_t *ret_file, uint64_t *ret_window)
{
	uint64_t file = part->begin, window = part->lead;

	for (int k = part->n - 1; k >= 0; k--) {
		const struct read_loop *loop = &part->loops[k];

		file += i % loop->count * loop->file;
		window += i % loop->count * loop->window;
		i /= loop->count;
	}
	*ret_file = file;
	*ret_window = window;
}

void read_plan_span(const struct nest *nest, uint64_t file_offset,
	uint64_t *ret_begin, uint64_t *ret_end)
{
	int bits = tarn_dtype_bits(nest->src_dtype);
	int64_t first, last;

	nest_span(nest, NEST_SRC, &first, &last);
	*ret_begin = file_offset + (uint64_t)(first * bits / 8);
	*ret_end = file_offset + bytes_of(last + 1, bits);
}
