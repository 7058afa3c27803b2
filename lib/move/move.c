// SPDX-License-Identifier: MIT
/*
 * From memory to memory. The conversion is examined once, and there are two
 * executors: one for bytes that stay as they are, and one that converts tile by
 * tile.
 */
#include "lib/move/move.h"

#include "lib/move/bytes.h"
#include "lib/move/tile.h"

int move_plan(struct move *ret, const struct tarn_layout *dst,
	const struct tarn_layout *src, const struct tarn_copy_options *options)
{
	const struct tarn_copy_options none = {0}, *o = options;
	int channel_dim = -1;
	int r;

	if (!o)
		o = &none;
	if ((o->scale || o->bias) && o->channels != 1) {
		channel_dim = o->channel_dim;
		if (channel_dim < 0)
			channel_dim += dst->ndim;
	}
	r = convert_plan(&ret->convert, dst->dtype, src->dtype, o->rounding,
		o->scale, o->bias);
	if (r < 0)
		return r;
	nest_plan(&ret->nest, dst, src, channel_dim, NEST_BY_DST);
	ret->large = o->past_cache || bytes_are_large(tarn_layout_nbytes(dst),
					      tarn_layout_nbytes(src));
	return 0;
}

void move_run(const struct move *move, void *dst, const void *src)
{
	struct move tidy = *move;

	nest_tidy(&tidy.nest, NEST_BY_DST);
	if (tidy.convert.plain)
		bytes_move(&tidy.nest, tidy.large, dst, src);
	else if (!tidy.nest.empty)
		tile_run(&tidy, dst, src);
}
