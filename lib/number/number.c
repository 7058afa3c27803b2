// SPDX-License-Identifier: MIT
/*
 * Numbers of all 22 dtypes. Everything goes through raw bits in a u64: one
 * function locates an element's bits, another interprets them, and neither
 * needs a case for each pair.
 */
#include "lib/number/number.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"

/* ---- where the bits lie -------------------------------------------- */

/* Fewer bits than a byte: the one or two bytes that hold them. */
static unsigned locate(int64_t bit, int bits, int64_t *ret_byte, size_t *ret_n)
{
	unsigned shift = (unsigned)(bit & 7);

	*ret_byte = (bit - (int64_t)shift) / 8;
	*ret_n = shift + (unsigned)bits > 8 ? 2 : 1;
	return shift;
}

uint64_t number_load(int dtype, const void *base, int64_t element)
{
	int bits = tarn_dtype_bits(dtype);
	uint64_t raw = 0;
	int64_t byte;
	unsigned shift;
	size_t n;

	if (bits % 8 == 0) {
		n = (size_t)bits / 8;
		memcpy(&raw, (const char *)base + element * (int64_t)n, n);
		return raw;
	}
	shift = locate(element * bits, bits, &byte, &n);
	memcpy(&raw, (const char *)base + byte, n);
	return raw >> shift & ((1u << bits) - 1);
}

void number_store(int dtype, void *base, int64_t element, uint64_t raw)
{
	int bits = tarn_dtype_bits(dtype);
	uint64_t old = 0, mask;
	int64_t byte;
	unsigned shift;
	size_t n;

	if (bits % 8 == 0) {
		n = (size_t)bits / 8;
		memcpy((char *)base + element * (int64_t)n, &raw, n);
		return;
	}
	shift = locate(element * bits, bits, &byte, &n);
	mask = ((1ull << bits) - 1) << shift;
	memcpy(&old, (char *)base + byte, n);
	old = (old & ~mask) | (raw << shift & mask);
	memcpy((char *)base + byte, &old, n);
}

/* ---- what the bits mean -------------------------------------------- */

bool number_is_signed(int dtype)
{
	return dtype == TARN_I8 || dtype == TARN_I16 || dtype == TARN_I32 ||
	       dtype == TARN_I64;
}

bool number_is_integer(int dtype)
{
	return number_is_signed(dtype) || dtype == TARN_U8 ||
	       dtype == TARN_U16 || dtype == TARN_U32 || dtype == TARN_U64;
}

static float as_f32(uint64_t raw)
{
	uint32_t low = (uint32_t)raw;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

static uint64_t from_f32(float f)
{
	uint32_t raw;

	memcpy(&raw, &f, sizeof(raw));
	return raw;
}

static int64_t sign_extend(int dtype, uint64_t raw)
{
	int unused = 64 - tarn_dtype_bits(dtype);

	return (int64_t)(raw << unused) >> unused;
}

double number_f64(int dtype, uint64_t raw)
{
	double d;

	if (minifloat_is(dtype))
		return minifloat_decode(dtype, raw);
	if (number_is_signed(dtype))
		return (double)sign_extend(dtype, raw);
	switch (dtype) {
	case TARN_F32:
	case TARN_C64:
		return (double)as_f32(raw);
	case TARN_F64:
		memcpy(&d, &raw, sizeof(d));
		return d;
	case TARN_BOOL:
		return raw != 0;
	default:
		return (double)raw;
	}
}

int number_i64(int dtype, uint64_t raw, int64_t *ret)
{
	double d;

	if (number_is_integer(dtype) && dtype != TARN_U64) {
		*ret = number_is_signed(dtype) ? sign_extend(dtype, raw)
					       : (int64_t)raw;
		return 0;
	}
	if (dtype == TARN_U64) {
		if (raw > INT64_MAX)
			return tarn_fail(ERANGE,
				"get: %llu does not fit a signed 64-bit "
				"integer",
				(unsigned long long)raw);
		*ret = (int64_t)raw;
		return 0;
	}
	d = number_f64(dtype, raw);
	/* 2^63 is exact as a double, the largest int64 is not. */
	if (!(d >= -0x1p63 && d < 0x1p63))
		return tarn_fail(ERANGE,
			"get: %g does not fit a signed 64-bit integer", d);
	*ret = (int64_t)d;
	return 0;
}

void number_c64(int dtype, uint64_t raw, float ret[2])
{
	ret[0] = (float)number_f64(dtype, raw);
	ret[1] = dtype == TARN_C64 ? as_f32(raw >> 32) : 0;
}

/* ---- the other way ------------------------------------------------- */

static uint64_t own_bits(int dtype, int64_t value)
{
	return (uint64_t)value & (~0ull >> (64 - tarn_dtype_bits(dtype)));
}

static void integer_range(int dtype, double *ret_low, double *ret_end)
{
	int bits = tarn_dtype_bits(dtype);

	if (number_is_signed(dtype)) {
		*ret_end = ldexp(1, bits - 1);
		*ret_low = -*ret_end;
	} else {
		*ret_end = ldexp(1, bits);
		*ret_low = 0;
	}
}

static int does_not_fit(int dtype, double value)
{
	const char *name = tarn_dtype_name(dtype);
	double low, end;

	if (dtype == TARN_F8_E8M0)
		return tarn_fail(ERANGE,
			"set: %.17g does not fit %s, which holds powers of 2"
			" from 2^-127 to 2^127",
			value, name);
	if (minifloat_is(dtype))
		return tarn_fail(ERANGE,
			"set: %.17g does not fit %s (%g to %g)", value, name,
			-minifloat_max(dtype), minifloat_max(dtype));
	integer_range(dtype, &low, &end);
	return tarn_fail(ERANGE, "set: %.17g does not fit %s (%.0f to %s%.0f)",
		value, name, low, end > 0x1p53 ? "below " : "",
		end > 0x1p53 ? end : end - 1);
}

static int integer_from_f64(int dtype, double value, uint64_t *ret_raw)
{
	double low, end, whole = trunc(value);

	integer_range(dtype, &low, &end);
	if (!(whole >= low && whole < end))
		return does_not_fit(dtype, value);
	*ret_raw =
		whole < 0 ? own_bits(dtype, (int64_t)whole) : (uint64_t)whole;
	return 0;
}

int number_from_f64(int dtype, double value, uint64_t *ret_raw)
{
	int r;

	if (number_is_integer(dtype))
		return integer_from_f64(dtype, value, ret_raw);
	switch (dtype) {
	case TARN_BOOL:
		*ret_raw = value != 0;
		return 0;
	case TARN_F32:
	case TARN_C64:
		*ret_raw = from_f32((float)value);
		return 0;
	case TARN_F64:
		memcpy(ret_raw, &value, sizeof(value));
		return 0;
	default:
		r = minifloat_encode(dtype, value, ret_raw);
		return r < 0 ? does_not_fit(dtype, value) : 0;
	}
}

/*
 * A double for a magnitude of 64 bits, to be rounded once more to at most 24
 * bits: if bits are cut off, the lowest bit is set (round to odd), so that the
 * second rounding sees on which side of a tie the number was.
 */
static double sticky(uint64_t n)
{
	if (n >> 53)
		n = (n & ~0x7ffull) | ((n & 0x7ff) ? 0x800 : 0);
	return (double)n;
}

static int from_magnitude(
	int dtype, uint64_t n, bool negative, uint64_t *ret_raw)
{
	double d = dtype == TARN_F64 ? (double)n : sticky(n);

	return number_from_f64(dtype, negative ? -d : d, ret_raw);
}

int number_from_i64(int dtype, int64_t value, uint64_t *ret_raw)
{
	int bits = tarn_dtype_bits(dtype);

	if (!number_is_integer(dtype)) {
		uint64_t n = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

		return from_magnitude(dtype, n, value < 0, ret_raw);
	}
	if (number_is_signed(dtype)
			? sign_extend(dtype, (uint64_t)value) != value
			: value < 0 || (bits < 64 && value >> bits))
		return tarn_fail(ERANGE, "set: %lld does not fit %s",
			(long long)value, tarn_dtype_name(dtype));
	*ret_raw = own_bits(dtype, value);
	return 0;
}

int number_from_u64(int dtype, uint64_t value, uint64_t *ret_raw)
{
	if (value <= INT64_MAX)
		return number_from_i64(dtype, (int64_t)value, ret_raw);
	if (!number_is_integer(dtype))
		return from_magnitude(dtype, value, false, ret_raw);
	if (dtype != TARN_U64)
		return tarn_fail(ERANGE, "set: %llu does not fit %s",
			(unsigned long long)value, tarn_dtype_name(dtype));
	*ret_raw = value;
	return 0;
}

int number_from_c64(int dtype, const float value[2], uint64_t *ret_raw)
{
	if (dtype == TARN_C64) {
		*ret_raw = from_f32(value[0]) | from_f32(value[1]) << 32;
		return 0;
	}
	if (value[1] != 0)
		return tarn_fail(EINVAL,
			"set: %g%+gj has an imaginary part, and %s has none",
			(double)value[0], (double)value[1],
			tarn_dtype_name(dtype));
	return number_from_f64(dtype, (double)value[0], ret_raw);
}

bool number_equal(int dtype, uint64_t a, uint64_t b)
{
	float x[2], y[2];

	if (number_is_integer(dtype))
		return a == b;
	if (dtype != TARN_C64)
		return number_f64(dtype, a) == number_f64(dtype, b);
	number_c64(dtype, a, x);
	number_c64(dtype, b, y);
	return x[0] == y[0] && x[1] == y[1];
}
