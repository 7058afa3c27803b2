// SPDX-License-Identifier: MIT
/*
 * Moves elements one by one: for the edges of tiles, and for strides without a
 * better way. Each size has a loop of its own, in which memcpy is a move.
 */
#include "lib/move/raw.h"

#include <string.h>

struct block {
	char *dst;
	const char *src;
	int64_t rows, row_dst, row_src;
	int64_t cols, col_dst, col_src;
};

#define ELEMENTS(size)                                                         \
	case size:                                                             \
		for (int64_t j = 0; j < b->cols; j++) {                        \
			char *d = b->dst + j * b->col_dst;                     \
			const char *s = b->src + j * b->col_src;               \
                                                                               \
			for (int64_t i = 0; i < b->rows; i++) {                \
				memcpy(d, s, size);                            \
				d += b->row_dst;                               \
				s += b->row_src;                               \
			}                                                      \
		}                                                              \
		break

static void any_size(const struct block *b, size_t size)
{
	for (int64_t j = 0; j < b->cols; j++)
		for (int64_t i = 0; i < b->rows; i++)
			memcpy(b->dst + j * b->col_dst + i * b->row_dst,
				b->src + j * b->col_src + i * b->row_src, size);
}

static void copy(const struct block *b, int64_t size)
{
	switch (size) {
		ELEMENTS(1);
		ELEMENTS(2);
		ELEMENTS(3);
		ELEMENTS(4);
		ELEMENTS(6);
		ELEMENTS(8);
		ELEMENTS(12);
		ELEMENTS(16);
		ELEMENTS(24);
		ELEMENTS(32);
		ELEMENTS(48);
		ELEMENTS(64);
	default:
		any_size(b, (size_t)size);
	}
}

void raw_elements(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	struct block b = {
		.dst = dst,
		.src = src,
		.rows = rows,
		.row_dst = pair->row_dst,
		.row_src = pair->row_src,
		.cols = cols,
		.col_dst = col_dst,
		.col_src = pair->col_src,
	};

	/* Few rows are better as columns of the inner loop. */
	if (rows < cols && rows < 8) {
		b.rows = cols;
		b.row_dst = col_dst;
		b.row_src = pair->col_src;
		b.cols = rows;
		b.col_dst = pair->row_dst;
		b.col_src = pair->row_src;
	}
	copy(&b, pair->size);
}
