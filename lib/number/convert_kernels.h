/* SPDX-License-Identifier: MIT */
/*
 * The steps of conversions as plain loops over convert_element.h, to be included
 * by a file that chooses the CPU. The includer sets
 *
 *	CONVERT_SET		the name of the set that is defined
 *	CONVERT_LINKAGE		static, or nothing
 *	CONVERT_OWN		if it defines some steps itself (#ifndef)
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/number/convert_element.h"
#include "lib/number/convert_steps.h"

/* ---- elements at any alignment ------------------------------------- */

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
