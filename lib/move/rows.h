/* SPDX-License-Identifier: MIT */
/*
 * Rows that are picked by their numbers, in memory: each comes from anywhere in
 * a table, and goes to the next place of dst. There is one plan for all of
 * them.
 */
#pragma once

#include "lib/move/nest.h"
#include "lib/move/raw.h"

/* At most so many rows are prefetched before they are moved. */
#define ROWS_LEAD_MAX 64

struct rows {
	int64_t run; /* bytes of a row that is one run on both sides; or 0 */
	int64_t dst0, src0;         /* bytes where a row begins */
	int64_t dst_step, src_step; /* bytes from one row to the next */
	/* The bytes of a row of src that are prefetched, from src0 on. */
	int64_t reach_first, reach;
	/* Rows between one that is prefetched, or its first line alone, and
	 * the one that is moved. */
	int ahead, lead;
	struct raw_job job; /* of a row that is no run */
};

/*
 * row is the tidy nest of one row, by dst, and not empty; its dst0 and src0 are
 * those of row 0. False: it is not a whole number of bytes.
 */
bool rows_plan(struct rows *ret, const struct nest *row, int64_t dst_step,
	int64_t src_step);

/* Prefetches the first of them: before rows_move. */
void rows_begin(const struct rows *rows, const void *src,
	const int64_t *numbers, int64_t n);

/*
 * Moves n rows, of those numbers, to row first of dst and those after it; dst
 * and src are the addresses of element 0. follow more numbers are known, which
 * are prefetched: rows->lead, or as many as there are.
 */
void rows_move(const struct rows *rows, void *dst, int64_t first,
	const void *src, const int64_t *numbers, int64_t n, int64_t follow);
