// SPDX-License-Identifier: MIT
/*
 * Numbers of all dtypes: every pattern of the types of up to 16 bits is
 * converted to double and back, known values have the patterns of their
 * specifications, halves round to even, and a number that does not fit is an
 * error.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <tarn/tensor.h>

#include "base/checked.h"
#include "lib/number/number.h"
#include "tests/kit/tap.h"

static void every_pattern(int dtype)
{
	uint64_t patterns = 1ull << tarn_dtype_bits(dtype);
	int64_t wrong = -1, nans = 0;

	for (uint64_t raw = 0; raw < patterns && wrong < 0; raw++) {
		double d = number_f64(dtype, raw);
		uint64_t back = ~0ull;

		if (number_from_f64(dtype, d, &back) < 0)
			wrong = (int64_t)raw;
		else if (isnan(d) ? !isnan(number_f64(dtype, back))
				  : back != raw)
			wrong = (int64_t)raw;
		nans += isnan(d);
	}
	is_int(-1, wrong,
		"%s: each pattern survives a conversion to double and back",
		tarn_dtype_name(dtype));
	if (tarn_dtype_bits(dtype) == 8)
		diag("%s has %lld NaNs", tarn_dtype_name(dtype),
			(long long)nans);
}

/* Halfway between neighbours the even pattern is taken, and a hair above or
 * below it the nearer one; walks all neighbouring positive patterns. */
static void ties(int dtype, uint64_t top)
{
	int64_t wrong = -1;

	for (uint64_t raw = 0; raw < top && wrong < 0; raw++) {
		double a = number_f64(dtype, raw);
		double b = number_f64(dtype, raw + 1), half = (a + b) / 2;
		uint64_t tie = 0, under = 0, over = 0;

		number_from_f64(dtype, half, &tie);
		number_from_f64(dtype, nextafter(half, 0), &under);
		number_from_f64(dtype, nextafter(half, INFINITY), &over);
		if (tie != (raw % 2 ? raw + 1 : raw) || under != raw ||
			over != raw + 1)
			wrong = (int64_t)raw;
	}
	is_int(-1, wrong, "%s: doubles round to the nearest, ties to even",
		tarn_dtype_name(dtype));
}

struct known {
	int dtype;
	uint64_t raw;
	double value;
};

static const struct known known[] = {
	{TARN_F4, 0x0, 0},
	{TARN_F4, 0x1, 0.5},
	{TARN_F4, 0x2, 1},
	{TARN_F4, 0x3, 1.5},
	{TARN_F4, 0x4, 2},
	{TARN_F4, 0x5, 3},
	{TARN_F4, 0x6, 4},
	{TARN_F4, 0x7, 6},
	{TARN_F4, 0xf, -6},
	{TARN_F6_E2M3, 0x01, 0.125},
	{TARN_F6_E2M3, 0x1f, 7.5},
	{TARN_F6_E3M2, 0x01, 0.0625},
	{TARN_F6_E3M2, 0x1f, 28},
	{TARN_F6_E3M2, 0x3f, -28},
	{TARN_F8_E5M2, 0x01, 0x1p-16},
	{TARN_F8_E5M2, 0x7b, 57344},
	{TARN_F8_E5M2, 0x7c, INFINITY},
	{TARN_F8_E5M2, 0xfc, -INFINITY},
	{TARN_F8_E5M2, 0x7d, NAN},
	{TARN_F8_E4M3, 0x01, 0x1p-9},
	{TARN_F8_E4M3, 0x38, 1},
	{TARN_F8_E4M3, 0x7e, 448},
	{TARN_F8_E4M3, 0x7f, NAN},
	{TARN_F8_E4M3, 0xff, NAN},
	{TARN_F8_E8M0, 0x00, 0x1p-127},
	{TARN_F8_E8M0, 0x7f, 1},
	{TARN_F8_E8M0, 0xfe, 0x1p127},
	{TARN_F8_E8M0, 0xff, NAN},
	{TARN_F8_E4M3FNUZ, 0x01, 0x1p-10},
	{TARN_F8_E4M3FNUZ, 0x7f, 240},
	{TARN_F8_E4M3FNUZ, 0x80, NAN},
	{TARN_F8_E5M2FNUZ, 0x01, 0x1p-17},
	{TARN_F8_E5M2FNUZ, 0x7f, 57344},
	{TARN_F8_E5M2FNUZ, 0x80, NAN},
	{TARN_F16, 0x0001, 0x1p-24},
	{TARN_F16, 0x3c00, 1},
	{TARN_F16, 0x7bff, 65504},
	{TARN_F16, 0xfc00, -INFINITY},
	{TARN_F16, 0x7e00, NAN},
	{TARN_BF16, 0x0001, 0x1p-133},
	{TARN_BF16, 0x3f80, 1},
	{TARN_BF16, 0x4049, 3.140625},
	{TARN_BF16, 0x7f7f, 0x1.fep127},
	{TARN_F32, 0x40490fdb, 0x1.921fb6p1},
	{TARN_F64, 0x3ff0000000000000, 1},
	{TARN_C64, 0x400000003f800000, 1},
	{TARN_BOOL, 1, 1},
	{TARN_I8, 0x80, -128},
	{TARN_I16, 0xffff, -1},
	{TARN_U16, 0xffff, 65535},
	{TARN_I32, 0x80000000, -2147483648.0},
	{TARN_U64, 1ull << 63, 0x1p63},
	{TARN_I64, 1ull << 63, -0x1p63},
};

static void known_values(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		const struct known *k = &known[i];
		double d = number_f64(k->dtype, k->raw);

		ok(isnan(k->value) ? isnan(d) : d == k->value,
			"%s 0x%llx is the double %g (seen %g)",
			tarn_dtype_name(k->dtype), (unsigned long long)k->raw,
			k->value, d);
	}
}

static void refused(int dtype, double value, const char *part)
{
	uint64_t raw = 0x5a;
	int r = number_from_f64(dtype, value, &raw);

	is_int(-ERANGE, r, "%g is refused as %s", value,
		tarn_dtype_name(dtype));
	has_str(part, tarn_error_message(),
		"the error names the range that fits");
	is_hex(0x5a, raw, "a number that does not fit writes nothing");
}

static void becomes(int dtype, double value, uint64_t wanted)
{
	uint64_t raw = 0;

	is_int(0, number_from_f64(dtype, value, &raw), "%g is accepted as %s",
		value, tarn_dtype_name(dtype));
	is_hex(wanted, raw, "%g has its pattern as %s", value,
		tarn_dtype_name(dtype));
}

static void edges(void)
{
	becomes(TARN_F16, 65519.9, 0x7bff);
	becomes(TARN_F16, 65520, 0x7c00);
	becomes(TARN_F16, -1e300, 0xfc00);
	becomes(TARN_BF16, 0x1.fep127, 0x7f7f);
	becomes(TARN_BF16, 1e39, 0x7f80);
	becomes(TARN_F8_E5M2, 1e9, 0x7c);
	becomes(TARN_F8_E4M3, 464, 0x7e); /* a tie; 448 is even */
	becomes(TARN_F8_E4M3FNUZ, -0.0, 0);
	becomes(TARN_F8_E4M3FNUZ, -1e-9, 0);
	becomes(TARN_F8_E4M3, -0.0, 0x80);
	becomes(TARN_F8_E8M0, 1.5, 0x80);
	becomes(TARN_F8_E8M0, 3, 0x80);
	becomes(TARN_F8_E8M0, 1e-300, 0x00);
	becomes(TARN_F4, 2.5, 0x4);
	becomes(TARN_F4, 5, 0x6);
	becomes(TARN_U8, 255.9, 255);
	becomes(TARN_U8, -0.9, 0);
	becomes(TARN_I64, -0x1p63, 1ull << 63);
	becomes(TARN_BOOL, 0.25, 1);
	refused(TARN_F8_E4M3, 465, "-448 to 448");
	refused(TARN_F8_E4M3FNUZ, INFINITY, "-240 to 240");
	refused(TARN_F4, 7, "-6 to 6");
	refused(TARN_F6_E3M2, NAN, "F6_E3M2");
	refused(TARN_F8_E8M0, 0, "powers of 2");
	refused(TARN_F8_E8M0, -1, "powers of 2");
	refused(TARN_F8_E8M0, 0x1.9p127, "powers of 2");
	refused(TARN_U8, 256, "0 to 255");
	refused(TARN_I8, -129, "-128 to 127");
	refused(TARN_I64, 0x1p63, "I64");
	refused(TARN_U64, NAN, "U64");
}

static void integers(void)
{
	int64_t big = 0, n;
	uint64_t raw;
	float f;

	ok(number_from_i64(TARN_I64, INT64_MAX, &raw) == 0 &&
			number_i64(TARN_I64, raw, &big) == 0,
		"I64 takes the largest integer");
	is_int(INT64_MAX, big, "the largest I64 is read back whole");
	is_int(-ERANGE, number_i64(TARN_U64, UINT64_MAX, &big),
		"U64 past the signed range is refused");
	has_str("18446744073709551615", tarn_error_message(),
		"the error has the value of a U64 out of range");
	is_int(-ERANGE, number_from_i64(TARN_U64, -1, &raw),
		"-1 is refused as U64");
	is_int(-ERANGE, number_from_i64(TARN_U8, 256, &raw),
		"256 is refused as U8");
	is_int(-ERANGE, number_from_i64(TARN_I16, 32768, &raw),
		"32768 is refused as I16");
	is_int(0, number_from_i64(TARN_I16, -32768, &raw),
		"-32768 is accepted as I16");
	is_int(-ERANGE, number_i64(TARN_F64, 0x7ff8000000000000, &n),
		"NaN is refused as an integer");
	is_int(-ERANGE, number_i64(TARN_F32, 0x5f000000, &n),
		"2^63 as F32 is refused as I64");
	is_int(0, number_i64(TARN_F32, 0xc0200000, &n),
		"-2.5 is accepted as an integer");
	is_int(-2, n, "-2.5 as an integer is cut towards 0");

	/* A tie in 24 bits but for its lowest bit, which a double drops. */
	number_from_i64(
		TARN_F32, ((int64_t)1 << 62) + ((int64_t)1 << 38) + 1, &raw);
	is_hex(0x5e800001, raw, "I64 to F32 rounds once");
	f = (float)(((int64_t)1 << 62) + ((int64_t)1 << 38) + 1);
	is_mem(&f, &raw, 4, "I64 to F32 rounds as the compiler does");
	number_from_i64(
		TARN_BF16, ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1, &raw);
	is_hex(0x5e81, raw, "I64 to BF16 rounds once");
	number_from_u64(TARN_F32, UINT64_MAX, &raw);
	is_hex(0x5f800000, raw, "the largest U64 rounds up to 2^64");
}

static void packed(int dtype, int count)
{
	unsigned char bytes[16];
	int64_t wrong = -1;
	uint64_t mask = (1ull << tarn_dtype_bits(dtype)) - 1;

	memset(bytes, 0xa5, sizeof(bytes));
	for (int i = count - 1; i >= 0; i--)
		number_store(dtype, bytes, i, (uint64_t)(7 * i + 3) & mask);
	for (int i = 0; i < count; i++)
		if (number_load(dtype, bytes, i) !=
			((uint64_t)(7 * i + 3) & mask))
			wrong = i;
	is_int(-1, wrong, "%s: elements are read and written in place",
		tarn_dtype_name(dtype));
	is_hex(0xa5, bytes[count * tarn_dtype_bits(dtype) / 8],
		"the byte after the last element is untouched");
}

static void places(void)
{
	unsigned char f4[1] = {0x21}, f6[3] = {0x41, 0x30, 0x10};

	is_hex(1, number_load(TARN_F4, f4, 0),
		"the first element of F4 is the low half of its byte");
	is_hex(2, number_load(TARN_F4, f4, 1),
		"the second element of F4 is the high half of its byte");
	for (int i = 0; i < 4; i++)
		is_hex((uint64_t[]) {1, 1, 3, 4}[i],
			number_load(TARN_F6_E2M3, f6, i),
			"F6: element %d of three bytes", i);
	packed(TARN_F4, 16);
	packed(TARN_F6_E3M2, 16);
	packed(TARN_F6_E2M3, 20);
}

int main(void)
{
	for (int dtype = 1; dtype <= TARN_DTYPE_MAX; dtype++)
		if (tarn_dtype_bits(dtype) <= 16 && dtype != TARN_BOOL)
			every_pattern(dtype);
	ties(TARN_F4, 0x7);
	ties(TARN_F6_E2M3, 0x1f);
	ties(TARN_F6_E3M2, 0x1f);
	ties(TARN_F8_E5M2, 0x7b);
	ties(TARN_F8_E4M3, 0x7e);
	ties(TARN_F8_E4M3FNUZ, 0x7f);
	ties(TARN_F8_E5M2FNUZ, 0x7f);
	ties(TARN_F16, 0x7bff);
	ties(TARN_BF16, 0x7f7f);
	known_values();
	edges();
	integers();
	places();
	return done(175);
}
