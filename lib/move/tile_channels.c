// SPDX-License-Identifier: MIT
/*
 * A scale and a bias for each channel. Where elements of one channel are
 * adjacent (planes of an image) each stretch is one run with one factor. Where
 * channels alternate (pixels) runs would be a few elements long; instead a
 * table repeats the factors some hundred times, and a run takes one for each
 * element.
 */
#include "lib/move/tile.h"

#include "base/checked.h"

/* From this length on a separate run costs less than a table. */
#define LONG 32

static void planes(const struct tile_channels *ch, const struct convert *c,
	char *dst, const char *src, int64_t n, int64_t channel0)
{
	int64_t dst_step = ch->inner * c->dst_bits / 8;
	int64_t src_step = ch->inner * c->src_bits / 8;

	for (int64_t i = 0; i < n / ch->inner; i++)
		convert_run(c, dst + i * dst_step, src + i * src_step,
			(size_t)ch->inner,
			channel0 + i % ch->count * ch->stride, 0);
}

/* Each element has a channel of its own, and there are many. */
static void rows(const struct tile_channels *ch, const struct convert *c,
	char *dst, const char *src, int64_t n, int64_t channel0)
{
	for (int64_t at = 0; at < n; at += ch->count)
		convert_run(c, dst + at * c->dst_bits / 8,
			src + at * c->src_bits / 8, (size_t)ch->count, channel0,
			ch->stride);
}

/* Writes the factors of element at and those after it. */
static void write_out(struct tile_channels *ch, const struct convert *c,
	int64_t channel0, int64_t at, int64_t n)
{
	int64_t step = at / ch->inner % ch->count, inside = at % ch->inner;

	for (int64_t i = 0; i < n; i++) {
		int64_t channel = channel0 + step * ch->stride;

		ch->scale[i] = c->scale ? c->scale[channel] : 0;
		ch->bias[i] = c->bias ? c->bias[channel] : 0;
		if (++inside == ch->inner) {
			inside = 0;
			step = step + 1 == ch->count ? 0 : step + 1;
		}
	}
}

static void alternating(struct tile_channels *ch, const struct convert *c,
	char *dst, const char *src, int64_t n, int64_t channel0)
{
	int64_t period = ch->inner * ch->count;
	struct convert with = *c;
	int64_t most = TILE_FACTORS;
	bool repeats = period * 4 <= TILE_FACTORS;

	with.scale = c->scale ? ch->scale : NULL;
	with.bias = c->bias ? ch->bias : NULL;
	if (repeats) /* in whole packs of any dtype */
		most -= most % (period * 4);
	if (repeats && ch->first != channel0) {
		write_out(ch, c, channel0, 0, most);
		ch->first = channel0;
	}
	for (int64_t at = 0, count; at < n; at += count) {
		count = MIN(most, n - at);
		if (!repeats)
			write_out(ch, c, channel0, at, count);
		convert_run(&with, dst + at * c->dst_bits / 8,
			src + at * c->src_bits / 8, (size_t)count, 0, 1);
	}
}

void tile_convert(struct tile_channels *ch, const struct convert *c, void *dst,
	const void *src, int64_t n, int64_t channel0)
{
	if (ch->stride == 0)
		convert_run(c, dst, src, (size_t)n, channel0, 0);
	else if (ch->inner >= LONG && ch->inner % TILE_PAD == 0)
		planes(ch, c, dst, src, n, channel0);
	else if (ch->inner == 1 && ch->count >= LONG &&
		 ch->count % TILE_PAD == 0)
		rows(ch, c, dst, src, n, channel0);
	else
		alternating(ch, c, dst, src, n, channel0);
}
