/* SPDX-License-Identifier: MIT */
/*
 * Moving bytes without interpretation: elements of some size, in loops whose
 * strides are in bytes. A nest with one dtype on both sides becomes this.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/move/nest.h"
#include "lib/move/simd.h"

/* The loops, by dst: the larger strides first, none negative. */
struct raw {
	int n;
	bool large; /* past the cache, see move.h */
	int64_t size;
	int64_t extent[TARN_NDIM_MAX];
	int64_t dst[TARN_NDIM_MAX];
	int64_t src[TARN_NDIM_MAX];
};

/* How the two innermost loops are done. */
enum raw_way {
	RAW_RUN,        /* memcpy */
	RAW_FILL,       /* one element, again and again */
	RAW_TRANSPOSE,  /* tiles of rows and columns */
	RAW_CHANNELS,   /* a few elements of each group (x[..., c]) */
	RAW_INTERLEAVE, /* a few rows interleaved into groups */
	RAW_SWAP,       /* the order within each group reversed */
	RAW_REVERSE,    /* a row backwards */
	RAW_ELEMENTS,   /* one by one */
	RAW_WAYS,
};
extern const char *const raw_way_name[RAW_WAYS];

/*
 * Two loops: rows, of elements near each other in dst, and columns, whose
 * elements are near each other in src. (Row i of src becomes column i of dst.)
 */
struct raw_pair {
	const struct simd *simd;
	enum raw_way way;
	bool large;
	int64_t size;
	int64_t rows, row_dst, row_src;
	int64_t cols, col_dst, col_src;
	struct shuffle shuffle; /* CHANNELS to REVERSE */
};

/* Chooses the way for a pair whose loops are set. */
void raw_pair_plan(struct raw_pair *pair);
void raw_pair_run(const struct raw_pair *pair, char *dst, const char *src);

/* The way's loop, without blocks: rows x cols from the given place on; the
 * columns of dst may lie elsewhere than in pair. */
void raw_fill(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols);

/* For TRANSPOSE; ahead more columns follow in src, which are prefetched
 * meanwhile. */
void raw_transpose(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols, int64_t follow);

/* For raw_fill: CHANNELS to REVERSE, as far as vectors reach, then the rest. */
bool raw_shuffle_plan(struct raw_pair *pair);
void raw_shuffle(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols);

/* One by one. */
void raw_elements(const struct raw_pair *pair, char *dst, int64_t col_dst,
	const char *src, int64_t rows, int64_t cols);

/* A plan, to be run wherever such loops are. */
struct raw_job {
	struct raw outer; /* the loops around the pair */
	struct raw_pair pair;
	int64_t dst0, src0; /* where the pair begins */
	int near; /* the loop of which stretches are walked directly outside of
		   * the pair; or -1 */
	int64_t stretch;
};
void raw_plan(struct raw_job *ret, const struct raw *raw);

/* Moves everything; the addresses are of the first elements. A large move needs
 * the fence of the job's simd before other threads may see it. */
void raw_run(const struct raw_job *job, char *dst, const char *src);
