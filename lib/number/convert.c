// SPDX-License-Identifier: MIT
/*
 * Conversion of runs. 22 dtypes make 462 pairs; a kernel for each would be a
 * wall of code, so an element goes through a pivot, and the pair only decides
 * which steps are taken:
 *
 *	F32	where both sides are narrow (16 bits and less, F32, C64): every
 *		source value is exact in it, so the store rounds first and last
 *	F64	where either side is F64 or an integer of 32 bits and more
 *	I64	from 64-bit integers to integers; no rounding at all
 *
 * Where the pivot cannot hold the value, or its store would round a second
 * time, it is rounded *to odd* (if bits are cut off, the lowest bit is set):
 * the later rounding, to at least two bits fewer, then sees on which side of a
 * tie the exact value was (Boldo and Melquiond, Emulation of FMA and correctly
 * rounded sums: proved algorithms using rounding to odd). So F64 to F16 is F64,
 * odd F32, F16, and U64 to BF16 is odd F64, odd F32, BF16, and both are as if
 * rounded once.
 *
 * A run is cut into blocks that stay in the first cache while they go from step
 * to step; where one step does it all, no buffer is touched.
 */
#include "lib/number/convert.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "lib/number/number.h"

/* Elements: with both buffers 8 KiB, a quarter of a small first cache. A
 * multiple of all packs. */
#define BLOCK 512

/* Set by tests alone: it orders nothing. */
static atomic_bool portable;

void convert_portable(bool on)
{
	atomic_store_explicit(&portable, on, memory_order_relaxed);
}

static const struct convert_set *best_set(void)
{
	const struct convert_set *set = convert_set_avx2();

	if (!set || atomic_load_explicit(&portable, memory_order_relaxed))
		return &convert_set_c;
	return set;
}

/* ---- the plan ------------------------------------------------------ */

/* More than F32 can hold. */
static bool is_wide(int dtype)
{
	switch (dtype) {
	case TARN_I32:
	case TARN_U32:
	case TARN_F64:
	case TARN_I64:
	case TARN_U64:
		return true;
	default:
		return false;
	}
}

static bool is_long(int dtype)
{
	return dtype == TARN_I64 || dtype == TARN_U64;
}

static void then(struct convert *c, convert_step *step)
{
	if (step)
		c->step[c->steps++] = step;
}

/* To the pivot that scales: the nearest value there, as the scale expects. */
static void plan_load(struct convert *c, const struct convert_set *set)
{
	int src = c->src_dtype;

	then(c, set->unpack[src]);
	if (is_wide(src)) {
		then(c, c->scaled || c->dst_dtype == TARN_F64
				? set->load_f64[src]
				: set->load_f64_odd[src]);
		return;
	}
	then(c, set->load_f32[src]);
	if (c->wide)
		then(c, set->widen);
}

static void plan_store(struct convert *c, const struct convert_set *set)
{
	int dst = c->dst_dtype, even = c->rounding == TARN_ROUND_EVEN;

	if (c->wide && is_wide(dst)) {
		then(c, set->store_f64[even][dst]);
		return;
	}
	if (c->wide)
		then(c, dst == TARN_F32 || dst == TARN_C64 ? set->narrow
							   : set->narrow_odd);
	then(c, set->store_f32[even][dst]);
	then(c, set->pack[dst]);
}

static void plan_scale(struct convert *c, const struct convert_set *set)
{
	c->scale_at = c->steps++;
	c->one = c->wide ? set->one_f64 : set->one_f32;
	c->each = c->wide ? set->each_f64 : set->each_f32;
	c->fused = c->wide ? NULL : set->one_load[c->src_dtype];
}

static void plan_steps(struct convert *c, const struct convert_set *set)
{
	int src = c->src_dtype, dst = c->dst_dtype;
	bool cut = c->rounding == TARN_ROUND_TRUNCATE ||
		   !number_is_integer(dst) || number_is_integer(src);

	if (!c->scaled && cut && set->direct[src][dst]) {
		then(c, set->direct[src][dst]);
		return;
	}
	if (!c->scaled && is_long(src) &&
		(is_long(dst) || set->store_i64[dst])) {
		then(c, set->load_i64[src]);
		then(c, set->store_i64[dst]);
		return;
	}
	c->wide = is_wide(src) || is_wide(dst);
	plan_load(c, set);
	if (c->scaled)
		plan_scale(c, set);
	plan_store(c, set);
}

int convert_plan(struct convert *ret, int dst_dtype, int src_dtype,
	enum tarn_rounding rounding, const double *scale, const double *bias)
{
	struct convert c = {
		.dst_dtype = (uint8_t)dst_dtype,
		.src_dtype = (uint8_t)src_dtype,
		.rounding = (uint8_t)rounding,
		.scaled = scale || bias,
		.scale = scale,
		.bias = bias,
		.dst_bits = (uint8_t)tarn_dtype_bits(dst_dtype),
		.src_bits = (uint8_t)tarn_dtype_bits(src_dtype),
	};

	if (!c.dst_bits || !c.src_bits)
		return tarn_fail(EINVAL, "copy: there is no dtype number %d",
			c.dst_bits ? src_dtype : dst_dtype);
	if (c.scaled && (dst_dtype == TARN_C64 || src_dtype == TARN_C64))
		return tarn_fail(ENOTSUP,
			"copy: %s to %s with a scale or a bias: complex "
			"numbers are not scaled; copy first, then scale the "
			"real parts",
			tarn_dtype_name(src_dtype), tarn_dtype_name(dst_dtype));
	c.plain = !c.scaled && dst_dtype == src_dtype;
	if (!c.plain)
		plan_steps(&c, best_set());
	*ret = c;
	return 0;
}

/* ---- the run ------------------------------------------------------- */

/* The factors of one run; a missing bias is -0, which alone leaves every
 * number as it is (0 would turn -0 into 0). */
struct factors {
	const struct convert *c;
	int64_t channel, step;
	double scale[BLOCK], bias[BLOCK]; /* of floats unless c->wide */
};

static void gather(const struct factors *f, const double *from, double none,
	double *to, size_t n)
{
	float *narrow = (float *)to;
	int64_t at = f->channel;

	for (size_t i = 0; i < n; i++, at += f->step) {
		double value = from ? from[at] : none;

		if (f->c->wide)
			to[i] = value;
		else
			narrow[i] = (float)value;
	}
}

static void scale_block(struct factors *f, void *dst, const void *src, size_t n)
{
	gather(f, f->c->scale, 1, f->scale, n);
	gather(f, f->c->bias, -0.0, f->bias, n);
	f->channel += (int64_t)n * f->step;
	f->c->each(dst, src, n, f->scale, f->bias);
}

/* Takes one block through the steps from `first` on; the results alternate
 * between two buffers. */
static void rest_of_steps(const struct convert *c, int first, void *dst,
	const void *src, size_t n, double scale, double bias, struct factors *f)
{
	double buffer[2][BLOCK];
	int last = c->steps - 1;

	for (int i = first; i <= last; i++) {
		void *to = i == last ? dst : buffer[i & 1];

		if (c->step[i])
			c->step[i](to, src, n);
		else if (f)
			scale_block(f, to, src, n);
		else
			c->one(to, src, n, scale, bias);
		src = to;
	}
}

static void run_each(const struct convert *c, char *dst, const char *src,
	size_t n, int64_t channel, int64_t step)
{
	struct factors f;

	f.c = c;
	f.channel = channel;
	f.step = step;
	for (; n; n -= MIN(n, BLOCK)) {
		rest_of_steps(c, 0, dst, src, MIN(n, BLOCK), 0, 0, &f);
		dst += BLOCK / 8 * c->dst_bits;
		src += BLOCK / 8 * c->src_bits;
	}
}

static void run_one(const struct convert *c, char *dst, const char *src,
	size_t n, double scale, double bias)
{
	double buffer[BLOCK];

	for (; n; n -= MIN(n, BLOCK)) {
		size_t count = MIN(n, BLOCK);

		if (c->fused && c->scale_at == c->steps - 1) {
			c->fused(dst, src, count, scale, bias);
		} else if (c->fused) {
			c->fused(buffer, src, count, scale, bias);
			rest_of_steps(c, c->scale_at + 1, dst, buffer, count, 0,
				0, NULL);
		} else {
			rest_of_steps(c, 0, dst, src, count, scale, bias, NULL);
		}
		dst += BLOCK / 8 * c->dst_bits;
		src += BLOCK / 8 * c->src_bits;
	}
}

void convert_run(const struct convert *c, void *dst, const void *src, size_t n,
	int64_t channel, int64_t step)
{
	if (c->steps == 1 && c->step[0])
		c->step[0](dst, src, n);
	else if (c->scaled && step)
		run_each(c, dst, src, n, channel, step);
	else
		run_one(c, dst, src, n, c->scale ? c->scale[channel] : 1,
			c->bias ? c->bias[channel] : -0.0);
}
