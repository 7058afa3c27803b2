// SPDX-License-Identifier: MIT
/*
 * Conversion of a nest. convert.h converts runs, in dst's order, so a tile of
 * the nest (small enough for the first-level cache) is gathered from src into a
 * packed row in the order of dst, converted as a run, and scattered to dst. A
 * side that is a packed row already needs neither. Gathering and scattering are
 * moves of bytes (raw.h), planned once for all tiles of a shape.
 */
#include "lib/move/tile.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lib/move/bytes.h"

/* A tile's bytes on its wider side: the bytes read and written and the buffers
 * fit into a first-level cache of 32 KiB or little more. */
#define TILE_BYTES 16384

/* Columns that make whole lines on the side where they are adjacent. */
#define TILE_SIDE 64

/* One side of a tile. */
struct side {
	bool direct; /* it is a packed row already */
	bool jobbed; /* whole bytes: job moves them */
	int64_t size, pack;
	int64_t bits;
	struct raw_job job;
};

struct tiler {
	struct nest nest;
	const struct convert *convert;
	bool large;
	char *dst;
	const char *src;
	int order[TARN_NDIM_MAX]; /* of the loops over tiles */
	int64_t block[TARN_NDIM_MAX];
	struct nest tile;     /* the tile in work */
	struct side from, to; /* planned for extents like this tile's */
	bool planned;
	int rows; /* the loop of rows that may stream, its second to last; -1 */
	int64_t span; /* bytes of src from the first to the last */
	struct tile_channels channels;
	/* The buffers between; wide enough for 8 bytes each. */
	_Alignas(LINE) char gathered[TILE_BYTES + LINE];
	_Alignas(LINE) char converted[TILE_BYTES + LINE];
};

/* ---- the shape of tiles -------------------------------------------- */

static int columns_of(const struct nest *nest)
{
	int best = nest->n - 1;

	for (int i = nest->n - 2; i >= 0; i--)
		if (nest->src[i] != 0 &&
			(nest->src[best] == 0 ||
				llabs(nest->src[i]) < llabs(nest->src[best])))
			best = i;
	return best;
}

static int64_t block_of(int64_t extent, int64_t room)
{
	if (extent <= room)
		return extent;
	return room > TILE_SIDE ? room - room % TILE_SIDE : MAX(room, 1);
}

/* As much as fits of the loops with the smallest steps of dst and src, then of
 * the others, from the inside. */
static void shape_tiles(struct tiler *t)
{
	const struct nest *nest = &t->nest;
	int last = nest->n - 1, cols = columns_of(nest), n = 0;
	int bits = MAX(t->convert->dst_bits, t->convert->src_bits);
	int64_t room = MIN(TILE_MOST, TILE_BYTES * 8 / bits);
	int64_t left;

	for (int i = 0; i < nest->n; i++)
		t->block[i] = 1;
	left = cols == last ? room : room / MIN(nest->extent[cols], TILE_SIDE);
	t->block[last] = block_of(nest->extent[last], left);
	if (cols != last)
		t->block[cols] =
			block_of(nest->extent[cols], room / t->block[last]);
	left = room / t->block[last] / (cols == last ? 1 : t->block[cols]);
	for (int i = last; i >= 0 && left > 1; i--) {
		if (i != last && i != cols)
			t->block[i] = block_of(nest->extent[i], left);
		if (t->block[i] < nest->extent[i])
			break;
		if (i != last && i != cols)
			left /= t->block[i];
	}
	/* Innermost along src: pages are read one after the other. */
	for (int i = 0; i <= last; i++)
		if (i != cols)
			t->order[n++] = i;
	t->order[n] = cols;
}

/* ---- one tile ------------------------------------------------------ */

static bool is_packed(const struct nest *tile, const int64_t *stride)
{
	int64_t packed = 1;

	for (int i = tile->n - 1; i >= 0; i--) {
		if (tile->extent[i] == 1)
			continue;
		if (stride[i] != packed)
			return false;
		packed *= tile->extent[i];
	}
	return true;
}

static int64_t count_of(const struct nest *tile)
{
	int64_t n = 1;

	for (int i = 0; i < tile->n; i++)
		n *= tile->extent[i];
	return n;
}

static void packed_strides(const struct nest *tile, int64_t *stride)
{
	int64_t packed = 1;

	for (int i = tile->n - 1; i >= 0; i--) {
		stride[i] = packed;
		packed *= tile->extent[i];
	}
}

/* From src to a packed row, or from a packed row to dst. */
static struct nest way_of(const struct nest *tile, enum nest_side side)
{
	struct nest nest = *tile;

	if (side == NEST_SRC) {
		nest.dst_dtype = nest.src_dtype;
		nest.dst0 = 0;
		packed_strides(tile, nest.dst);
	} else {
		nest.src_dtype = nest.dst_dtype;
		nest.src0 = 0;
		packed_strides(tile, nest.src);
	}
	nest.channel0 = 0;
	memset(nest.channel, 0, sizeof(nest.channel));
	return nest;
}

static void plan_side(struct tiler *t, struct side *s, enum nest_side which)
{
	struct nest nest = way_of(&t->tile, which);
	int dtype = which == NEST_SRC ? nest.src_dtype : nest.dst_dtype;
	struct raw raw;

	s->bits = tarn_dtype_bits(dtype);
	s->pack = tarn_dtype_pack(dtype);
	s->direct = is_packed(
		&t->tile, which == NEST_SRC ? t->tile.src : t->tile.dst);
	s->jobbed = s->pack == 1;
	if (!s->jobbed)
		return;
	/* Only the move of bytes goes past the cache, not the conversion. */
	if (which == NEST_DST && t->large)
		s->direct = false;
	nest.dst0 = nest.src0 = 0;
	nest_tidy(&nest, NEST_BY_DST);
	bytes_raw(&nest, which == NEST_DST && t->large, &raw);
	raw_plan(&s->job, &raw);
	s->job.dst0 += nest.dst0 * s->bits / 8;
	s->job.src0 += nest.src0 * s->bits / 8;
}

static void plan_channels(struct tiler *t)
{
	struct tile_channels *ch = &t->channels;

	ch->stride = 0;
	ch->inner = ch->count = 1;
	ch->first = -1;
	if (!t->convert->scaled)
		return;
	for (int i = t->tile.n - 1; i >= 0; i--) {
		if (t->tile.channel[i] != 0 && t->tile.extent[i] > 1) {
			ch->stride = t->tile.channel[i];
			ch->count = t->tile.extent[i];
			return;
		}
		ch->inner *= t->tile.extent[i];
	}
}

/* Rows that are adjacent in dst, with one channel each: then the conversion can
 * write straight to memory. */
static void plan_stream(struct tiler *t)
{
	int last = t->tile.n - 1, rows = last;
	int64_t first, end;
	struct nest at = t->tile;

	t->rows = -1;
	if (!t->large || t->tile.dst[last] != 1 || t->tile.channel[last] != 0)
		return;
	for (int i = 0; i < last; i++)
		if (t->tile.extent[i] > 1) {
			if (rows != last)
				return;
			rows = i;
		}
	at.src0 = 0;
	nest_span(&at, NEST_SRC, &first, &end);
	t->span = (end - first + 1) * t->convert->src_bits / 8;
	t->rows = rows;
}

static bool stream(struct tiler *t, const char *src)
{
	const struct nest *tile = &t->tile;
	int last = tile->n - 1, loop = t->rows;
	struct tile_rows rows = {
		.dst = t->dst + tile->dst0 * t->convert->dst_bits / 8,
		.src = src,
		.rows = loop == last ? 1 : tile->extent[loop],
		.n = tile->extent[last],
		.dst_stride = tile->dst[loop] * t->convert->dst_bits / 8,
		.channel0 = tile->channel0,
		.channel_stride = tile->channel[loop],
		.ahead = t->src + tile->src0 * t->convert->src_bits / 8 +
			 t->span,
	};

	return tile_stream(t->convert, &rows);
}

static const void *gather(struct tiler *t, bool whole)
{
	struct side *s = &t->from;
	int64_t at = t->tile.src0;
	struct nest nest;

	if (s->direct && whole && at % s->pack == 0)
		return t->src + at * s->bits / 8;
	if (s->jobbed) {
		raw_run(&s->job, t->gathered, t->src + at * s->bits / 8);
	} else {
		nest = way_of(&t->tile, NEST_SRC);
		move_nest(&nest, t->gathered, t->src);
	}
	return t->gathered;
}

static void scatter(struct tiler *t)
{
	struct side *s = &t->to;
	struct nest nest;

	if (s->jobbed) {
		raw_run(&s->job, t->dst + t->tile.dst0 * s->bits / 8,
			t->converted);
	} else {
		nest = way_of(&t->tile, NEST_DST);
		move_nest(&nest, t->dst, t->converted);
	}
}

static void run_tile(struct tiler *t)
{
	int64_t n = count_of(&t->tile), whole = n;
	bool straight;
	const void *src;
	void *dst;

	if (!t->planned) {
		plan_side(t, &t->from, NEST_SRC);
		plan_side(t, &t->to, NEST_DST);
		plan_channels(t);
		plan_stream(t);
		t->planned = true;
	}
	if (t->from.pack * t->to.pack > 1)
		whole = (n + TILE_PAD - 1) / TILE_PAD * TILE_PAD;
	src = gather(t, whole == n);
	if (t->rows >= 0 && stream(t, src))
		return;
	straight = t->to.direct && whole == n && t->tile.dst0 % t->to.pack == 0;
	dst = straight ? t->dst + t->tile.dst0 * t->to.bits / 8 : t->converted;
	tile_convert(
		&t->channels, t->convert, dst, src, whole, t->tile.channel0);
	if (!straight)
		scatter(t);
}

/* ---- all of them --------------------------------------------------- */

static void set_extent(struct tiler *t, int loop, int64_t extent)
{
	if (t->tile.extent[loop] == extent)
		return;
	t->tile.extent[loop] = extent;
	t->planned = false;
}

static void walk(struct tiler *t, int level)
{
	const struct nest *nest = &t->nest;
	int loop = level < nest->n ? t->order[level] : 0;
	struct nest *tile = &t->tile;

	if (level == nest->n) {
		run_tile(t);
		return;
	}
	for (int64_t at = 0, step; at < nest->extent[loop]; at += step) {
		step = MIN(t->block[loop], nest->extent[loop] - at);
		set_extent(t, loop, step);
		walk(t, level + 1);
		tile->dst0 += step * nest->dst[loop];
		tile->src0 += step * nest->src[loop];
		tile->channel0 += step * nest->channel[loop];
	}
	tile->dst0 -= nest->extent[loop] * nest->dst[loop];
	tile->src0 -= nest->extent[loop] * nest->src[loop];
	tile->channel0 -= nest->extent[loop] * nest->channel[loop];
}

void tile_run(const struct move *move, void *dst, const void *src)
{
	struct tiler t;

	t.nest = move->nest;
	t.convert = &move->convert;
	t.large = move->large;
	t.dst = dst;
	t.src = src;
	t.planned = false;
	if (tarn_dtype_pack(t.nest.dst_dtype) > 1 ||
		tarn_dtype_pack(t.nest.src_dtype) > 1) {
		/* Partial elements share their bytes with others that are read
		 * too. */
		memset(t.gathered, 0, sizeof(t.gathered));
		memset(t.converted, 0, sizeof(t.converted));
	}
	if (t.nest.n == 0) {
		t.nest.n = 1;
		t.nest.extent[0] = t.nest.dst[0] = t.nest.src[0] = 1;
		t.nest.channel[0] = 0;
	}
	t.tile = t.nest;
	shape_tiles(&t);
	walk(&t, 0);
	if (t.large)
		simd_get()->fence();
}
