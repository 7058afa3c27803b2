/* SPDX-License-Identifier: MIT */
/*
 * Whole rows: all elements along some of the dimensions. What a kernel can take
 * as it lies, it gets as it lies; other rows are staged, several at once, so that
 * rows which lie beside each other are read along their own adjacent elements.
 *
 * How rows are cut into parts depends on the shapes alone.
 */
#pragma once

#include "ops/kernels.h"
#include "ops/loops.h"

struct rows {
	struct loops other, row; /* operand 0 is written, 1 is read */
	enum tarn_dtype computed;
	int64_t n;    /* elements of a row */
	int64_t size; /* bytes of one that is computed */
	int64_t extent[TARN_NDIM_MAX], count[TARN_NDIM_MAX];
	int64_t n_tiles; /* of rows, extent of other each */
	int64_t chunk[TARN_NDIM_MAX], chunks[TARN_NDIM_MAX];
	int64_t n_chunks; /* of a row, if it is cut */
	bool staged[2];
};

/* Each row of from, along the dimensions that are gone, becomes one of to,
 * which has the same shape, and may be from in whole. -ENOMEM. */
int rows_map(const char *op, tarn_tensor *to, const tarn_tensor *from,
	const bool gone[TARN_NDIM_MAX], enum tarn_dtype computed,
	row_fn *kernel, const struct row_args *args);

/* What has been found out of some elements of a row. */
struct fold_state {
	int64_t n;
	double a, b;
	uint64_t value; /* an element */
	int64_t index;  /* in C order of the row */
};

struct folding {
	/* Of n > 0 elements, of which the first is that of the row. */
	void (*chunk)(const struct folding *f, size_t n, const void *src,
		int64_t first, struct fold_state *ret);
	/* Adds those that follow; s->n is 0 at first, and is added up here. */
	void (*join)(const struct folding *f, struct fold_state *s,
		const struct fold_state *more);
	void (*finish)(
		const struct folding *f, const struct fold_state *s, void *to);
	bool in_order; /* chunks are stretches of the row in C order */
	enum tarn_dtype computed;
	chunk_fn *kernel;
	fold_fn *best;
	run_fn *equal, *better, *is_nan;
	double p;
	bool root;
};

/* Each row becomes one element of to, which is in C order. -ENOMEM. */
int rows_fold(const char *op, tarn_tensor *to, const tarn_tensor *from,
	const bool gone[TARN_NDIM_MAX], const struct folding *fold);
