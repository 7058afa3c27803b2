/* SPDX-License-Identifier: MIT */
/*
 * How a view of a file is read: a sequence of parts, in the order of the file's
 * bytes, each either a run that goes straight to its destination, or a box of
 * elements whose bytes are read into a window in memory and moved from there.
 * Pure numbers; no file, no memory.
 *
 *	read_plan(&plan, &nest, plain, file_offset, &price);
 *	while (read_plan_next(&plan, &part))
 *		...
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/move/nest.h"

/* Costs, expressed in bytes. */
struct read_price {
	/* A gap of this many bytes is read as quickly as another request is
	 * made. */
	uint64_t gap;
	/* Runs of at least this size go straight to their destination. */
	uint64_t straight;
	/* The size of a window. */
	uint64_t window;
	/* Ranges have room around them in the window to be rounded outward to
	 * multiples of this in the file, a power of two; 1: they are not
	 * rounded. */
	uint32_t align;
};

/* A loop over ranges of a part that are not adjacent. */
struct read_loop {
	uint64_t count, file, window; /* steps in bytes */
};

struct read_part {
	bool straight;
	/* Straight: these bytes of the file are these bytes of dst. Otherwise:
	 * the first of count ranges, each of size bytes. */
	uint64_t begin, size, count;
	int64_t dst;
	/* Not straight: elements as they lie in the window, whose src0 is 0,
	 * the element at byte lead. */
	struct nest box;
	uint64_t lead;
	int n;
	struct read_loop loops[TARN_NDIM_MAX];
	uint64_t bytes; /* of dst that it produces */
};

struct read_plan {
	struct read_price price;
	struct nest nest;
	uint64_t file; /* where element 0 is */
	int src_bits, dst_bits;
	bool plain, straight, ended;
	int level;     /* the loop of which each part has some steps */
	int apart;     /* all loops from here on inward form one range */
	int64_t steps; /* of a part, at most */
	int64_t index[TARN_NDIM_MAX];
	int64_t pitch[TARN_NDIM_MAX];     /* in the window, elements */
	uint64_t size[TARN_NDIM_MAX + 1]; /* of what is inside, in the window */
	/* If rows are cut into tiles: the rest of each row. */
	bool has_rest;
	struct nest rest;
};

/*
 * nest is planned NEST_BY_SRC; plain: elements are copied as they are.
 * file_offset: of src's element 0. price is copied.
 */
void read_plan(struct read_plan *ret, const struct nest *nest, bool plain,
	uint64_t file_offset, const struct read_price *price);

/* False: there is no more. */
bool read_plan_next(struct read_plan *plan, struct read_part *ret);

/* Range i of a part that is not straight: its beginning in the file and in the
 * window. */
void read_part_range(const struct read_part *part, uint64_t i,
	uint64_t *ret_file, uint64_t *ret_window);

/* The bytes of the file from the first to the last that it reaches. */
void read_plan_span(const struct nest *nest, uint64_t file_offset,
	uint64_t *ret_begin, uint64_t *ret_end);
