// SPDX-License-Identifier: MIT
/*
 * Moving elements as they are. A nest in elements becomes loops in bytes; so do
 * elements smaller than bytes where their loops are in whole packs, which is
 * nearly always, and otherwise they are moved one by one.
 */
#include "lib/move/bytes.h"

#include <stdatomic.h>

#include "base/cache_size.h"
#include "lib/number/number.h"

/* Loops in units of pack elements, which have unit bytes. */
static void in_bytes(
	const struct nest *nest, int64_t pack, int64_t unit, struct raw *ret)
{
	int last = nest->n - 1;

	ret->n = nest->n;
	ret->size = pack > 1 ? 1 : unit;
	for (int i = 0; i < nest->n; i++) {
		ret->extent[i] = nest->extent[i];
		ret->dst[i] = nest->dst[i] / pack * unit;
		ret->src[i] = nest->src[i] / pack * unit;
	}
	if (pack > 1) {
		ret->extent[last] = nest->extent[last] / pack * unit;
		ret->dst[last] = ret->src[last] = 1;
	}
}

void bytes_raw(const struct nest *nest, bool large, struct raw *ret)
{
	ret->large = large;
	in_bytes(nest, 1, tarn_dtype_bits(nest->src_dtype) / 8, ret);
}

static bool whole_packs(const struct nest *nest, int64_t pack)
{
	int last = nest->n - 1;

	if (pack == 1)
		return true;
	if (last < 0 || nest->dst[last] != 1 || nest->src[last] != 1 ||
		nest->extent[last] % pack || nest->dst0 % pack ||
		nest->src0 % pack)
		return false;
	for (int i = 0; i < last; i++)
		if (nest->dst[i] % pack || nest->src[i] % pack)
			return false;
	return true;
}

bool bytes_loops(const struct nest *nest, bool large, struct raw *ret,
	int64_t *ret_dst, int64_t *ret_src)
{
	int64_t pack = tarn_dtype_pack(nest->src_dtype);
	int64_t unit = pack * tarn_dtype_bits(nest->src_dtype) / 8;

	if (!whole_packs(nest, pack))
		return false;
	ret->large = large;
	in_bytes(nest, pack, unit, ret);
	*ret_dst = nest->dst0 / pack * unit;
	*ret_src = nest->src0 / pack * unit;
	return true;
}

struct bits {
	int dtype;
	void *dst;
	const void *src;
};

static int row_of_bits(void *arg, const struct nest_row *row)
{
	const struct bits *b = arg;

	for (int64_t i = 0; i < row->count; i++)
		number_store(b->dtype, b->dst, row->dst + i * row->dst_stride,
			number_load(b->dtype, b->src,
				row->src + i * row->src_stride));
	return 0;
}

int bytes_move(const struct nest *nest, bool large, void *dst, const void *src)
{
	struct bits bits = {nest->src_dtype, dst, src};
	int64_t dst0, src0;
	struct raw_job job;
	struct raw raw;

	if (nest->empty)
		return BYTES_NOTHING;
	if (!bytes_loops(nest, large, &raw, &dst0, &src0)) {
		nest_walk(nest, row_of_bits, &bits);
		return BYTES_BITS;
	}
	raw_plan(&job, &raw);
	raw_run(&job, (char *)dst + dst0, (const char *)src + src0);
	if (large)
		job.pair.simd->fence();
	return (int)job.pair.way;
}

static int64_t known_cache_size(void)
{
	static _Atomic int64_t known;
	/* Relaxed: a single number; a thread that finds none queries it
	 * again. */
	int64_t size = atomic_load_explicit(&known, memory_order_relaxed);

	if (size == 0) {
		size = cache_size("");
		atomic_store_explicit(&known, size, memory_order_relaxed);
	}
	return size;
}

/* Half of it, since others use it too. Smaller moves leave dst in the cache for
 * its next reader. */
bool bytes_are_large(int64_t dst_bytes, int64_t src_bytes)
{
	return dst_bytes / 2 + src_bytes / 2 > known_cache_size() / 4;
}

void move_nest(const struct nest *nest, void *dst, const void *src)
{
	struct nest tidy = *nest;
	int64_t bits = tarn_dtype_bits(nest->src_dtype), bytes;

	nest_tidy(&tidy, NEST_BY_DST);
	bytes = bits;
	for (int i = 0; i < tidy.n; i++)
		bytes *= tidy.extent[i];
	bytes /= 8;
	bytes_move(&tidy, bytes_are_large(bytes, bytes), dst, src);
}
