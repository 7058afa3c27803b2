/* SPDX-License-Identifier: MIT */
/*
 * Which kernel takes a nest, and in which steps. Bytes that stay as they are
 * move in the widest pieces, up to 16 bytes, into which rows, strides and
 * addresses can be divided. Where the elements that are adjacent in dst are not
 * those that are adjacent in src, tiles make both sides read and written in
 * whole lines. Conversions of common pairs have kernels of their own, for
 * vectors of 16 bytes where rows are whole vectors.
 */
#include "base/checked.h"
#include "lib/cuda/move_loops.h"
#include "lib/number/number.h"

/* Shorter loops leave most of a tile empty. */
#define TILE_LEAST 16
/* Past this an index does not fit a division by multiplication. */
#define STEPS_SMALL ((uint64_t)1 << 31)

/* ---- the nest ------------------------------------------------------------ */

/* n / extent is (high half of n * magic, + n) >> shift, for n < 2^31. */
static void set_divider(struct cuda_loop *loop)
{
	uint64_t d = (uint64_t)loop->extent;

	if (d >= STEPS_SMALL)
		return;
	loop->shift = 0;
	while ((uint64_t)1 << loop->shift < d)
		loop->shift++;
	loop->magic = (uint32_t)((((uint64_t)1 << 32) *
					 (((uint64_t)1 << loop->shift) - d)) /
					 d +
				 1);
}

static void set_loop(
	struct cuda_nest *nest, int at, const struct cuda_loops *l, int loop)
{
	nest->loop[at] = (struct cuda_loop) {.extent = l->extent[loop],
		.dst = l->dst_stride[loop],
		.src = l->src_stride[loop],
		.channel = l->channel[loop]};
	set_divider(&nest->loop[at]);
}

static void set_nest(struct cuda_nest *nest, const struct cuda_loops *l)
{
	const struct convert *c = &l->move->convert;

	*nest = (struct cuda_nest) {.dst = l->dst,
		.src = l->src,
		.steps = 1,
		.channel0 = l->channel0,
		.n = l->n,
		.dst_dtype = c->dst_dtype,
		.src_dtype = c->src_dtype,
		.dst_size = (uint8_t)l->dst_size,
		.src_size = (uint8_t)l->src_size,
		.even = c->rounding == TARN_ROUND_EVEN,
		.scaled = c->scaled};
	for (int i = 0; i < l->n; i++) {
		set_loop(nest, i, l, l->n - 1 - i);
		nest->steps *= (uint64_t)l->extent[l->n - 1 - i];
	}
}

/* ---- tiles --------------------------------------------------------------- */

/* The loops along dst and along src. */
static bool find_tile(const struct cuda_loops *l, int *ret_a, int *ret_b)
{
	int a = -1, b = -1;

	for (int i = 0; i < l->n; i++) {
		if (l->dst_stride[i] == l->dst_size)
			a = i;
		if (l->src_stride[i] == l->src_size)
			b = i;
	}
	if (a < 0 || b < 0 || a == b || l->extent[a] < TILE_LEAST ||
		l->extent[b] < TILE_LEAST)
		return false;
	*ret_a = a;
	*ret_b = b;
	return true;
}

/* The loop over tiles whose inside is given. */
static void set_tile_loop(
	struct cuda_nest *nest, int at, const struct cuda_loop *inside)
{
	nest->loop[at] = (struct cuda_loop) {
		.extent = (inside->extent + CUDA_SIDE - 1) / CUDA_SIDE,
		.dst = inside->dst * CUDA_SIDE,
		.src = inside->src * CUDA_SIDE,
		.channel = inside->channel * CUDA_SIDE};
	set_divider(&nest->loop[at]);
}

/* False: there are too many, and nest is as it was. */
static bool set_tiles(
	struct cuda_nest *nest, const struct cuda_loops *l, int a, int b)
{
	struct cuda_nest tiled = *nest;

	tiled.n = 4;
	set_loop(&tiled, 0, l, a);
	set_loop(&tiled, 1, l, b);
	set_tile_loop(&tiled, 2, &tiled.loop[0]);
	set_tile_loop(&tiled, 3, &tiled.loop[1]);
	for (int i = l->n - 1; i >= 0; i--)
		if (i != a && i != b)
			set_loop(&tiled, tiled.n++, l, i);
	tiled.steps = 1;
	for (int i = 2; i < tiled.n; i++)
		tiled.steps *= (uint64_t)tiled.loop[i].extent;
	if (tiled.steps >= STEPS_SMALL)
		return false;
	*nest = tiled;
	return true;
}

/* ---- bytes as they are --------------------------------------------------- */

static int log2_of(int64_t size)
{
	return size == 1   ? 0
	       : size == 2 ? 1
	       : size == 4 ? 2
	       : size == 8 ? 3
			   : 4;
}

/* The largest power of two, up to most, that divides all of these. */
static int64_t common_unit(const struct cuda_loops *l, int n, int64_t most)
{
	uint64_t all = l->dst | l->src | (uint64_t)most;

	for (int i = 0; i < n; i++)
		all |= (uint64_t)l->dst_stride[i] | (uint64_t)l->src_stride[i];
	return (int64_t)(all & (0 - all));
}

/* In pieces of run bytes that lie the same on both sides. */
static void set_unit(struct cuda_loops *l)
{
	int64_t run = l->dst_size, unit;
	int n = l->n;

	if (n && l->dst_stride[n - 1] == run && l->src_stride[n - 1] == run)
		run *= l->extent[--n];
	unit = common_unit(l, n, (run & (0 - run)) > 16 ? 16 : run & (0 - run));
	l->n = n;
	if (run > unit) {
		l->extent[n] = run / unit;
		l->dst_stride[n] = l->src_stride[n] = unit;
		l->channel[n] = 0;
		l->n++;
	}
	l->dst_size = l->src_size = unit;
}

void cuda_steps_raw(struct cuda_steps *ret, const struct cuda_loops *loops)
{
	struct cuda_loops l = *loops;
	int a, b, kind;

	set_unit(&l);
	kind = log2_of(l.dst_size);
	set_nest(&ret->nest, &l);
	if (l.dst_size < 16 && find_tile(&l, &a, &b) &&
		set_tiles(&ret->nest, &l, a, b)) {
		ret->kernel = (enum cuda_kernel)(CUDA_K_tile_1 + kind);
		return;
	}
	ret->kernel = (enum cuda_kernel)(
		(ret->nest.steps < STEPS_SMALL ? CUDA_K_raw_1
					       : CUDA_K_raw_1_long) +
		kind);
}

/* ---- conversions --------------------------------------------------------- */

static int pair_of(int src, int dst)
{
	static const struct {
		uint8_t src, dst;
	} pairs[] = {
#define PAIR(src, dst) {TARN_##src, TARN_##dst},
		CUDA_PAIRS(PAIR)
#undef PAIR
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		if (pairs[i].src == src && pairs[i].dst == dst)
			return (int)i;
	return -1;
}

static enum cuda_kernel pair_kernel(int pair, int which)
{
	return (enum cuda_kernel)(CUDA_PAIR_FIRST + 3 * pair + which);
}

/* As number/convert.c has it. */
static uint8_t pivot_of(const struct convert *c)
{
	bool from_long = c->src_dtype == TARN_I64 || c->src_dtype == TARN_U64;
	bool whole =
		c->dst_dtype == TARN_BOOL || number_is_integer(c->dst_dtype);

	if (!c->scaled && from_long && whole)
		return PIVOT_I64;
	return cuda_is_wide(c->src_dtype) || cuda_is_wide(c->dst_dtype)
		       ? PIVOT_F64
		       : PIVOT_F32;
}

static bool is_aligned(const struct cuda_loops *l)
{
	uint64_t dst = l->dst, src = l->src;

	return dst % (uint64_t)l->dst_size == 0 &&
	       (l->src_bits || src % (uint64_t)l->src_size == 0);
}

/* Rows of whole vectors, that all begin at whole vectors. */
static bool can_vector(const struct cuda_loops *l, int64_t vector)
{
	int last = l->n - 1;
	uint64_t dst = l->dst, src = l->src;

	if (last < 0 || l->dst_stride[last] != l->dst_size ||
		l->src_stride[last] != l->src_size ||
		l->extent[last] % vector != 0)
		return false;
	for (int i = 0; i < last; i++) {
		dst |= (uint64_t)l->dst_stride[i];
		src |= (uint64_t)l->src_stride[i];
	}
	return dst % (uint64_t)(l->dst_size * vector) == 0 &&
	       src % (uint64_t)(l->src_size * vector) == 0;
}

static void in_vectors(struct cuda_steps *ret, const struct cuda_loops *loops,
	int64_t vector, int pair)
{
	struct cuda_loops l = *loops;
	int last = l.n - 1;
	int64_t channel = l.channel[last];

	l.extent[last] /= vector;
	l.dst_stride[last] *= vector;
	l.src_stride[last] *= vector;
	l.channel[last] *= vector;
	set_nest(&ret->nest, &l);
	ret->nest.vector_channel = channel;
	ret->kernel = pair_kernel(pair, 0);
}

static void one_by_one(
	struct cuda_steps *ret, const struct cuda_loops *l, int pair)
{
	bool small;

	set_nest(&ret->nest, l);
	small = ret->nest.steps < STEPS_SMALL;
	ret->nest.bytewise = !is_aligned(l);
	ret->nest.src_bits = (uint8_t)l->src_bits;
	ret->nest.src_first_bit = (uint8_t)l->src_first_bit;
	if (pair >= 0 && small && !ret->nest.bytewise)
		ret->kernel = pair_kernel(pair, 1);
	else
		ret->kernel = small ? CUDA_K_any : CUDA_K_any_long;
}

/* The last loop, alone, in two parts, of which the first is whole vectors. */
static bool split_row(const struct cuda_loops *l, int64_t vector,
	struct cuda_loops *ret_head, struct cuda_loops *ret_tail)
{
	int64_t whole = l->n == 1 ? l->extent[0] / vector * vector : 0;

	if (whole == 0 || whole == l->extent[0])
		return false;
	*ret_head = *ret_tail = *l;
	ret_head->extent[0] = whole;
	ret_tail->extent[0] -= whole;
	ret_tail->dst += (uint64_t)(whole * l->dst_stride[0]);
	ret_tail->src += (uint64_t)(whole * l->src_stride[0]);
	ret_tail->channel0 += whole * l->channel[0];
	return can_vector(ret_head, vector);
}

void cuda_steps_convert(struct cuda_steps *ret, struct cuda_steps *rest,
	const struct cuda_loops *l)
{
	const struct convert *c = &l->move->convert;
	int pair = pair_of(c->src_dtype, c->dst_dtype), a, b;
	int64_t vector = 16 / MAX(l->dst_size, l->src_size);
	struct cuda_loops head, tail;

	rest->nest.steps = 0;
	one_by_one(ret, l, pair);
	if (!ret->nest.bytewise && !l->src_bits && find_tile(l, &a, &b) &&
		set_tiles(&ret->nest, l, a, b)) {
		ret->kernel =
			pair >= 0 ? pair_kernel(pair, 2)
				  : (enum cuda_kernel)(CUDA_K_tile_any_1 +
						       log2_of(l->dst_size));
	} else if (pair >= 0 && ret->nest.steps < STEPS_SMALL) {
		if (can_vector(l, vector)) {
			in_vectors(ret, l, vector, pair);
		} else if (split_row(l, vector, &head, &tail)) {
			in_vectors(ret, &head, vector, pair);
			one_by_one(rest, &tail, pair);
			rest->nest.pivot = pivot_of(c);
		}
	}
	ret->nest.pivot = pivot_of(c);
}
