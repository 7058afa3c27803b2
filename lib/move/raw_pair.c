// SPDX-License-Identifier: MIT
/*
 * Two loops over elements, of which one walks dst and the other src.
 *
 * What is too far apart for the cache is done in blocks: a block's rows of src
 * are read a few lines each, turned in a buffer that stays in the cache, and
 * leave as rows of dst of a few whole lines each. So every line of either side
 * is touched once, strides that are powers of two (whose lines all compete for
 * the same few places of the cache) cost no more than others, and the lines
 * can be written past the cache, without being read first. Meanwhile the next
 * block of src is fetched: no CPU foresees rows that are a page apart.
 */
#include "lib/move/raw.h"

#include <string.h>

#include "base/checked.h"

/* Half of the smallest first-level cache; the block's lines of src need the
 * rest. */
#define BLOCK 16384

/* Bytes of a block's row in dst: whole lines, several, as memory likes them.
 * Measured: 64 costs a third, 128 a tenth, beyond 256 nothing is won. */
#define BLOCK_ROW 256

const char *const raw_way_name[RAW_WAYS] = {
	[RAW_RUN] = "run",
	[RAW_FILL] = "fill",
	[RAW_TRANSPOSE] = "transpose",
	[RAW_CHANNELS] = "channels",
	[RAW_INTERLEAVE] = "interleave",
	[RAW_SWAP] = "swap",
	[RAW_REVERSE] = "reverse",
	[RAW_ELEMENTS] = "elements",
};

static int size_log2(int64_t size)
{
	for (int k = 0; k < SIMD_SIZES; k++)
		if (size == 1 << k)
			return k;
	return -1;
}

void raw_pair_plan(struct raw_pair *pair)
{
	bool row = pair->row_dst == pair->size;

	if (row && pair->row_src == pair->size)
		pair->way = RAW_RUN;
	else if (row && pair->row_src == 0)
		pair->way = RAW_FILL;
	else if (raw_shuffle_plan(pair))
		return;
	else if (row && pair->col_src == pair->size && pair->cols > 1 &&
		 size_log2(pair->size) >= 0)
		pair->way = RAW_TRANSPOSE;
	else
		pair->way = RAW_ELEMENTS;
}

/* n, or the largest multiple of unit below it. */
static int64_t whole(int64_t n, int64_t unit)
{
	return n > unit ? n - n % unit : n;
}

/* ---- the ways ------------------------------------------------------ */

static void run(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	for (int64_t j = 0; j < cols; j++)
		memcpy(dst + j * col_dst, src + j * pair->col_src,
			(size_t)(rows * pair->size));
}

/* The first element, then as much again as is there already. */
static void fill(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	size_t total = (size_t)(rows * pair->size);
	size_t most = (size_t)whole(BLOCK, pair->size);

	for (int64_t j = 0; j < cols; j++) {
		char *d = dst + j * col_dst;
		size_t done = (size_t)pair->size;

		if (done == 1) {
			memset(d, src[j * pair->col_src], total);
			continue;
		}
		memcpy(d, src + j * pair->col_src, done);
		for (size_t n; done < total; done += n) {
			n = MIN(MIN(done, total - done), most);
			memcpy(d + done, d, n);
		}
	}
}

static void transpose(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	int k = size_log2(pair->size);
	int64_t high = pair->simd->rows[k], wide = pair->simd->cols[k];
	int64_t whole_rows = rows - rows % high,
		whole_cols = cols - cols % wide;

	for (int64_t i = 0; i < whole_rows; i += high)
		for (int64_t j = 0; j < whole_cols; j += wide)
			pair->simd->transpose[k](
				dst + i * pair->size + j * col_dst, col_dst,
				src + i * pair->row_src + j * pair->size,
				pair->row_src);
	if (whole_cols < cols)
		raw_elements(pair, dst + whole_cols * col_dst, col_dst,
			src + whole_cols * pair->size, whole_rows,
			cols - whole_cols);
	if (whole_rows < rows)
		raw_elements(pair, dst + whole_rows * pair->size, col_dst,
			src + whole_rows * pair->row_src, rows - whole_rows,
			cols);
}

void raw_fill(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	switch (pair->way) {
	case RAW_RUN:
		run(pair, dst, col_dst, src, rows, cols);
		break;
	case RAW_FILL:
		fill(pair, dst, col_dst, src, rows, cols);
		break;
	case RAW_TRANSPOSE:
		transpose(pair, dst, col_dst, src, rows, cols);
		break;
	case RAW_ELEMENTS:
		raw_elements(pair, dst, col_dst, src, rows, cols);
		break;
	default:
		raw_shuffle(pair, dst, col_dst, src, rows, cols);
	}
}

/* ---- blocks -------------------------------------------------------- */

struct blocks {
	int64_t rows, cols; /* of one */
	int64_t first;      /* rows of the first ones, so that the others begin
			       at lines of dst */
};

static struct blocks cut(const struct raw_pair *pair, const char *dst)
{
	int64_t room = MAX(BLOCK / pair->size, 1);
	int64_t least = MAX(BLOCK_ROW / pair->size, 1);
	struct blocks b;
	int64_t off;

	if (pair->size == 1)
		least = 128; /* as many columns: both are pages apart */
	b.rows = MIN(pair->rows, MAX(least, room / pair->cols));
	b.cols = MIN(pair->cols, MAX(room / b.rows, 1));
	if (b.rows < pair->rows)
		b.rows = whole(b.rows, MAX(LINE / pair->size, 1));
	if (b.cols < pair->cols)
		b.cols = whole(b.cols, MAX(LINE / pair->size, 1));
	off = (int64_t)((uintptr_t)dst % LINE);
	b.first = b.rows;
	if (pair->col_dst % LINE == 0 && off % pair->size == 0 &&
		b.rows < pair->rows && off / pair->size < b.rows)
		b.first -= off / pair->size;
	return b;
}

static void fetch(const struct raw_pair *pair, const char *src, int64_t rows,
	int64_t cols)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t at = 0; at < cols * pair->size; at += LINE)
			__builtin_prefetch(src + i * pair->row_src + at);
}

static void flush(const struct raw_pair *pair, char *dst, const char *block,
	int64_t rows, int64_t cols)
{
	size_t row = (size_t)(rows * pair->size);

	if (pair->col_dst == (int64_t)row) {
		row *= (size_t)cols;
		cols = 1;
	}
	for (int64_t j = 0; j < cols; j++) {
		char *d = dst + j * pair->col_dst;

		if (pair->large)
			pair->simd->stream(d, block + j * (int64_t)row, row);
		else
			memcpy(d, block + j * (int64_t)row, row);
	}
}

static void run_blocks(const struct raw_pair *pair, char *dst, const char *src)
{
	_Alignas(LINE) char block[BLOCK];
	struct blocks b = cut(pair, dst);
	int64_t rows = b.first, cols;

	for (int64_t i = 0; i < pair->rows; i += rows, rows = b.rows) {
		rows = MIN(rows, pair->rows - i);
		for (int64_t j = 0; j < pair->cols; j += cols) {
			const char *s =
				src + i * pair->row_src + j * pair->col_src;

			cols = MIN(b.cols, pair->cols - j);
			if (j + cols < pair->cols && pair->way == RAW_TRANSPOSE)
				fetch(pair, s + cols * pair->size, rows,
					MIN(b.cols, pair->cols - j - cols));
			raw_fill(pair, block, rows * pair->size, s, rows, cols);
			flush(pair, dst + i * pair->row_dst + j * pair->col_dst,
				block, rows, cols);
		}
	}
}

/* Neither side adjacent, or no way for it: blocks of both, one by one. */
static void run_elements(
	const struct raw_pair *pair, char *dst, const char *src)
{
	int64_t side = MAX(BLOCK_ROW / pair->size, 8), rows, cols;

	if (pair->cols == 1 || pair->rows == 1) {
		raw_elements(
			pair, dst, pair->col_dst, src, pair->rows, pair->cols);
		return;
	}
	for (int64_t i = 0; i < pair->rows; i += rows) {
		rows = MIN(side, pair->rows - i);
		for (int64_t j = 0; j < pair->cols; j += cols) {
			cols = MIN(side, pair->cols - j);
			raw_elements(pair,
				dst + i * pair->row_dst + j * pair->col_dst,
				pair->col_dst,
				src + i * pair->row_src + j * pair->col_src,
				rows, cols);
		}
	}
}

/* Runs that are worth it go past the cache; memcpy does so by itself for those
 * of many MiB. */
static void run_runs(const struct raw_pair *pair, char *dst, const char *src)
{
	size_t size = (size_t)(pair->rows * pair->size);
	bool stream = pair->large && size >= 4 * LINE && size < 1 << 20;

	if (!stream) {
		run(pair, dst, pair->col_dst, src, pair->rows, pair->cols);
		return;
	}
	for (int64_t j = 0; j < pair->cols; j++)
		pair->simd->stream(
			dst + j * pair->col_dst, src + j * pair->col_src, size);
}

void raw_pair_run(const struct raw_pair *pair, char *dst, const char *src)
{
	int64_t bytes = pair->rows * pair->cols * pair->size;
	bool shuffle = pair->way >= RAW_CHANNELS && pair->way <= RAW_REVERSE;

	if (pair->way == RAW_ELEMENTS)
		run_elements(pair, dst, src);
	else if (pair->way == RAW_RUN)
		run_runs(pair, dst, src);
	else if (bytes <= BLOCK / 4 || pair->way == RAW_FILL ||
		 (shuffle && !pair->large))
		raw_fill(pair, dst, pair->col_dst, src, pair->rows, pair->cols);
	else
		run_blocks(pair, dst, src);
}
