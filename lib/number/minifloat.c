// SPDX-License-Identifier: MIT
/*
 * The ten floating types of 16 bits and less. All are a sign, an exponent and
 * a mantissa, and differ in a row of a table: how many bits of each, the
 * bias, and which patterns are not numbers. One decoder and one encoder read
 * that row.
 *
 * Sources: IEEE 754 (F16); OCP 8-bit Floating Point Specification 1.0 (E5M2,
 * E4M3); OCP Microscaling Formats 1.0 (E8M0, E3M2, E2M3, E2M1); Noune et al.,
 * 8-bit Numerical Formats for Deep Neural Networks (the two FNUZ).
 */
#include "lib/number/number.h"

#include <errno.h>
#include <math.h>

enum special {
	IEEE,    /* top exponent: infinities and NaNs */
	ONE_NAN, /* all ones is NaN; no infinity */
	FNUZ,    /* minus zero is NaN; no infinity */
	ALL_FINITE,
	SCALE, /* E8M0: a bare exponent, no sign, no zero; 0xff is NaN */
};

struct minifloat {
	uint8_t exponent, mantissa; /* bits */
	int16_t bias;
	enum special special;
};

static const struct minifloat formats[TARN_DTYPE_MAX + 1] = {
	[TARN_F4] = {2, 1, 1, ALL_FINITE},
	[TARN_F6_E2M3] = {2, 3, 1, ALL_FINITE},
	[TARN_F6_E3M2] = {3, 2, 3, ALL_FINITE},
	[TARN_F8_E5M2] = {5, 2, 15, IEEE},
	[TARN_F8_E4M3] = {4, 3, 7, ONE_NAN},
	[TARN_F8_E8M0] = {8, 0, 127, SCALE},
	[TARN_F8_E4M3FNUZ] = {4, 3, 8, FNUZ},
	[TARN_F8_E5M2FNUZ] = {5, 2, 16, FNUZ},
	[TARN_F16] = {5, 10, 15, IEEE},
	[TARN_BF16] = {8, 7, 127, IEEE},
};

bool minifloat_is(int dtype)
{
	return dtype > 0 && dtype <= TARN_DTYPE_MAX && formats[dtype].exponent;
}

/* The largest finite pattern, without the sign. */
static uint64_t max_code(const struct minifloat *f)
{
	uint64_t all = (1ull << (f->exponent + f->mantissa)) - 1;

	switch (f->special) {
	case IEEE:
		return all - (1ull << f->mantissa);
	case ONE_NAN:
	case SCALE:
		return all - 1;
	default:
		return all;
	}
}

static uint64_t sign_bit(const struct minifloat *f)
{
	return 1ull << (f->exponent + f->mantissa);
}

/* The number that a pattern stands for which is not a finite number. */
static double special_value(const struct minifloat *f, uint64_t code)
{
	bool infinite = f->special == IEEE && code == max_code(f) + 1;

	return infinite ? INFINITY : NAN;
}

static double finite_value(const struct minifloat *f, uint64_t code)
{
	int exponent = (int)(code >> f->mantissa);
	uint64_t one = 1ull << f->mantissa, mantissa = code & (one - 1);

	if (f->special == SCALE)
		return ldexp(1, exponent - f->bias);
	if (exponent == 0)
		return ldexp((double)mantissa, 1 - f->bias - f->mantissa);
	return ldexp(
		(double)(one | mantissa), exponent - f->bias - f->mantissa);
}

double minifloat_decode(int dtype, uint64_t raw)
{
	const struct minifloat *f = &formats[dtype];
	bool negative = f->special != SCALE && (raw & sign_bit(f));
	uint64_t code = f->special == SCALE ? raw : raw & (sign_bit(f) - 1);
	double value;

	if (f->special == FNUZ && negative && code == 0)
		return NAN;
	value = code > max_code(f) ? special_value(f, code)
				   : finite_value(f, code);
	return negative ? -value : value;
}

double minifloat_max(int dtype)
{
	return finite_value(&formats[dtype], max_code(&formats[dtype]));
}

/* To an integer, ties to even, in any rounding mode of this thread. */
static double round_even(double n)
{
	double down = floor(n), rest = n - down;

	if (rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0))
		return down + 1;
	return down;
}

/* The scale 2^e nearest to value > 0; the lowest one for all smaller values. */
static uint64_t scale_code(const struct minifloat *f, double value)
{
	int exponent;
	double m = frexp(value, &exponent); /* value = m * 2^exponent */
	int code = exponent - 1 + f->bias;  /* m in [0.5, 1) */

	if (code < 0)
		return 0;
	if (m > 0.75 || (m == 0.75 && code % 2 != 0))
		code++;
	return (uint64_t)code;
}

/* Counts in units of the last place: then a carry out of the mantissa runs
 * into the exponent by itself, and subnormals are no special case. */
static uint64_t code_of(const struct minifloat *f, double value)
{
	int exponent, lowest = 1 - f->bias;
	double units;

	if (value == 0)
		return 0;
	frexp(value, &exponent);
	exponent = exponent - 1 > lowest ? exponent - 1 : lowest;
	if (exponent > f->bias + 1)
		return max_code(f) + 1;
	units = round_even(ldexp(value, f->mantissa - exponent));
	return ((uint64_t)(exponent - lowest) << f->mantissa) + (uint64_t)units;
}

static int encode_nan(
	const struct minifloat *f, bool negative, uint64_t *ret_raw)
{
	uint64_t sign = negative ? sign_bit(f) : 0;

	switch (f->special) {
	case IEEE: /* quiet: the mantissa's highest bit */
		*ret_raw =
			sign | ((max_code(f) + 1) | 1ull << (f->mantissa - 1));
		return 0;
	case ONE_NAN:
		*ret_raw = sign | (max_code(f) + 1);
		return 0;
	case SCALE:
		*ret_raw = max_code(f) + 1;
		return 0;
	case FNUZ:
		*ret_raw = sign_bit(f);
		return 0;
	default:
		return -ERANGE;
	}
}

int minifloat_encode(int dtype, double value, uint64_t *ret_raw)
{
	const struct minifloat *f = &formats[dtype];
	bool negative = signbit(value);
	uint64_t code;

	if (isnan(value))
		return encode_nan(f, negative, ret_raw);
	if (f->special == SCALE && value <= 0)
		return -ERANGE;
	if (isinf(value))
		code = max_code(f) + 1;
	else if (f->special == SCALE)
		code = scale_code(f, value);
	else
		code = code_of(f, fabs(value));

	if (code > max_code(f)) {
		if (f->special != IEEE)
			return -ERANGE;
		code = max_code(f) + 1;
	}
	if (f->special == FNUZ && code == 0)
		negative = false; /* there is no minus zero */
	*ret_raw = code | (negative ? sign_bit(f) : 0);
	return 0;
}
