/* SPDX-License-Identifier: MIT */
#include "lib/set/rows.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* The first range that ends after that row, or at it. */
static size_t find(const struct set_rows *rows, int64_t row)
{
	size_t low = 0, high = rows->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows->ranges[middle].end < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int insert(struct set_rows *rows, size_t i, int64_t begin, int64_t end)
{
	struct set_range *more =
		reallocarray(rows->ranges, rows->n + 1, sizeof(*rows->ranges));

	if (!more)
		return tarn_fail_constant(ENOMEM, "out of memory for rows");
	rows->ranges = more;
	memmove(&more[i + 1], &more[i], (rows->n - i) * sizeof(*more));
	more[i] = (struct set_range) {begin, end};
	rows->n++;
	return 0;
}

int set_rows_add(
	struct set_rows *rows, int64_t begin, int64_t end, int64_t *ret_there)
{
	size_t i = find(rows, begin);
	struct set_range *at = &rows->ranges[i];
	bool joins_left = i < rows->n && at->end == begin;
	size_t next = i + joins_left;
	bool joins_right;

	if (begin == end)
		return 0;
	if (next < rows->n && rows->ranges[next].begin < end) {
		*ret_there = MAX(rows->ranges[next].begin, begin);
		return 1;
	}
	joins_right = next < rows->n && rows->ranges[next].begin == end;
	if (!joins_left && !joins_right)
		return insert(rows, i, begin, end);
	if (joins_left && joins_right) {
		at->end = at[1].end;
		memmove(&at[1], &at[2], (rows->n - i - 2) * sizeof(*at));
		rows->n--;
	} else if (joins_left) {
		at->end = end;
	} else {
		at->begin = begin;
	}
	return 0;
}

bool set_rows_missing(
	const struct set_rows *rows, int64_t end, struct set_range *ret)
{
	int64_t from =
		rows->n && !rows->ranges[0].begin ? rows->ranges[0].end : 0;
	size_t next = from ? 1 : 0;

	ret->begin = from;
	ret->end = next < rows->n ? rows->ranges[next].begin : end;
	return from < end;
}

void set_rows_free(struct set_rows *rows)
{
	free(rows->ranges);
	*rows = (struct set_rows) {.n = 0};
}
