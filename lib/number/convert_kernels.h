/* SPDX-License-Identifier: MIT */
/*
 * The steps of conversions as plain loops, to be included by a file that
 * chooses the CPU. An element is converted by arithmetic on its bits, without
 * branches or tables, so that compilers make vectors of it. The includer sets
 *
 *	CONVERT_SET		the name of the set that is defined
 *	CONVERT_LINKAGE		static, or nothing
 *	CONVERT_OWN		if it defines some steps itself (#ifndef)
 *
 * Small floats are a sign, an exponent and a mantissa, as in F32. Decoding
 * shifts them into place and adds the difference of the biases; encoding does
 * the reverse after adding half a unit in the last place, less one if the rest
 * is even, so that a carry runs into the exponent by itself. Subnormal values
 * of the small type are normal in F32 (BF16 and E8M0 have its range and go
 * other ways): codes are counted there, by turning the count into a float and
 * by adding a power of two whose unit is theirs.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/number/convert_steps.h"

#define ALWAYS static inline __attribute__((__always_inline__))

/* ---- elements at any alignment ------------------------------------- */

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

/* A loop over elements: x is the source's, `value` its result. */
#define EACH(to, from, value)                                                  \
	do {                                                                   \
		for (size_t i = 0; i < n; i++) {                               \
			from x;                                                \
			to y;                                                  \
                                                                               \
			memcpy(&x, (const char *)src + i * sizeof(x),          \
				sizeof(x));                                    \
			y = (to)(value);                                       \
			memcpy((char *)dst + i * sizeof(y), &y, sizeof(y));    \
		}                                                              \
	} while (0)

#define STEP(name, to, from, value)                                            \
	static void name(                                                      \
		void *restrict dst, const void *restrict src, size_t n)        \
	{                                                                      \
		EACH(to, from, value);                                         \
	}

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

static const struct form f4 = {2, 1, 1, 0x7, 0x7, 0, false, false};
static const struct form e2m3 = {2, 3, 1, 0x1f, 0x1f, 0, false, false};
static const struct form e3m2 = {3, 2, 3, 0x1f, 0x1f, 0, false, false};
static const struct form e5m2 = {5, 2, 15, 0x7b, 0x7c, 0x7e, true, false};
static const struct form e4m3 = {4, 3, 7, 0x7e, 0x7e, 0x7f, false, false};
static const struct form e4m3fnuz = {4, 3, 8, 0x7f, 0x7f, 0x80, false, true};
static const struct form e5m2fnuz = {5, 2, 16, 0x7f, 0x7f, 0x80, false, true};
static const struct form f16 = {5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true, false};

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
	u32 bits = bits_of(near),
	    away = __builtin_fabs(back) > __builtin_fabs(x);
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
	f64 a = __builtin_fabs(x);
	f64 whole = __builtin_copysign(a + 0x1p52 - 0x1p52, x);

	return a < 0x1p52 ? whole : x;
}

/* Few do not fit, and no vector has this instruction before AVX-512: a branch
 * that is foreseen costs less than a clamp. */
ALWAYS i64 to_i64(f64 x)
{
	if (__builtin_expect(x >= -0x1p63 && x < 0x1p63, 1))
		return (i64)x;
	if (x != x)
		return 0;
	return x < 0 ? INT64_MIN : INT64_MAX;
}

ALWAYS u64 to_u64(f64 x)
{
	if (__builtin_expect(x > -1 && x < 0x1p64, 1))
		return (u64)x;
	return x > 0 ? UINT64_MAX : 0;
}

ALWAYS i64 clamp_i64(i64 x, i64 low, i64 high)
{
	x = x < low ? low : x;
	return x > high ? high : x;
}

/* ---- to the pivots -------------------------------------------------- */

STEP(load_bool, f32, u8, x != 0)
STEP(load_u8, f32, u8, x)
STEP(load_i8, f32, i8, x)
STEP(load_u16, f32, u16, x)
STEP(load_i16, f32, i16, x)
STEP(load_e5m2fnuz, f32, u8, decode(x, e5m2fnuz))
STEP(load_e8m0, u32, u8, from_e8m0(x))
#ifndef CONVERT_OWN
STEP(load_f4, f32, u8, decode(x, f4))
STEP(load_e2m3, f32, u8, decode(x, e2m3))
STEP(load_e3m2, f32, u8, decode(x, e3m2))
STEP(load_e5m2, f32, u8, decode(x, e5m2))
STEP(load_e4m3, f32, u8, decode(x, e4m3))
STEP(load_e4m3fnuz, f32, u8, decode(x, e4m3fnuz))
STEP(load_f16, f32, u16, decode(x, f16))
#endif
STEP(load_bf16, u32, u16, (u32)x << 16)
STEP(load_c64, f32, c64, x.re)

STEP(widen, f64, f32, x)
STEP(narrow, f32, f64, x)
STEP(narrow_odd, f32, f64, odd_f32(x))

STEP(load_i32, f64, i32, x)
STEP(load_u32, f64, u32, x)
STEP(load_i64, f64, i64, x)
STEP(load_u64, f64, u64, x)
STEP(odd_i64, f64, i64, odd_f64_signed(x))
STEP(odd_u64, f64, u64, odd_f64(x))
STEP(u64_to_i64, i64, u64, x > INT64_MAX ? INT64_MAX : x)

/* ---- from the pivots ------------------------------------------------ */

#define CUT_F32(low, high) (i32) clamp_f32(x, low, high)
#define EVEN_F32(low, high) (i32) even_f32(clamp_f32(x, low, high))

STEP(store_bool, u8, f32, x != 0)
STEP(cut_u16, u16, f32, CUT_F32(0, 65535))
STEP(cut_i16, i16, f32, CUT_F32(-32768, 32767))
STEP(even_u16, u16, f32, EVEN_F32(0, 65535))
STEP(even_i16, i16, f32, EVEN_F32(-32768, 32767))
STEP(store_f4, u8, f32, encode(x, f4))
STEP(store_e2m3, u8, f32, encode(x, e2m3))
STEP(store_e3m2, u8, f32, encode(x, e3m2))
STEP(store_e5m2, u8, f32, encode(x, e5m2))
STEP(store_e4m3, u8, f32, encode(x, e4m3))
STEP(store_e4m3fnuz, u8, f32, encode(x, e4m3fnuz))
STEP(store_e5m2fnuz, u8, f32, encode(x, e5m2fnuz))
STEP(store_e8m0, u8, f32, to_e8m0(x))
#ifndef CONVERT_OWN
STEP(cut_u8, u8, f32, CUT_F32(0, 255))
STEP(cut_i8, i8, f32, CUT_F32(-128, 127))
STEP(even_u8, u8, f32, EVEN_F32(0, 255))
STEP(even_i8, i8, f32, EVEN_F32(-128, 127))
STEP(store_f16, u16, f32, encode(x, f16))
#endif
STEP(store_bf16, u16, f32, to_bf16(x))
STEP(store_c64, u64, f32, bits_of(x))

#define CUT_F64(low, high) clamp_f64(x, low, high)
#define EVEN_F64(low, high) even_f64(clamp_f64(x, low, high))

STEP(cut_f64_i32, i32, f64, CUT_F64(-0x1p31, 0x1p31 - 1))
STEP(cut_f64_u32, u32, f64, (i64)CUT_F64(0, 0x1p32 - 1))
STEP(cut_f64_i64, i64, f64, to_i64(x))
STEP(cut_f64_u64, u64, f64, to_u64(x))
STEP(even_f64_i32, i32, f64, EVEN_F64(-0x1p31, 0x1p31 - 1))
STEP(even_f64_u32, u32, f64, (i64)EVEN_F64(0, 0x1p32 - 1))
STEP(even_f64_i64, i64, f64, to_i64(even_f64(x)))
STEP(even_f64_u64, u64, f64, to_u64(even_f64(x)))

STEP(i64_to_bool, u8, i64, x != 0)
STEP(i64_to_u8, u8, i64, clamp_i64(x, 0, UINT8_MAX))
STEP(i64_to_i8, i8, i64, clamp_i64(x, INT8_MIN, INT8_MAX))
STEP(i64_to_u16, u16, i64, clamp_i64(x, 0, UINT16_MAX))
STEP(i64_to_i16, i16, i64, clamp_i64(x, INT16_MIN, INT16_MAX))
STEP(i64_to_u32, u32, i64, clamp_i64(x, 0, UINT32_MAX))
STEP(i64_to_i32, i32, i64, clamp_i64(x, INT32_MIN, INT32_MAX))
STEP(i64_to_u64, u64, i64, clamp_i64(x, 0, INT64_MAX))

/* ---- packs: n is a multiple of theirs, as layouts have it ------------- */

static void unpack_f4(void *restrict dst, const void *restrict src, size_t n)
{
	const u8 *from = src;
	u8 *to = dst;

	for (size_t i = 0; i < n / 2; i++) {
		to[2 * i] = from[i] & 0xf;
		to[2 * i + 1] = from[i] >> 4;
	}
}

static void pack_f4(void *restrict dst, const void *restrict src, size_t n)
{
	const u8 *from = src;
	u8 *to = dst;

	for (size_t i = 0; i < n / 2; i++)
		to[i] = (u8)(from[2 * i] | from[2 * i + 1] << 4);
}

static void unpack_f6(void *restrict dst, const void *restrict src, size_t n)
{
	const u8 *from = src;
	u8 *to = dst;

	for (size_t i = 0; i + 3 < n; i += 4, from += 3) {
		u32 pack = from[0] | (u32)from[1] << 8 | (u32)from[2] << 16;

		for (size_t j = 0; j < 4; j++)
			to[i + j] = pack >> (6 * j) & 0x3f;
	}
}

static void pack_f6(void *restrict dst, const void *restrict src, size_t n)
{
	const u8 *from = src;
	u8 *to = dst;

	for (size_t i = 0; i + 3 < n; i += 4, to += 3) {
		u32 pack = from[i] | (u32)from[i + 1] << 6 |
			   (u32)from[i + 2] << 12 | (u32)from[i + 3] << 18;

		for (size_t j = 0; j < 3; j++)
			to[j] = (u8)(pack >> (8 * j));
	}
}

/* ---- scale ---------------------------------------------------------- */

#define SCALE_ONE(name, pivot, from)                                           \
	static void name(void *restrict dst, const void *restrict src,         \
		size_t n, double scale, double bias)                           \
	{                                                                      \
		const pivot s = (pivot)scale, b = (pivot)bias;                 \
                                                                               \
		EACH(pivot, from, (pivot)x *s + b);                            \
	}

#define SCALE_EACH(name, pivot)                                                \
	static void name(void *restrict dst, const void *restrict src,         \
		size_t n, const void *restrict scale,                          \
		const void *restrict bias)                                     \
	{                                                                      \
		const pivot *s = scale, *b = bias;                             \
                                                                               \
		EACH(pivot, pivot, x *s[i] + b[i]);                            \
	}

SCALE_ONE(one_f32, f32, f32)
SCALE_ONE(one_f64, f64, f64)
SCALE_ONE(one_load_u8, f32, u8)
SCALE_ONE(one_load_i8, f32, i8)
SCALE_ONE(one_load_u16, f32, u16)
SCALE_ONE(one_load_i16, f32, i16)
SCALE_EACH(each_f32, f32)
SCALE_EACH(each_f64, f64)

/* ---- in one step ---------------------------------------------------- */

STEP(i32_f32, f32, i32, x)
STEP(u32_f32, f32, u32, x)
STEP(i64_f32, f32, i64, near_f32(x))
STEP(f32_i32, i32, f32, cut_i32(x))
STEP(u8_i16, i16, u8, x)
STEP(u8_i32, i32, u8, x)
STEP(u8_i64, i64, u8, x)
STEP(i8_i16, i16, i8, x)
STEP(i8_i32, i32, i8, x)
STEP(i8_i64, i64, i8, x)
STEP(i16_i32, i32, i16, x)
STEP(i16_i64, i64, i16, x)
STEP(u16_i32, i32, u16, x)
STEP(u16_i64, i64, u16, x)
STEP(i32_i64, i64, i32, x)
STEP(u32_i64, i64, u32, x)

/* ---- the set -------------------------------------------------------- */

/* The steps that do not depend on how integers are rounded. */
#define STORE_F32                                                              \
	[TARN_BOOL] = store_bool, [TARN_F4] = store_f4,                        \
	[TARN_F6_E2M3] = store_e2m3, [TARN_F6_E3M2] = store_e3m2,              \
	[TARN_F8_E5M2] = store_e5m2, [TARN_F8_E4M3] = store_e4m3,              \
	[TARN_F8_E8M0] = store_e8m0, [TARN_F8_E4M3FNUZ] = store_e4m3fnuz,      \
	[TARN_F8_E5M2FNUZ] = store_e5m2fnuz, [TARN_F16] = store_f16,           \
	[TARN_BF16] = store_bf16, [TARN_C64] = store_c64

/* Tables of tables. */
/* clang-format off */
CONVERT_LINKAGE const struct convert_set CONVERT_SET = {
	.load_f32 = {
		[TARN_BOOL] = load_bool,
		[TARN_F4] = load_f4,
		[TARN_F6_E2M3] = load_e2m3,
		[TARN_F6_E3M2] = load_e3m2,
		[TARN_U8] = load_u8,
		[TARN_I8] = load_i8,
		[TARN_F8_E5M2] = load_e5m2,
		[TARN_F8_E4M3] = load_e4m3,
		[TARN_F8_E8M0] = load_e8m0,
		[TARN_F8_E4M3FNUZ] = load_e4m3fnuz,
		[TARN_F8_E5M2FNUZ] = load_e5m2fnuz,
		[TARN_I16] = load_i16,
		[TARN_U16] = load_u16,
		[TARN_F16] = load_f16,
		[TARN_BF16] = load_bf16,
		[TARN_C64] = load_c64,
	},
	.load_f64 = {
		[TARN_I32] = load_i32,
		[TARN_U32] = load_u32,
		[TARN_I64] = load_i64,
		[TARN_U64] = load_u64,
	},
	.load_f64_odd = {
		[TARN_I32] = load_i32,
		[TARN_U32] = load_u32,
		[TARN_I64] = odd_i64,
		[TARN_U64] = odd_u64,
	},
	.load_i64 = {
		[TARN_U64] = u64_to_i64,
	},
	.store_f32 = {
		{
			STORE_F32,
			[TARN_U8] = cut_u8,
			[TARN_I8] = cut_i8,
			[TARN_I16] = cut_i16,
			[TARN_U16] = cut_u16,
		},
		{
			STORE_F32,
			[TARN_U8] = even_u8,
			[TARN_I8] = even_i8,
			[TARN_I16] = even_i16,
			[TARN_U16] = even_u16,
		},
	},
	.store_f64 = {
		{
			[TARN_I32] = cut_f64_i32,
			[TARN_U32] = cut_f64_u32,
			[TARN_I64] = cut_f64_i64,
			[TARN_U64] = cut_f64_u64,
		},
		{
			[TARN_I32] = even_f64_i32,
			[TARN_U32] = even_f64_u32,
			[TARN_I64] = even_f64_i64,
			[TARN_U64] = even_f64_u64,
		},
	},
	.store_i64 = {
		[TARN_BOOL] = i64_to_bool,
		[TARN_U8] = i64_to_u8,
		[TARN_I8] = i64_to_i8,
		[TARN_I16] = i64_to_i16,
		[TARN_U16] = i64_to_u16,
		[TARN_I32] = i64_to_i32,
		[TARN_U32] = i64_to_u32,
		[TARN_U64] = i64_to_u64,
	},
	.widen = widen,
	.narrow = narrow,
	.narrow_odd = narrow_odd,
	.unpack = {
		[TARN_F4] = unpack_f4,
		[TARN_F6_E2M3] = unpack_f6,
		[TARN_F6_E3M2] = unpack_f6,
	},
	.pack = {
		[TARN_F4] = pack_f4,
		[TARN_F6_E2M3] = pack_f6,
		[TARN_F6_E3M2] = pack_f6,
	},
	.one_f32 = one_f32,
	.one_f64 = one_f64,
	.each_f32 = each_f32,
	.each_f64 = each_f64,
	.one_load = {
		[TARN_U8] = one_load_u8,
		[TARN_I8] = one_load_i8,
		[TARN_I16] = one_load_i16,
		[TARN_U16] = one_load_u16,
	},
	.direct = {
		[TARN_U8] = {
			[TARN_I16] = u8_i16,
			[TARN_I32] = u8_i32,
			[TARN_I64] = u8_i64,
		},
		[TARN_I8] = {
			[TARN_I16] = i8_i16,
			[TARN_I32] = i8_i32,
			[TARN_I64] = i8_i64,
		},
		[TARN_I16] = {[TARN_I32] = i16_i32, [TARN_I64] = i16_i64},
		[TARN_U16] = {[TARN_I32] = u16_i32, [TARN_I64] = u16_i64},
		[TARN_I32] = {[TARN_F32] = i32_f32, [TARN_I64] = i32_i64},
		[TARN_U32] = {[TARN_F32] = u32_f32, [TARN_I64] = u32_i64},
		[TARN_I64] = {[TARN_F32] = i64_f32},
		[TARN_F32] = {[TARN_I32] = f32_i32},
	},
};
/* clang-format on */
