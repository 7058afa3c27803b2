// SPDX-License-Identifier: MIT
/*
 * Groups of a few elements (the colours of a pixel) separated, combined or
 * reversed. 16 bytes of output come from at most four times 16 bytes of input,
 * always in the same way, so one table of the source of each byte is the only
 * difference between two, three or four channels of 1 to 8 bytes.
 */
#include "lib/move/raw.h"

#include <string.h>

#include "base/checked.h"

#define VECTOR 16

static void take(struct shuffle *how, int output, int byte, int64_t from)
{
	how->from[output][from / VECTOR][byte] = (uint8_t)(from % VECTOR);
}

/* Output o is element o of each group; groups are pitch elements. Columns that
 * are not such elements are moved one by one. */
static void plan_channels(struct raw_pair *pair, int64_t pitch)
{
	struct shuffle *how = &pair->shuffle;
	int64_t size = pair->size;

	how->inputs = (int)pitch;
	how->outputs = pair->cols <= pitch && pair->col_src == size
			       ? (int)pair->cols
			       : 1;
	how->dst_advance = VECTOR;
	how->src_step = VECTOR;
	how->src_advance = VECTOR * pitch;
	for (int o = 0; o < how->outputs; o++)
		for (int b = 0; b < VECTOR; b++)
			take(how, o, b,
				b / size * pitch * size + o * size + b % size);
}

static void plan_interleave(struct raw_pair *pair)
{
	struct shuffle *how = &pair->shuffle;
	int64_t size = pair->size, group = size * pair->rows;

	how->inputs = how->outputs = (int)pair->rows;
	how->dst_step = VECTOR;
	how->dst_advance = VECTOR * pair->rows;
	how->src_step = pair->row_src;
	how->src_advance = VECTOR;
	for (int64_t at = 0; at < VECTOR * pair->rows; at++)
		take(how, (int)(at / VECTOR), (int)(at % VECTOR),
			at % group / size * VECTOR + at / group * size +
				at % size);
}

static void plan_swap(struct raw_pair *pair)
{
	struct shuffle *how = &pair->shuffle;
	int64_t size = pair->size, group = size * pair->rows;

	how->inputs = how->outputs = (int)pair->rows;
	how->dst_step = how->src_step = VECTOR;
	how->dst_advance = how->src_advance = VECTOR * pair->rows;
	for (int64_t at = 0; at < VECTOR * pair->rows; at++)
		take(how, (int)(at / VECTOR), (int)(at % VECTOR),
			at - at % group +
				(group - size - at % group / size * size) +
				at % size);
}

static void plan_reverse(struct raw_pair *pair)
{
	struct shuffle *how = &pair->shuffle;
	int64_t size = pair->size;

	how->inputs = how->outputs = 1;
	how->dst_advance = VECTOR;
	how->src_advance = -VECTOR;
	for (int b = 0; b < VECTOR; b++)
		take(how, 0, b, VECTOR - size - b / size * size + b % size);
}

static bool few(int64_t n)
{
	return n >= 2 && n <= 4;
}

bool raw_shuffle_plan(struct raw_pair *pair)
{
	int64_t size = pair->size, pitch = pair->row_src / size;

	memset(&pair->shuffle, 0, sizeof(pair->shuffle));
	memset(pair->shuffle.from, 0x80, sizeof(pair->shuffle.from));
	if (size > 8 || (size & (size - 1)) || pair->row_dst != size)
		return false;
	if (few(pitch) && pair->row_src % size == 0) {
		plan_channels(pair, pitch);
		pair->way = RAW_CHANNELS;
	} else if (few(pair->rows) && pair->col_src == size &&
		   pair->col_dst == size * pair->rows) {
		plan_interleave(pair);
		pair->way = RAW_INTERLEAVE;
	} else if (few(pair->rows) && pair->row_src == -size &&
		   pair->col_dst == size * pair->rows &&
		   pair->col_src == pair->col_dst) {
		plan_swap(pair);
		pair->way = RAW_SWAP;
	} else if (pair->row_src == -size) {
		plan_reverse(pair);
		pair->way = RAW_REVERSE;
	} else {
		return false;
	}
	return true;
}

/* The number of whole groups of vectors that load no byte beyond the last
 * element. */
static int64_t groups_of(
	const struct raw_pair *pair, int64_t rows, int64_t cols)
{
	const struct shuffle *how = &pair->shuffle;
	int64_t each = VECTOR / pair->size;

	switch (pair->way) {
	case RAW_CHANNELS:
		return (rows - (how->inputs > how->outputs)) / each;
	case RAW_REVERSE:
		return rows / each;
	default:
		return cols / each;
	}
}

static void by_rows(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	struct shuffle how = pair->shuffle;
	int64_t groups = groups_of(pair, rows, cols), done = 0;
	int64_t calls = how.outputs > 1 ? 1 : cols;

	how.dst_step = col_dst;
	if (pair->way == RAW_REVERSE)
		src -= VECTOR - pair->size;
	for (int64_t j = 0; j < calls; j++)
		done = pair->simd->shuffle(&how, dst + j * col_dst,
			src + j * pair->col_src, groups);
	if (pair->way == RAW_REVERSE)
		src += VECTOR - pair->size;
	done *= VECTOR / pair->size;
	raw_elements(pair, dst + done * pair->row_dst, col_dst,
		src + done * pair->row_src, rows - done, cols);
}

static void by_cols(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	int64_t ahead = pair->way == RAW_SWAP ? (rows - 1) * pair->size : 0;
	int64_t done = pair->simd->shuffle(
		&pair->shuffle, dst, src - ahead, groups_of(pair, rows, cols));

	done *= VECTOR / pair->size;
	raw_elements(pair, dst + done * col_dst, col_dst,
		src + done * pair->col_src, rows, cols - done);
}

void raw_shuffle(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols)
{
	if (pair->way == RAW_CHANNELS || pair->way == RAW_REVERSE)
		by_rows(pair, dst, col_dst, src, rows, cols);
	else
		by_cols(pair, dst, col_dst, src, rows, cols);
}
