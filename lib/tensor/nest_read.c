// SPDX-License-Identifier: MIT
/*
 * A nest of loops over a storage without an address. Each part of the nest
 * whose elements are close together is read at once into a window and walked
 * there; large gaps are left out. So a transposed matrix is read forward once,
 * every second column costs one pass, and one row of a large tensor is one
 * small read.
 */
#include "lib/tensor/nest_read.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/move/bytes.h"

/* Large enough that a read is dominated by its bytes, small compared with the
 * memory of any job. Picked, not tuned. */
#define WINDOW ((int64_t)4 << 20)

/* A gap that is cheaper to read than to skip: one page costs about as much as a
 * system call, and the page cache reads it anyway. */
#define GAP 4096

/* Runs of at least this size go straight to their destination. */
#define DIRECT ((int64_t)128 << 10)

struct reader {
	const tarn_storage *storage;
	uint64_t base;
	void *dst;
	void *window;
	int bits, pack;
};

struct span {
	int64_t first, last; /* elements */
	int64_t useful;      /* distinct elements, at most */
	int64_t runs;        /* of adjacent elements */
};

static struct span measure(const struct nest *nest)
{
	struct span s = {.useful = 1, .runs = 1};

	nest_span(nest, NEST_SRC, &s.first, &s.last);
	for (int i = 0; i < nest->n; i++) {
		if (nest->src[i] == 0)
			continue;
		s.useful *= nest->extent[i];
		if (nest->src[i] != 1)
			s.runs *= nest->extent[i];
	}
	return s;
}

static bool byte_run(const struct reader *rd, const struct nest *nest)
{
	int last = nest->n - 1;

	if (nest->n == 0)
		return rd->bits % 8 == 0;
	return nest->src[last] == 1 && nest->dst[last] == 1 &&
	       nest->src0 % rd->pack == 0 && nest->dst0 % rd->pack == 0 &&
	       nest->extent[last] % rd->pack == 0;
}

static int read_run(const struct reader *rd, const struct nest *nest)
{
	int64_t count = nest->n ? nest->extent[nest->n - 1] : 1;

	return tarn_storage_read(rd->storage,
		rd->base + (uint64_t)(nest->src0 * rd->bits / 8),
		(char *)rd->dst + nest->dst0 * rd->bits / 8,
		(uint64_t)(count * rd->bits / 8));
}

static int read_window(const struct reader *rd, const struct nest *nest,
	const struct span *span)
{
	struct nest moved = *nest;
	int64_t from = span->first - span->first % rd->pack;
	int64_t begin = from * rd->bits / 8;
	int64_t end = ((span->last + 1) * rd->bits + 7) / 8;
	int r = tarn_storage_read(rd->storage, rd->base + (uint64_t)begin,
		rd->window, (uint64_t)(end - begin));

	if (r < 0)
		return r;
	moved.src0 -= from;
	move_nest(&moved, rd->dst, rd->window);
	return 0;
}

/* How many steps of the outermost loop to read together. */
static int64_t steps_at_once(const struct reader *rd, const struct nest *nest,
	const struct span *inner)
{
	int64_t room = WINDOW * 8 / rd->bits - 2 * rd->pack;
	int64_t inside = inner->last - inner->first + 1;
	int64_t stride = nest->src[0];

	if (inside > room)
		return 1;
	if (stride == 0)
		return nest->extent[0];
	return MIN(nest->extent[0], 1 + (room - inside) / stride);
}

static int read_nest(const struct reader *rd, const struct nest *nest)
{
	struct nest part = *nest, inner;
	struct span span = measure(nest), inner_span;
	int64_t steps, gaps = (span.last - span.first + 1) - span.useful;
	bool large, near = gaps <= span.runs * (GAP * 8 / rd->bits);

	if (nest->n <= 1 && byte_run(rd, nest))
		return read_run(rd, nest);
	if (nest->n == 0)
		return read_window(rd, nest, &span);

	nest_part(nest, 1, (const int64_t[]) {0}, 0,
		nest->n > 1 ? nest->extent[1] : 1, &inner);
	inner_span = measure(&inner);
	large = nest->src[nest->n - 1] == 1 && nest->dst[nest->n - 1] == 1 &&
		nest->extent[nest->n - 1] >= DIRECT * 8 / rd->bits;
	steps = near && !large ? steps_at_once(rd, nest, &inner_span) : 1;

	for (int64_t i = 0; i < nest->extent[0]; i += steps) {
		struct nest *next = steps > 1 ? &part : &inner;
		int r;

		next->src0 = nest->src0 + i * nest->src[0];
		next->dst0 = nest->dst0 + i * nest->dst[0];
		part.extent[0] = MIN(steps, nest->extent[0] - i);
		span = measure(next);
		r = steps > 1 ? read_window(rd, next, &span)
			      : read_nest(rd, next);
		if (r < 0)
			return r;
	}
	return 0;
}

int nest_read(const struct nest *nest, void *dst, const tarn_storage *storage,
	uint64_t base)
{
	_cleanup_free_ void *window = NULL;
	struct reader rd = {
		.storage = storage,
		.base = base,
		.dst = dst,
		.bits = tarn_dtype_bits(nest->src_dtype),
		.pack = tarn_dtype_pack(nest->src_dtype),
	};

	if (nest->empty)
		return 0;
	if (nest->n <= 1 && byte_run(&rd, nest))
		return read_run(&rd, nest);
	/* Untouched pages of it cost nothing. */
	window = malloc((size_t)WINDOW);
	if (!window)
		return tarn_fail(ENOMEM, "read: out of memory");
	rd.window = window;
	return read_nest(&rd, nest);
}
