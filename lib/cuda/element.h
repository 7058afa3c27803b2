/* SPDX-License-Identifier: MIT */
/*
 * One element converted, by the same steps that number/convert.c plans: from raw
 * bits to a pivot, scaled there, and from it to raw bits. C and CUDA's C++.
 * Where the dtypes are constants, compilers leave out all else.
 */
#pragma once

#include "lib/cuda/kernels.h"
#include "lib/number/convert_element.h"

/* In the pivot's type, F32 or F64. */
struct factor {
	f32 scale_f32, bias_f32;
	f64 scale_f64, bias_f64;
};

/* Devices return one NaN whatever they convert; CPUs keep its payload. */
ALWAYS f64 widened(f32 x)
{
	u64 bits = bits_of(x);
	u64 nan =
		bits >> 31 << 63 | 0x7ff8000000000000 | (bits & 0x7fffff) << 29;

	return x == x ? (f64)x : f64_of(nan);
}

ALWAYS u64 bits_of_f64(f64 x)
{
	u64 bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

ALWAYS f32 nan_f32(f64 x)
{
	u64 bits = bits_of_f64(x);

	return f32_of((u32)(bits >> 63 << 31) | F32_NAN |
		      ((u32)(bits >> 29) & 0x7fffff));
}

/* ---- to the pivots ------------------------------------------------------- */

ALWAYS f32 element_f32(u64 raw, int dtype)
{
	u32 x = (u32)raw;

	switch (dtype) {
	case TARN_BOOL:
		return x != 0;
	case TARN_U8:
	case TARN_U16:
		return (f32)x;
	case TARN_I8:
		return (f32)(i8)x;
	case TARN_I16:
		return (f32)(i16)x;
	case TARN_F4:
		return decode(x, f4);
	case TARN_F6_E2M3:
		return decode(x, e2m3);
	case TARN_F6_E3M2:
		return decode(x, e3m2);
	case TARN_F8_E5M2:
		return decode(x, e5m2);
	case TARN_F8_E4M3:
		return decode(x, e4m3);
	case TARN_F8_E4M3FNUZ:
		return decode(x, e4m3fnuz);
	case TARN_F8_E5M2FNUZ:
		return decode(x, e5m2fnuz);
	case TARN_F8_E8M0:
		return f32_of(from_e8m0(x));
	case TARN_F16:
		return decode(x, f16);
	case TARN_BF16:
		return f32_of(x << 16);
	default: /* F32, and the real part of C64 */
		return f32_of(x);
	}
}

/* odd: what does not fit is rounded to odd, since the store rounds again. */
ALWAYS f64 element_f64(u64 raw, int dtype, bool odd)
{
	switch (dtype) {
	case TARN_I32:
		return (i32)(u32)raw;
	case TARN_U32:
		return (u32)raw;
	case TARN_I64:
		return odd ? odd_f64_signed((i64)raw) : (f64)(i64)raw;
	case TARN_U64:
		return odd ? odd_f64(raw) : (f64)raw;
	case TARN_F64:
		return f64_of(raw);
	default:
		return widened(element_f32(raw, dtype));
	}
}

/* ---- from the pivots ----------------------------------------------------- */

ALWAYS i32 whole_f32(f32 x, f32 low, f32 high, bool even)
{
	x = clamp_f32(x, low, high);
	return (i32)(even ? even_f32(x) : x);
}

ALWAYS u64 element_of_f32(f32 x, int dtype, bool even)
{
	switch (dtype) {
	case TARN_BOOL:
		return x != 0;
	case TARN_U8:
		return (u8)whole_f32(x, 0, 255, even);
	case TARN_I8:
		return (u8)whole_f32(x, -128, 127, even);
	case TARN_U16:
		return (u16)whole_f32(x, 0, 65535, even);
	case TARN_I16:
		return (u16)whole_f32(x, -32768, 32767, even);
	case TARN_F8_E5M2:
		return encode(x, e5m2);
	case TARN_F8_E4M3:
		return encode(x, e4m3);
	case TARN_F8_E4M3FNUZ:
		return encode(x, e4m3fnuz);
	case TARN_F8_E5M2FNUZ:
		return encode(x, e5m2fnuz);
	case TARN_F8_E8M0:
		return to_e8m0(x);
	case TARN_F16:
		return encode(x, f16);
	case TARN_BF16:
		return to_bf16(x);
	default: /* F32, and C64 without an imaginary part */
		return bits_of(x);
	}
}

ALWAYS f64 whole_f64(f64 x, f64 low, f64 high, bool even)
{
	x = clamp_f64(x, low, high);
	return even ? even_f64(x) : x;
}

ALWAYS u64 element_of_f64(f64 x, int dtype, bool even)
{
	switch (dtype) {
	case TARN_I32:
		return (u32)(i32)whole_f64(x, -0x1p31, 0x1p31 - 1, even);
	case TARN_U32:
		return (u32)(i64)whole_f64(x, 0, 0x1p32 - 1, even);
	case TARN_I64:
		return (u64)to_i64(even ? even_f64(x) : x);
	case TARN_U64:
		return to_u64(even ? even_f64(x) : x);
	case TARN_F64:
		return bits_of_f64(x);
	case TARN_F32:
	case TARN_C64:
		return bits_of(x == x ? (f32)x : nan_f32(x));
	default:
		return element_of_f32(
			x == x ? odd_f32(x) : nan_f32(x), dtype, even);
	}
}

ALWAYS u64 element_of_i64(i64 x, int dtype)
{
	switch (dtype) {
	case TARN_BOOL:
		return x != 0;
	case TARN_U8:
		return (u64)clamp_i64(x, 0, UINT8_MAX);
	case TARN_I8:
		return (u8)clamp_i64(x, INT8_MIN, INT8_MAX);
	case TARN_U16:
		return (u64)clamp_i64(x, 0, UINT16_MAX);
	case TARN_I16:
		return (u16)clamp_i64(x, INT16_MIN, INT16_MAX);
	case TARN_U32:
		return (u64)clamp_i64(x, 0, UINT32_MAX);
	case TARN_I32:
		return (u32)clamp_i64(x, INT32_MIN, INT32_MAX);
	case TARN_U64:
		return (u64)clamp_i64(x, 0, INT64_MAX);
	default:
		return (u64)x;
	}
}

/* ---- both ---------------------------------------------------------------- */

ALWAYS u64 element_convert(u64 raw, int dst, int src, int pivot, bool even,
	bool scaled, struct factor factor)
{
	if (pivot == PIVOT_F32) {
		f32 x = element_f32(raw, src);

		if (scaled)
			x = x * factor.scale_f32 + factor.bias_f32;
		return element_of_f32(x, dst, even);
	}
	if (pivot == PIVOT_F64) {
		f64 x = element_f64(raw, src, !scaled && dst != TARN_F64);

		if (scaled)
			x = x * factor.scale_f64 + factor.bias_f64;
		return element_of_f64(x, dst, even);
	}
	return element_of_i64(
		src == TARN_U64 && raw > INT64_MAX ? INT64_MAX : (i64)raw, dst);
}
