// SPDX-License-Identifier: MIT
/*
 * Two loops over elements, of which one walks dst and the other src.
 *
 * Elements too far apart for the cache are moved in blocks: a block's rows of
 * src are read a few lines each, transposed in a buffer that stays in the
 * cache, and written as rows of dst of a few whole lines each. So every line of
 * either side is touched once, strides that are powers of two (whose lines all
 * compete for the same few places of the cache) cost no more than others, and
 * the lines can be written past the cache, without being read first. Meanwhile
 * the next block of src is prefetched: no CPU predicts rows that are a page
 * apart.
 */
#include "lib/move/raw.h"

#include <string.h>

#include "base/checked.h"

/* As large as a first-level cache, and small beside any second-level one. */
#define BLOCK 32768

/* Bytes of a block's row in dst, and in src: several whole lines, as memory
 * prefers. Measured: 64 costs a third, 128 a fifth, 512 gains nothing. */
#define BLOCK_SIDE 256

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
		 pair->size <= 1 << (SIMD_SIZES - 1) &&
		 (pair->size & (pair->size - 1)) == 0)
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

/* Writes the first element, then doubles the filled part. */
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
		raw_transpose(pair, dst, col_dst, src, rows, cols, 0);
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
	/* The size of the first blocks, so that the others begin at lines of
	 * dst and of src. */
	int64_t first_row, first_col;
};

/* The size of the first of blocks of n elements, when lines come every
 * stride. */
static int64_t first_of(
	const void *at, int64_t stride, int64_t n, int64_t extent, int64_t size)
{
	int64_t off = (int64_t)((uintptr_t)at % LINE);

	if (n >= extent || stride % LINE || off % size || off / size >= n)
		return n;
	return n - off / size;
}

static struct blocks cut(
	const struct raw_pair *pair, const char *dst, const char *src)
{
	int64_t room = MAX(BLOCK / pair->size, 1);
	int64_t side = MAX(BLOCK_SIDE / pair->size, 1);
	struct blocks b;

	if (pair->way == RAW_TRANSPOSE)
		b.cols = MIN(pair->cols, MAX(side, room / pair->rows));
	else
		b.cols = MIN(pair->cols, MAX(room / pair->rows, 4));
	b.rows = MIN(pair->rows, room / b.cols);
	if (b.rows < pair->rows)
		b.rows = whole(b.rows, MAX(LINE / pair->size, 1));
	b.cols = MIN(pair->cols, room / b.rows);
	if (b.cols < pair->cols)
		b.cols = whole(b.cols, MAX(LINE / pair->size, 1));
	b.first_row =
		first_of(dst, pair->col_dst, b.rows, pair->rows, pair->size);
	b.first_col =
		first_of(src, pair->row_src, b.cols, pair->cols, pair->size);
	return b;
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
	struct blocks b = cut(pair, dst, src);
	int64_t rows = b.first_row, cols;

	for (int64_t i = 0; i < pair->rows; i += rows, rows = b.rows) {
		rows = MIN(rows, pair->rows - i);
		cols = b.first_col;
		for (int64_t j = 0; j < pair->cols; j += cols, cols = b.cols) {
			const char *s =
				src + i * pair->row_src + j * pair->col_src;

			cols = MIN(cols, pair->cols - j);
			if (pair->way == RAW_TRANSPOSE)
				raw_transpose(pair, block, rows * pair->size, s,
					rows, cols, pair->cols - j - cols);
			else
				raw_fill(pair, block, rows * pair->size, s,
					rows, cols);
			flush(pair, dst + i * pair->row_dst + j * pair->col_dst,
				block, rows, cols);
		}
	}
}

/* Neither side is adjacent, or there is no way for it: blocks of both, element
 * by element. */
static void run_elements(
	const struct raw_pair *pair, char *dst, const char *src)
{
	int64_t side = MAX(BLOCK_SIDE / pair->size, 8), rows, cols;

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

/* Runs that are long enough go past the cache. memcpy would do so by itself for
 * those of many MiB, but of how many it takes from a figure that is ten times too
 * large on AMD's processors (base/cache_size.c); then it takes half as long
 * again. */
static void run_runs(const struct raw_pair *pair, char *dst, const char *src)
{
	size_t size = (size_t)(pair->rows * pair->size);
	bool stream = pair->large && size >= 4 * LINE;

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
