// SPDX-License-Identifier: MIT
/*
 * Rows of src become columns of dst, in strips as high as a tile. While one
 * strip is transposed the next is prefetched, since no CPU predicts rows that
 * are a page apart. Where a strip has more rows than a set of the first-level
 * cache has ways, and the rows are a power of two apart, its lines would evict
 * each other before they are used up; then the strip is first copied to a
 * compact buffer.
 */
#include "lib/move/raw.h"

#include <string.h>

#include "base/checked.h"

/* For first-level caches in general: 8 or more ways, and sets that repeat after
 * 4 KiB at most. */
#define WAYS 8
#define SETS 4096

/* Bytes of a row that are copied together: half of a page, so that all rows of
 * a strip fit beside their transpose. */
#define CLOSE 256

static int size_log2(int64_t size)
{
	return __builtin_ctzll((unsigned long long)size);
}

static void fetch(const char *src, int64_t stride, int64_t rows, int64_t bytes)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t at = 0; at < bytes; at += LINE)
			__builtin_prefetch(src + i * stride + at);
}

/* A strip of as many columns as are whole tiles, copied to the buffer first. */
static void strip_close(const struct raw_pair *pair, int k, char *dst,
	int64_t col_dst, const char *src, int64_t cols)
{
	int64_t high = pair->simd->rows[k], wide = pair->simd->cols[k];
	int64_t most = CLOSE / pair->size;
	_Alignas(LINE) char close[32 * CLOSE];

	for (int64_t j = 0, n; j < cols; j += n) {
		n = MIN(most, cols - j);
		for (int64_t i = 0; i < high; i++)
			memcpy(close + i * CLOSE,
				src + i * pair->row_src + j * pair->size,
				(size_t)(n * pair->size));
		pair->simd->transpose[k](
			dst + j * col_dst, col_dst, close, CLOSE, n / wide);
	}
}

void raw_transpose(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols, int64_t follow)
{
	int k = size_log2(pair->size);
	int64_t high = pair->simd->rows[k], wide = pair->simd->cols[k];
	int64_t whole_rows = rows - rows % high;
	int64_t whole_cols = cols - cols % wide;
	int64_t ahead = MIN(follow, cols) * pair->size;
	bool close = high > WAYS && pair->row_src % SETS == 0;

	for (int64_t i = 0; i < whole_rows; i += high) {
		const char *s = src + i * pair->row_src;
		char *d = dst + i * pair->size;

		if (i + 2 * high <= rows)
			fetch(s + high * pair->row_src, pair->row_src, high,
				cols * pair->size);
		else if (ahead)
			fetch(src + cols * pair->size, pair->row_src,
				MIN(high, rows), ahead);
		if (close)
			strip_close(pair, k, d, col_dst, s, whole_cols);
		else
			pair->simd->transpose[k](d, col_dst, s, pair->row_src,
				whole_cols / wide);
	}
	if (whole_cols < cols)
		raw_elements(pair, dst + whole_cols * col_dst, col_dst,
			src + whole_cols * pair->size, whole_rows,
			cols - whole_cols);
	if (whole_rows < rows)
		raw_elements(pair, dst + whole_rows * pair->size, col_dst,
			src + whole_rows * pair->row_src, rows - whole_rows,
			cols);
}
