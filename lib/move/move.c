// SPDX-License-Identifier: MIT
/*
 * Moves in memory, row by row: what needs no conversion is bytes.c's; else a
 * row that is packed on both sides is converted where it is, and any other
 * goes through two small packed buffers.
 */
#include "lib/move/move.h"

#include "base/checked.h"
#include "lib/move/bytes.h"
#include "lib/number/number.h"

enum { BATCH = 256 }; /* elements; even, so that packs stay whole */

int move_plan(struct move *ret, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_copy_options *options)
{
	const double *scale = options ? options->scale : NULL;
	const double *bias = options ? options->bias : NULL;
	bool each = (scale || bias) && options->channels != 1;

	nest_plan(&ret->nest, dst, src, each ? options->channel_dim : -1,
		NEST_BY_DST);
	return convert_plan(&ret->convert, dst->dtype, src->dtype,
		options ? options->rounding : TARN_ROUND_CUT, scale, bias);
}

struct run {
	const struct convert *convert;
	char *dst;
	const char *src;
};

/* Elements from .. from + n of a row, through packed buffers. */
static void convert_part(const struct run *run, const struct nest_row *row,
	int64_t from, int64_t n)
{
	const struct convert *c = run->convert;
	uint64_t in[BATCH], out[BATCH]; /* elements have 8 bytes at most */

	for (int64_t i = 0; i < n; i++)
		number_store(c->src_dtype, in, i,
			number_load(c->src_dtype, run->src,
				row->src + (from + i) * row->src_stride));
	convert_run(c, out, in, (size_t)n,
		row->channel + from * row->channel_stride, row->channel_stride);
	for (int64_t i = 0; i < n; i++)
		number_store(c->dst_dtype, run->dst,
			row->dst + (from + i) * row->dst_stride,
			number_load(c->dst_dtype, out, i));
}

static int convert_row(void *arg, const struct nest_row *row)
{
	const struct run *run = arg;
	const struct convert *c = run->convert;
	int to = tarn_dtype_bits(c->dst_dtype);
	int from = tarn_dtype_bits(c->src_dtype);

	if (to % 8 == 0 && from % 8 == 0 && row->dst_stride == 1 &&
		row->src_stride == 1) {
		convert_run(c, run->dst + row->dst * to / 8,
			run->src + row->src * from / 8, (size_t)row->count,
			row->channel, row->channel_stride);
		return 0;
	}
	for (int64_t i = 0; i < row->count; i += BATCH)
		convert_part(run, row, i, MIN(row->count - i, BATCH));
	return 0;
}

void move_run(const struct move *move, void *dst, const void *src)
{
	struct run run = {&move->convert, dst, src};

	if (move->convert.plain)
		move_nest(&move->nest, dst, src);
	else
		nest_walk(&move->nest, convert_row, &run);
}

/* No thread is better than this one for rows. */
void move_run_threads(
	const struct move *move, void *dst, const void *src, int threads)
{
	(void)threads;
	move_run(move, dst, src);
}
