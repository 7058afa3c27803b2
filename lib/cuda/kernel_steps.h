/* SPDX-License-Identifier: MIT */
/*
 * What one thread of a kernel does, as C that compilers for devices take too
 * (kernels.cu), so that tests run the same on the host.
 */
#pragma once

#include "lib/cuda/element.h"

/* ---- elements in memory -------------------------------------------------- */

#define ALIASES __attribute__((__may_alias__))
typedef u16 ALIASES u16_at;
typedef u32 ALIASES u32_at;
typedef u64 ALIASES u64_at;
struct ALIASES __attribute__((__aligned__(8))) two {
	u32 word[2];
};
struct ALIASES __attribute__((__aligned__(16))) four {
	u32 word[4];
};

ALWAYS u64 raw_load(const char *p, int size)
{
	switch (size) {
	case 1:
		return *(const u8 *)p;
	case 2:
		return *(const u16_at *)p;
	case 4:
		return *(const u32_at *)p;
	default:
		return *(const u64_at *)p;
	}
}

ALWAYS void raw_store(char *p, int size, u64 raw)
{
	switch (size) {
	case 1:
		*(u8 *)p = (u8)raw;
		break;
	case 2:
		*(u16_at *)p = (u16)raw;
		break;
	case 4:
		*(u32_at *)p = (u32)raw;
		break;
	default:
		*(u64_at *)p = raw;
	}
}

ALWAYS u64 bytes_load(const char *p, int size)
{
	u64 raw = 0;

	for (int i = 0; i < size; i++)
		raw |= (u64) * (const u8 *)(p + i) << (8 * i);
	return raw;
}

/* An element of less than 8 bits, which may lie across two bytes. */
ALWAYS u64 bits_load(const char *p, int64_t bit, int bits)
{
	const u8 *from = (const u8 *)p + (bit >> 3);
	int shift = (int)(bit & 7);
	u32 raw = from[0];

	if (shift + bits > 8)
		raw |= (u32)from[1] << 8;
	return raw >> shift & ((1u << bits) - 1);
}

ALWAYS void bytes_store(char *p, int size, u64 raw)
{
	for (int i = 0; i < size; i++)
		*(u8 *)(p + i) = (u8)(raw >> (8 * i));
}

/* Up to 16 bytes, aligned to their size, as words. */
ALWAYS void vector_load(u32 word[4], const char *p, int size)
{
	if (size == 16) {
		struct four v = *(const struct four *)p;

		for (int i = 0; i < 4; i++)
			word[i] = v.word[i];
	} else if (size == 8) {
		struct two v = *(const struct two *)p;

		word[0] = v.word[0];
		word[1] = v.word[1];
	} else {
		word[0] = (u32)raw_load(p, size);
	}
}

ALWAYS void vector_store(char *p, int size, const u32 word[4])
{
	if (size == 16) {
		struct four v = {{word[0], word[1], word[2], word[3]}};

		*(struct four *)p = v;
	} else if (size == 8) {
		struct two v = {{word[0], word[1]}};

		*(struct two *)p = v;
	} else {
		raw_store(p, size, word[0]);
	}
}

/* The i-th element, of 1, 2 or 4 bytes. */
ALWAYS u32 vector_get(const u32 word[4], int i, int size)
{
	int per = 4 / size;
	u32 x = word[i / per] >> (i % per * size * 8);

	return size == 4 ? x : x & ((1u << (size * 8 % 32)) - 1);
}

/* ---- places -------------------------------------------------------------- */

struct place {
	int64_t dst, src, channel;
};

ALWAYS u32 high_product(u32 a, u32 b)
{
#ifdef __CUDACC__
	return __umulhi(a, b);
#else
	return (u32)((u64)a * b >> 32);
#endif
}

/* n / extent, for n < 2^31. */
ALWAYS u32 divided(const struct cuda_loop *loop, u32 n)
{
	return (high_product(n, loop->magic) + n) >> loop->shift;
}

ALWAYS void advance(struct place *at, const struct cuda_nest *p,
	const struct cuda_loop *loop, int64_t n)
{
	at->dst += n * loop->dst;
	at->src += n * loop->src;
	if (p->scaled)
		at->channel += n * loop->channel;
}

/* Of step n of the loops from first on; there are less than 2^31 steps. */
ALWAYS struct place place_small(const struct cuda_nest *p, int first, u32 n)
{
	struct place at = {0, 0, p->channel0};
	int l = first;

	for (; l < p->n - 1; l++) {
		u32 q = divided(&p->loop[l], n);

		advance(&at, p, &p->loop[l], n - q * (u32)p->loop[l].extent);
		n = q;
	}
	if (l < p->n)
		advance(&at, p, &p->loop[l], n);
	return at;
}

ALWAYS struct place place_large(const struct cuda_nest *p, u64 n)
{
	struct place at = {0, 0, p->channel0};

	for (int l = 0; l < p->n; l++) {
		u64 q = n / (u64)p->loop[l].extent;

		advance(&at, p, &p->loop[l],
			(int64_t)(n - q * (u64)p->loop[l].extent));
		n = q;
	}
	return at;
}

/* bits: of an index, 32 where there are less than 2^31 steps. */
ALWAYS struct place place_of_step(const struct cuda_nest *p, u64 i, int bits)
{
	return bits == 32 ? place_small(p, 0, (u32)i) : place_large(p, i);
}

ALWAYS struct factor factor_at(
	const struct cuda_nest *p, int64_t channel, int pivot)
{
	struct factor f = {1, 0, 1, 0};
	const char *from =
		p->factors ? (const char *)p->factors : (const char *)p->factor;
	int64_t bias = channel + p->channels;

	if (!p->scaled)
		return f;
	if (pivot == PIVOT_F32) {
		f.scale_f32 = f32_of((u32)raw_load(from + channel * 4, 4));
		f.bias_f32 = f32_of((u32)raw_load(from + bias * 4, 4));
	} else {
		f.scale_f64 = f64_of(raw_load(from + channel * 8, 8));
		f.bias_f64 = f64_of(raw_load(from + bias * 8, 8));
	}
	return f;
}

/* ---- steps --------------------------------------------------------------- */

ALWAYS void step_raw(const struct cuda_nest *p, u64 i, int size, int bits)
{
	struct place at = place_of_step(p, i, bits);
	const char *src = (const char *)p->src + at.src;
	char *dst = (char *)p->dst + at.dst;

	if (size == 16)
		*(struct four *)dst = *(const struct four *)src;
	else
		raw_store(dst, size, raw_load(src, size));
}

ALWAYS u64 convert_one(const struct cuda_nest *p, u64 raw, int64_t channel,
	int src, int dst, int pivot)
{
	return element_convert(raw, dst, src, pivot, p->even, p->scaled,
		factor_at(p, channel, pivot));
}

ALWAYS void step_any(const struct cuda_nest *p, u64 i, int bits)
{
	struct place at = place_of_step(p, i, bits);
	const char *src = (const char *)p->src + at.src;
	char *dst = (char *)p->dst + at.dst;
	u64 raw;

	if (p->src_bits)
		raw = bits_load((const char *)p->src, at.src + p->src_first_bit,
			p->src_bits);
	else if (p->bytewise)
		raw = bytes_load(src, p->src_size);
	else
		raw = raw_load(src, p->src_size);
	raw = convert_one(
		p, raw, at.channel, p->src_dtype, p->dst_dtype, p->pivot);
	if (p->bytewise)
		bytes_store(dst, p->dst_size, raw);
	else
		raw_store(dst, p->dst_size, raw);
}

/* Of the dtypes in pairs. */
ALWAYS int size_of(int dtype)
{
	return dtype == TARN_F32                         ? 4
	       : dtype == TARN_F16 || dtype == TARN_BF16 ? 2
							 : 1;
}

ALWAYS int vector_of(int src, int dst)
{
	int size = size_of(src) > size_of(dst) ? size_of(src) : size_of(dst);

	return 16 / size;
}

ALWAYS void step_single(const struct cuda_nest *p, u64 i, int src, int dst)
{
	struct place at = place_of_step(p, i, 32);
	u64 raw = raw_load((const char *)p->src + at.src, size_of(src));

	raw = convert_one(p, raw, at.channel, src, dst, PIVOT_F32);
	raw_store((char *)p->dst + at.dst, size_of(dst), raw);
}

#ifdef __CUDACC__
#define UNROLLED _Pragma("unroll")
#define UNROLLED_4 _Pragma("unroll 4")
#else
#define UNROLLED
#define UNROLLED_4
#endif

ALWAYS void step_vector(const struct cuda_nest *p, u64 i, int src, int dst)
{
	struct place at = place_of_step(p, i, 32);
	const int n = vector_of(src, dst), per = 4 / size_of(dst);
	u32 from[4] = {0}, to[4] = {0};

	vector_load(from, (const char *)p->src + at.src, n * size_of(src));
	UNROLLED
	for (int j = 0; j < n; j++) {
		u64 raw = convert_one(p, vector_get(from, j, size_of(src)),
			at.channel + j * p->vector_channel, src, dst,
			PIVOT_F32);

		to[j / per] |= (u32)raw << (j % per * size_of(dst) * 8);
	}
	vector_store((char *)p->dst + at.dst, n * size_of(dst), to);
}

/* ---- tiles --------------------------------------------------------------- */

/* Bytes of a row. It is a word longer than its elements, so that threads that
 * share a column use different banks. */
#define CUDA_TILE_PITCH(size) (CUDA_SIDE * (size) + ((size) == 8 ? 8 : 4))

struct tile {
	struct place at; /* where it begins */
	int64_t a, b;    /* its extents, along dst and src, or more */
};

/* Loops 0 and 1 are those inside a tile; from loop 2 on they are over tiles, the
 * first two along dst and src. */
ALWAYS struct tile tile_at(const struct cuda_nest *p, u32 block)
{
	u32 q = divided(&p->loop[2], block);
	struct tile t;

	t.at = place_small(p, 2, block);
	t.a = p->loop[0].extent -
	      (int64_t)(block - q * (u32)p->loop[2].extent) * CUDA_SIDE;
	t.b = p->loop[1].extent -
	      (int64_t)(q - divided(&p->loop[3], q) * (u32)p->loop[3].extent) *
		      CUDA_SIDE;
	return t;
}

/* Threads with adjacent numbers read adjacent elements of src. The tile holds
 * what is stored. */
ALWAYS void tile_load(const struct cuda_nest *p, const struct tile *t,
	int thread, void *tile, int kind, int a, int b)
{
	const char *src = (const char *)p->src + t->at.src;
	int x = thread % CUDA_SIDE;
	int from = kind == CUDA_TILE_RAW    ? a
		   : kind == CUDA_TILE_PAIR ? size_of(a)
					    : p->src_size;
	int to = kind == CUDA_TILE_RAW    ? a
		 : kind == CUDA_TILE_PAIR ? size_of(b)
					  : b;

	for (int y = thread / CUDA_SIDE; y < CUDA_SIDE;
		y += CUDA_THREADS / CUDA_SIDE) {
		int64_t channel = t->at.channel + y * p->loop[0].channel +
				  x * p->loop[1].channel;
		u64 raw;

		if (y >= t->a || x >= t->b)
			continue;
		raw = raw_load(
			src + y * p->loop[0].src + x * p->loop[1].src, from);
		if (kind == CUDA_TILE_PAIR)
			raw = convert_one(p, raw, channel, a, b, PIVOT_F32);
		else if (kind == CUDA_TILE_ANY)
			raw = convert_one(p, raw, channel, p->src_dtype,
				p->dst_dtype, p->pivot);
		raw_store((char *)tile + y * CUDA_TILE_PITCH(to) + x * to, to,
			raw);
	}
}

ALWAYS void tile_store(const struct cuda_nest *p, const struct tile *t,
	int thread, const void *tile, int kind, int a, int b)
{
	char *dst = (char *)p->dst + t->at.dst;
	int x = thread % CUDA_SIDE;
	int to = kind == CUDA_TILE_RAW    ? a
		 : kind == CUDA_TILE_PAIR ? size_of(b)
					  : b;

	for (int y = thread / CUDA_SIDE; y < CUDA_SIDE;
		y += CUDA_THREADS / CUDA_SIDE)
		if (x < t->a && y < t->b)
			raw_store(dst + x * p->loop[0].dst + y * p->loop[1].dst,
				to,
				raw_load((const char *)tile +
						 x * CUDA_TILE_PITCH(to) +
						 y * to,
					to));
}

ALWAYS void kernel_step(
	const struct cuda_nest *p, u64 i, int kind, int a, int b)
{
	switch (kind) {
	case CUDA_RAW:
		step_raw(p, i, a, b);
		break;
	case CUDA_ANY:
		step_any(p, i, b);
		break;
	case CUDA_VECTOR:
		step_vector(p, i, a, b);
		break;
	default:
		step_single(p, i, a, b);
	}
}
