/* SPDX-License-Identifier: MIT */
/*
 * The library's kernels, compiled for the host from the same text; and one of
 * the stand-in's own, for the test of it.
 */
#include "tests/fakecuda/kernels.h"

#include "lib/cuda/list_steps.h"
#include "tests/fakecuda/fakecuda.h"

/* ---- the stand-in's own -------------------------------------------------- */

static int increment_touches(void *params, struct touch ret[TOUCHES_MAX])
{
	struct fakecuda_increment *p = params;

	ret[0] = (struct touch) {
		.address = &p->at, .size = p->size, .writes = 1};
	return 1;
}

/* A thread for each byte, and none for bytes past the grid. */
static void increment(const void *params, const struct grid *grid)
{
	const struct fakecuda_increment *p = params;
	uint64_t threads = (uint64_t)grid->grid[0] * grid->block[0];

	for (uint64_t i = 0; i < p->size && i < threads; i++)
		((unsigned char *)p->at)[i]++;
}

/* ---- what the library's use ---------------------------------------------- */

/* Loops over tiles reach no more than those inside tiles, which have the whole
 * extent: they are left out. */
static struct touch span(struct cuda_nest *p, int writes, int unit, int tiled)
{
	struct touch t = {
		.address = writes ? &p->dst : &p->src, .writes = writes};
	int64_t last = 0;

	for (int i = 0; i < p->n; i++) {
		const struct cuda_loop *loop = &p->loop[i];
		int64_t stride = writes ? loop->dst : loop->src;

		if (tiled && (i == 2 || i == 3))
			continue;
		*(stride < 0 ? &t.first : &last) += stride * (loop->extent - 1);
	}
	if (!writes && p->src_bits) {
		last += p->src_first_bit + p->src_bits - 1;
		t.first = (t.first + p->src_first_bit) >> 3;
		last >>= 3;
		unit = 1;
	}
	t.size = (size_t)(last - t.first) + (size_t)unit;
	return t;
}

static int nest_touches(struct cuda_nest *p, int kind, int a, int b,
	struct touch ret[TOUCHES_MAX])
{
	int src = p->src_size, dst = p->dst_size;

	if (kind == CUDA_RAW || kind == CUDA_TILE_RAW) {
		src = dst = a;
	} else if (kind == CUDA_VECTOR) {
		src = size_of(a) * vector_of(a, b);
		dst = size_of(b) * vector_of(a, b);
	}
	ret[0] = span(p, 0, src, kind >= CUDA_TILE_RAW);
	ret[1] = span(p, 1, dst, kind >= CUDA_TILE_RAW);
	if (!p->factors)
		return 2;
	ret[2] = (struct touch) {.address = &p->factors,
		.size = (size_t)p->channels * (p->pivot == PIVOT_F64 ? 16 : 8)};
	return 3;
}

/* ---- the grid ------------------------------------------------------------ */

static void run_steps(
	const struct cuda_nest *p, const struct grid *g, int kind, int a, int b)
{
	uint64_t threads = (uint64_t)g->grid[0] * g->block[0];

	for (uint64_t thread = 0; thread < threads; thread++)
		for (uint64_t i = thread; i < p->steps; i += threads)
			kernel_step(p, i, kind, a, b);
}

/* All threads of a block load before the first stores. */
static void run_tiles(
	const struct cuda_nest *p, const struct grid *g, int kind, int a, int b)
{
	_Alignas(8) char tile[CUDA_SIDE * CUDA_TILE_PITCH(8)];

	for (uint64_t block = 0; block < g->grid[0]; block++)
		for (uint64_t i = block; i < p->steps; i += g->grid[0]) {
			const struct tile t = tile_at(p, (u32)i);

			for (int k = 0; k < CUDA_THREADS; k++)
				tile_load(p, &t, k, tile, kind, a, b);
			for (int k = 0; k < CUDA_THREADS; k++)
				tile_store(p, &t, k, tile, kind, a, b);
		}
}

static void run_grid(
	const struct cuda_nest *p, const struct grid *g, int kind, int a, int b)
{
	if (kind < CUDA_TILE_RAW)
		run_steps(p, g, kind, a, b);
	else
		run_tiles(p, g, kind, a, b);
}

#define K(name, kind, a, b)                                                    \
	static int touches_##name(void *p, struct touch ret[TOUCHES_MAX])      \
	{                                                                      \
		return nest_touches(p, CUDA_##kind, a, b, ret);                \
	}                                                                      \
	static void run_##name(const void *p, const struct grid *grid)         \
	{                                                                      \
		run_grid(p, grid, CUDA_##kind, a, b);                          \
	}
CUDA_KERNELS
#undef K

/* ---- over lists ---------------------------------------------------------- */

static struct touch touch_positions(struct cuda_list *p)
{
	return (struct touch) {
		.address = &p->positions, .size = p->n * (p->wide ? 8 : 4)};
}

static int touches_sums(void *params, struct touch ret[TOUCHES_MAX])
{
	struct cuda_list *p = params;

	ret[0] = (struct touch) {.address = &p->src, .size = p->n};
	ret[1] = (struct touch) {.address = &p->out,
		.size = (size_t)p->blocks * 16,
		.writes = 1};
	return 2;
}

static int touches_check(void *params, struct touch ret[TOUCHES_MAX])
{
	struct cuda_list *p = params;

	ret[0] = touch_positions(p);
	ret[1] = (struct touch) {.address = &p->out, .size = 16, .writes = 1};
	return 2;
}

/* All of the tensor, wherever the positions are. */
static int touches_scatter(void *params, struct touch ret[TOUCHES_MAX])
{
	struct cuda_list *p = params;
	struct touch t = {.address = &p->dst, .writes = 1};
	int64_t last = 0;

	for (int d = 0; d < p->ndim; d++)
		*(p->stride[d] < 0 ? &t.first : &last) +=
			p->stride[d] * (p->extent[d] - 1);
	t.size = (size_t)(last - t.first) + p->size;
	ret[0] = touch_positions(p);
	ret[1] = (struct touch) {.address = &p->src, .size = p->n * p->size};
	ret[2] = t;
	return 3;
}

static void run_sums(const void *params, const struct grid *grid)
{
	const struct cuda_list *p = params;
	uint64_t threads = (uint64_t)grid->grid[0] * grid->block[0];

	for (uint64_t block = 0; block < grid->grid[0]; block++) {
		struct word_sums sums = {0, 0};

		for (uint64_t k = 0; k < grid->block[0]; k++) {
			struct word_sums of = list_sums(
				p, block * grid->block[0] + k, threads);

			sums.a += of.a;
			sums.b += of.b;
		}
		((u64 *)p->out)[2 * block] = sums.a;
		((u64 *)p->out)[2 * block + 1] = sums.b;
	}
}

static void run_check(const void *params, const struct grid *grid)
{
	const struct cuda_list *p = params;

	(void)grid;
	for (uint64_t i = 0; i < p->n; i++)
		list_check(p, i);
}

static void run_scatter(const void *params, const struct grid *grid)
{
	const struct cuda_list *p = params;

	(void)grid;
	for (uint64_t i = 0; i < p->n; i++)
		list_scatter(p, i);
}

int kernels_list(struct kernel ret[KERNELS_MAX])
{
	int n = 0;

	ret[n++] = (struct kernel) {"fakecuda_increment",
		sizeof(struct fakecuda_increment), increment_touches,
		increment};
#define K(name, kind, a, b)                                                    \
	ret[n++] = (struct kernel) {"tarn_" #name, sizeof(struct cuda_nest),   \
		touches_##name, run_##name};
	CUDA_KERNELS
#undef K
#define L(name)                                                                \
	ret[n++] = (struct kernel) {"tarn_" #name, sizeof(struct cuda_list),   \
		touches_##name, run_##name};
	CUDA_LISTS
#undef L
	return n;
}
