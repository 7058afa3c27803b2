// SPDX-License-Identifier: MIT
/*
 * Rows picked by number. Their addresses are known long before their bytes are
 * needed, which no CPU finds out by itself; so while a row is moved, the lines
 * of one that comes some rows later are on their way, and of one that comes
 * later still the first line, with the walk through the page tables that each
 * page takes.
 *
 * They are brought into the second cache only. A core can wait for 16 lines or
 * so for its first cache, which the rows that it moves need as well, and for
 * some 48 for the second: with random rows of 264 bytes in 4 KiB pages that is
 * about 42 ns a row, and 66 without any prefetch or with one into the first.
 */
#include "lib/move/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/move/bytes.h"
#include "lib/move/rows_walk.h"

/* Lines between one that is prefetched and the one that is moved: well more
 * than can be on their way at once, since those that miss the TLB take longer,
 * and little beside a second cache. Measured: 100 to 160 are alike. */
#define LINES_AHEAD 128

/* Of a longer row the CPU itself prefetches the rest. */
#define REACH_MAX (16 * LINE)

/* The bytes that a row reaches, which has its first one at 0. */
static void plan_reach(struct rows *rows, const struct raw *raw)
{
	int64_t first = 0, last = raw->size;

	for (int i = 0; i < raw->n; i++) {
		int64_t span = raw->src[i] * (raw->extent[i] - 1);

		if (span < 0)
			first += span;
		else
			last += span;
	}
	rows->reach_first = first;
	rows->reach = MIN(last - first, REACH_MAX);
	rows->ahead =
		(int)MIN(MAX(LINES_AHEAD * LINE / (rows->reach + LINE), 2),
			ROWS_LEAD_MAX / 2);
	rows->lead = 2 * rows->ahead;
}

bool rows_plan(struct rows *ret, const struct nest *row, int64_t dst_step,
	int64_t src_step)
{
	struct raw raw;

	if (!bytes_loops(row, false, &raw, &ret->dst0, &ret->src0))
		return false;
	ret->dst_step = dst_step;
	ret->src_step = src_step;
	ret->run = 0;
	if (raw.n == 0)
		ret->run = raw.size;
	else if (raw.n == 1 && raw.dst[0] == raw.size && raw.src[0] == raw.size)
		ret->run = raw.size * raw.extent[0];
	else
		raw_plan(&ret->job, &raw);
	plan_reach(ret, &raw);
	return true;
}

/* ---- the walk -------------------------------------------------------- */

static struct walk walk_of(const struct rows *rows, const void *src,
	const int64_t *numbers, int64_t n)
{
	return (struct walk) {
		.src = (const char *)src + rows->src0,
		.dst_step = rows->dst_step,
		.src_step = rows->src_step,
		.reach_first = rows->reach_first,
		.reach = rows->reach,
		.ahead = rows->ahead,
		.lead = rows->lead,
		.numbers = numbers,
		.n = n,
		.known = n,
	};
}

INLINE void walk_runs(const struct walk *walk, size_t size)
{
	const struct walk w = *walk;
	char *dst = w.dst;

	for (int64_t i = 0; i < w.n; i++, dst += w.dst_step) {
		prefetch_from(&w, i, (int64_t)size);
		memcpy(dst, row_at(&w, i), size);
	}
}

#define FIXED(size)                                                            \
	case size:                                                             \
		walk_runs(w, size);                                            \
		break

static void walk_any_runs(const struct walk *w, int64_t run)
{
	switch (run) {
		FIXED(1);
		FIXED(2);
		FIXED(4);
		FIXED(8);
		FIXED(16);
		FIXED(32);
		FIXED(64);
	default:
		/* The C library knows the CPU's widest vectors, too. */
		if (!walk_avx512(w, run))
			walk_runs(w, (size_t)run);
	}
}

static void walk_jobs(const struct walk *w, const struct raw_job *job)
{
	char *dst = w->dst;

	for (int64_t i = 0; i < w->n; i++, dst += w->dst_step) {
		prefetch_from(w, i, w->reach);
		raw_run(job, dst, row_at(w, i));
	}
}

void rows_begin(const struct rows *rows, const void *src,
	const int64_t *numbers, int64_t n)
{
	struct walk w = walk_of(rows, src, numbers, n);

	for (int64_t i = 0; i < MIN(n, rows->ahead); i++)
		prefetch_row(&w, i);
	for (int64_t i = rows->ahead; i < MIN(n, rows->lead); i++)
		prefetch_line(row_at(&w, i) + rows->reach_first);
}

void rows_move(const struct rows *rows, void *dst, int64_t first,
	const void *src, const int64_t *numbers, int64_t n, int64_t follow)
{
	struct walk w = walk_of(rows, src, numbers, n);

	w.dst = (char *)dst + rows->dst0 + first * rows->dst_step;
	w.known += follow;
	if (rows->run)
		walk_any_runs(&w, rows->run);
	else
		walk_jobs(&w, &rows->job);
}
