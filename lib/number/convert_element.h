/* SPDX-License-Identifier: MIT */
/*
 * One element from one representation to another: arithmetic on its bits,
 * without branches or tables, so that compilers make vectors of it. The CPU's
 * loops (convert_kernels.h) and the kernels for GPUs (lib/cuda/) are built of
 * it; so it is C and CUDA's C++, and gives the same bits in both where products
 * are not fused with sums.
 *
 * Small floats are a sign, an exponent and a mantissa, as in F32. Decoding
 * shifts them into place and adds the difference of the biases; encoding does
 * the reverse after adding half a unit in the last place, less one if the rest
 * is even, so that a carry runs into the exponent by itself. Subnormal values
 * of the small type are normal in F32 (BF16 and E8M0 have its range and go
 * other ways): codes are counted there, by turning the count into a float and
 * by adding a power of two whose unit is theirs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define ALWAYS static __device__ __forceinline__
#define FORM static __device__ const
#define FABS(x) fabs(x)
#define COPYSIGN(x, y) copysign(x, y)
#define LIKELY(x) (x)
#else
#define ALWAYS static inline __attribute__((__always_inline__))
#define FORM static const __attribute__((__unused__))
#define FABS(x) __builtin_fabs(x)
#define COPYSIGN(x, y) __builtin_copysign(x, y)
#define LIKELY(x) __builtin_expect(x, 1)
#endif

/* ---- types ---------------------------------------------------------- */

typedef uint8_t u8;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;
typedef double f64;
struct c64 {
	f32 re, im;
};
typedef struct c64 c64;

ALWAYS u32 bits_of(f32 x)
{
	u32 bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

ALWAYS f32 f32_of(u32 bits)
{
	f32 x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

ALWAYS f64 f64_of(u64 bits)
{
	f64 x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* ---- small floats -------------------------------------------------- */

struct form {
	int exponent, mantissa, bias;
	u32 max;  /* the largest finite code */
	u32 over; /* the result for larger values */
	u32 nan;  /* 0: there is none */
	bool ieee, fnuz;
};

FORM struct form f4 = {2, 1, 1, 0x7, 0x7, 0, false, false};
FORM struct form e2m3 = {2, 3, 1, 0x1f, 0x1f, 0, false, false};
FORM struct form e3m2 = {3, 2, 3, 0x1f, 0x1f, 0, false, false};
FORM struct form e5m2 = {5, 2, 15, 0x7b, 0x7c, 0x7e, true, false};
FORM struct form e4m3 = {4, 3, 7, 0x7e, 0x7e, 0x7f, false, false};
FORM struct form e4m3fnuz = {4, 3, 8, 0x7f, 0x7f, 0x80, false, true};
FORM struct form e5m2fnuz = {5, 2, 16, 0x7f, 0x7f, 0x80, false, true};
FORM struct form f16 = {5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true, false};

#define F32_INFINITY 0x7f800000u
#define F32_NAN 0x7fc00000u

/* 2^exponent, in the range of normal F32. */
ALWAYS f32 power(int exponent)
{
	return f32_of((u32)(127 + exponent) << 23);
}

ALWAYS f32 decode(u32 raw, struct form f)
{
	const int width = f.exponent + f.mantissa, up = 23 - f.mantissa;
	u32 code = raw & ((1u << width) - 1), sign = raw >> width << 31;
	u32 normal = (code << up) + ((u32)(127 - f.bias) << 23);
	u32 count = bits_of((f32)(i32)code * power(1 - f.bias - f.mantissa));
	u32 bits = code < 1u << f.mantissa ? count : normal;

	if (f.ieee) {
		/* A NaN keeps its payload and is made quiet, as CPUs do. */
		bits = code > f.max ? code << up | F32_INFINITY : bits;
		bits = code > f.over ? bits | F32_NAN : bits;
	} else if (f.fnuz) {
		bits = raw == f.nan ? F32_NAN : bits;
		sign = raw == f.nan ? 0 : sign;
	} else if (f.nan) {
		bits = code == f.nan ? F32_NAN : bits;
	}
	return f32_of(bits | sign);
}

ALWAYS u32 encode(f32 x, struct form f)
{
	const int down = 23 - f.mantissa;
	const u32 unit = bits_of(power(24 - f.bias - f.mantissa));
	u32 bits = bits_of(x), a = bits & 0x7fffffff;
	u32 sign = bits >> 31 << (f.exponent + f.mantissa);
	u32 half = (1u << (down - 1)) - 1 + (a >> down & 1);
	u32 normal = ((a + half) >> down) - ((u32)(127 - f.bias) << f.mantissa);
	u32 count = bits_of(f32_of(a) + f32_of(unit)) - unit;
	u32 code = a < (u32)(128 - f.bias) << 23 ? count : normal;
	u32 nan = f.nan;

	if (f.mantissa == 10) /* F16 keeps what it can of the payload */
		nan |= a >> down & 0x3ff;
	/* Codes stay below 2^17: a signed comparison is the cheaper one. */
	code = (i32)code > (i32)f.max ? f.over : code;
	code = a > F32_INFINITY ? nan : code;
	if (!f.nan || f.fnuz) /* no sign on a 0 in types without -0, or on a
			       * NaN */
		sign = a > F32_INFINITY || (f.fnuz && code == 0) ? 0 : sign;
	return code | sign;
}

ALWAYS u32 to_bf16(f32 x)
{
	u32 bits = bits_of(x), quiet = bits >> 16 | 0x40;
	u32 near = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (bits & 0x7fffffff) > F32_INFINITY ? quiet : near;
}

/* A bare exponent, with F32's bias. 2^-127, the code 0, is subnormal in F32. */
ALWAYS u32 from_e8m0(u32 raw)
{
	u32 bits = raw == 0 ? 0x00400000 : raw << 23;

	return raw == 0xff ? F32_NAN : bits;
}

ALWAYS u32 to_e8m0(f32 x)
{
	u32 bits = bits_of(x),
	    code = (bits + 0x3fffff + (bits >> 23 & 1)) >> 23;

	code = bits < 0x00800000 ? bits > 0x00600000 : code;
	code = code > 0xfe ? 0xfe : code;
	code = (i32)bits < 0 ? 0 : code;
	return (bits & 0x7fffffff) > F32_INFINITY ? 0xff : code;
}

/* ---- F32 to integers ----------------------------------------------- */

ALWAYS f32 clamp_f32(f32 x, f32 low, f32 high)
{
	x = x == x ? x : 0;
	x = x < low ? low : x;
	return x > high ? high : x;
}

/* To the nearest integer, ties to even, if |x| < 2^22: the sum has no bits
 * below 1. */
ALWAYS f32 even_f32(f32 x)
{
	return x + 0x1.8p23f - 0x1.8p23f;
}

ALWAYS i32 cut_i32(f32 x)
{
	i32 inside = (i32)clamp_f32(x, -0x1p31f, 0x1.fffffep30f);

	return x >= 0x1p31f ? INT32_MAX : inside;
}

/* ---- F64 ------------------------------------------------------------ */

/* To odd: the nearest F32, one step back if that is away from 0, and a lowest
 * bit that is set if anything was lost. */
ALWAYS f32 odd_f32(f64 x)
{
	f32 near = (f32)x;
	f64 back = (f64)near;
	u32 bits = bits_of(near), away = FABS(back) > FABS(x);
	u32 lost = back != x && x == x;

	return f32_of((bits - away) | lost);
}

/* A 64-bit magnitude in 53 bits, to odd. */
ALWAYS f64 odd_f64(u64 n)
{
	u64 high = (n & ~0x7ffull) | ((n & 0x7ff) ? 0x800 : 0);

	return (f64)(n >> 53 ? high : n);
}

ALWAYS f64 odd_f64_signed(i64 n)
{
	f64 magnitude = odd_f64(n < 0 ? 0 - (u64)n : (u64)n);

	return n < 0 ? -magnitude : magnitude;
}

/*
 * A 64-bit integer to F32, in vectors, which have no instruction for it before
 * AVX-512. Past 2^52 what lies below bit 12 is but a bit that says whether
 * there is any; then each half is put into the mantissa of an F64 of a known
 * exponent, and their sum is exact.
 */
ALWAYS f32 near_f32(i64 n)
{
	u64 odd = ((u64)n & ~0xfffull) | (((n & 0xfff) + 0xfff) >> 1 & 0x800);
	u64 kept = ((u64)n + (1ull << 52)) >> 53 ? odd : (u64)n;
	u64 low = (kept & 0xffffffff) | 0x4330000000000000; /* 2^52 + it */
	u64 high = kept >> 32 ^ 0x4530000080000000; /* 2^84 + 2^63 + it */

	return (f32)((f64_of(high) - (0x1p84 + 0x1p63 + 0x1p52)) + f64_of(low));
}

ALWAYS f64 clamp_f64(f64 x, f64 low, f64 high)
{
	x = x == x ? x : 0;
	x = x < low ? low : x;
	return x > high ? high : x;
}

/* As even_f32, of the magnitude; from 2^52 on there is nothing to round. */
ALWAYS f64 even_f64(f64 x)
{
	f64 a = FABS(x);
	f64 whole = COPYSIGN(a + 0x1p52 - 0x1p52, x);

	return a < 0x1p52 ? whole : x;
}

/* Few do not fit, and no vector has this instruction before AVX-512: a branch
 * that is foreseen costs less than a clamp. */
ALWAYS i64 to_i64(f64 x)
{
	if (LIKELY(x >= -0x1p63 && x < 0x1p63))
		return (i64)x;
	if (x != x)
		return 0;
	return x < 0 ? INT64_MIN : INT64_MAX;
}

ALWAYS u64 to_u64(f64 x)
{
	if (LIKELY(x > -1 && x < 0x1p64))
		return (u64)x;
	return x > 0 ? UINT64_MAX : 0;
}

ALWAYS i64 clamp_i64(i64 x, i64 low, i64 high)
{
	x = x < low ? low : x;
	return x > high ? high : x;
}
