/* SPDX-License-Identifier: MIT */
#include "tests/kit/convert_oracle.h"

#include <math.h>

#include <tarn/error.h>

#include "lib/number/number.h"
#include "tests/kit/tap.h"

uint64_t oracle_raw(int dtype, double value)
{
	uint64_t raw = 0;

	if (number_from_f64(dtype, value, &raw) < 0)
		bail("the oracle failed: %s", tarn_error_message());
	return raw;
}

static double largest(int dtype)
{
	int bits = tarn_dtype_bits(dtype);

	if (minifloat_is(dtype))
		return minifloat_max(dtype);
	/* Of 64 bits: the largest F64 that is less. */
	return number_is_signed(dtype)
		       ? fmin(ldexp(1, bits - 1) - 1,
				 nextafter(ldexp(1, bits - 1), 0))
		       : fmin(ldexp(1, bits) - 1, nextafter(ldexp(1, bits), 0));
}

static bool has_infinity(int dtype)
{
	return dtype == TARN_F8_E5M2 || dtype == TARN_F16 || dtype == TARN_BF16;
}

uint64_t oracle_ones(int bits)
{
	return ~0ull >> (64 - bits);
}

static uint64_t integer_oracle(int dtype, double value)
{
	int bits = tarn_dtype_bits(dtype);

	if (isnan(value))
		return 0;
	if (number_is_signed(dtype)) {
		if (value >= ldexp(1, bits - 1))
			return oracle_ones(bits - 1);
		if (value <= -ldexp(1, bits - 1))
			return 1ull << (bits - 1);
	} else {
		if (value >= ldexp(1, bits))
			return oracle_ones(bits);
		if (value <= 0)
			return 0;
	}
	return oracle_raw(dtype, value);
}

uint64_t oracle_from_double(int dtype, double value, bool even)
{
	double max;

	if (number_is_integer(dtype))
		return integer_oracle(dtype, even ? rint(value) : value);
	if (!minifloat_is(dtype))
		return oracle_raw(dtype, value);
	max = largest(dtype);
	if (isnan(value))
		return dtype <= TARN_F6_E3M2 ? 0 : oracle_raw(dtype, value);
	if (dtype == TARN_F8_E8M0 && value < 0x1p-127)
		return 0;
	if (!has_infinity(dtype) && fabs(value) > max)
		value = copysign(max, value);
	return oracle_raw(dtype, value);
}

static uint64_t clamp_u64(int dtype, uint64_t value)
{
	uint64_t max =
		oracle_ones(tarn_dtype_bits(dtype) - number_is_signed(dtype));

	return value < max ? value : max;
}

static uint64_t clamp_i64(int dtype, int64_t value)
{
	int bits = tarn_dtype_bits(dtype);
	int64_t low = number_is_signed(dtype)
			      ? -(int64_t)oracle_ones(bits - 1) - 1
			      : 0;

	if (value < 0)
		return (uint64_t)(value < low ? low : value) &
		       oracle_ones(bits);
	return clamp_u64(dtype, (uint64_t)value);
}

uint64_t oracle_convert(int dst, int src, uint64_t raw, bool even)
{
	uint64_t ret = 0;

	if (dst == TARN_BOOL)
		return src == TARN_C64          ? number_f64(src, raw) != 0
		       : number_is_integer(src) ? raw != 0
						: number_f64(src, raw) != 0;
	if (src != TARN_I64 && src != TARN_U64)
		return oracle_from_double(dst, number_f64(src, raw), even);
	if (number_is_integer(dst))
		return src == TARN_I64 ? clamp_i64(dst, (int64_t)raw)
				       : clamp_u64(dst, raw);
	/* Out of range: the double does; else rounded once from 64 bits. */
	if (!has_infinity(dst) && minifloat_is(dst) &&
		(fabs(number_f64(src, raw)) > largest(dst) ||
			(dst == TARN_F8_E8M0 && number_f64(src, raw) <= 0)))
		return oracle_from_double(dst, number_f64(src, raw), even);
	if (src == TARN_I64)
		number_from_i64(dst, (int64_t)raw, &ret);
	else
		number_from_u64(dst, raw, &ret);
	return ret;
}

bool oracle_same(int dtype, uint64_t wanted, uint64_t seen)
{
	if (number_is_integer(dtype) || !isnan(number_f64(dtype, wanted)))
		return wanted == seen;
	return isnan(number_f64(dtype, seen)) &&
	       (dtype != TARN_C64 || wanted >> 32 == seen >> 32);
}
