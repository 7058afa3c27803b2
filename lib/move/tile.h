/* SPDX-License-Identifier: MIT */
/* Moves that convert: tile by tile. See tile.c. */
#pragma once

#include "lib/move/move.h"
#include "lib/move/raw.h"

/* Elements of a tile, at most, and what is added where sub-byte dtypes are
 * converted in whole packs. */
#define TILE_MOST 4096
#define TILE_PAD 4

/* The maximum of factors in a table. */
#define TILE_FACTORS 1024

/* The factors of the elements of a tile: of count * inner packed elements, each
 * inner ones have the same, and each count * inner ones repeat. */
struct tile_channels {
	int64_t inner, count, stride;
	int64_t first; /* the first channel of the tables; -1: none are made */
	double scale[TILE_FACTORS], bias[TILE_FACTORS];
};

/* Converts n packed elements, whole packs. */
void tile_convert(struct tile_channels *ch, const struct convert *c, void *dst,
	const void *src, int64_t n, int64_t channel0);

/* Rows that are adjacent in dst, packed in src. */
struct tile_rows {
	char *dst;
	const char *src;
	int64_t rows, n;    /* of n elements each */
	int64_t dst_stride; /* bytes */
	int64_t channel0, channel_stride;
	const char *ahead; /* of the next tile */
};

/* Converts straight to dst, past the cache; false: not for these dtypes, or not
 * on this CPU. */
bool tile_stream(const struct convert *c, const struct tile_rows *rows);

/* For a tidy nest, by dst, that is not plain. */
void tile_run(const struct move *move, void *dst, const void *src);
