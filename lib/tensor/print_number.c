// SPDX-License-Identifier: MIT
/*
 * Numbers as numpy prints them. A first pass over an array's numbers determines
 * how wide its column is and whether it needs exponents; the second one prints
 * each into that width.
 *
 * Source of the rules: numpy, core/arrayprint.py (FloatingFormat and similar
 * classes, with the default options) and, for scalars, scalartypes.c.src.
 */
#include "lib/number/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "lib/tensor/print.h"

#define PRECISION 8 /* numpy's default: digits after the point */

static double part_of(int dtype, uint64_t raw, bool imaginary)
{
	if (imaginary)
		raw >>= 32;
	if (dtype == TARN_C64)
		dtype = TARN_F32;
	return number_f64(dtype, raw);
}

/* ---- floats ---------------------------------------------------------- */

/* The quotient in that dtype's precision: numpy compares that. (numpy has no
 * floats of 8 bits and less.) */
static double quotient(int dtype, double a, double b)
{
	uint64_t raw;

	if (tarn_dtype_bits(dtype) <= 8 ||
		number_from_f64(dtype, a / b, &raw) < 0)
		return a / b;
	return number_f64(dtype, raw);
}

static bool wants_exponents(int dtype, double smallest, double largest)
{
	if (largest == 0)
		return false;
	return largest >= 1e8 || smallest < 1e-4 ||
	       quotient(dtype, largest, smallest) > 1000;
}

static void widen(struct float_column *c, double value)
{
	char text[DECIMAL_TEXT];
	const char *point, *e;

	if (c->scientific)
		decimal_scientific(
			c->dtype, value, -1, PRECISION, 2, TRIM_TO_POINT, text);
	else
		decimal_positional(
			c->dtype, value, false, PRECISION, TRIM_TO_POINT, text);
	point = strchr(text, '.');
	e = strchr(point, 'e');
	c->before = MAX(
		c->before, (int)(point - text) + (c->plus && !signbit(value)));
	if (!c->scientific) {
		c->behind = MAX(c->behind, (int)strlen(point + 1));
		return;
	}
	c->digits = MAX(c->digits, (int)(e - point) - 1);
	c->exponent = MAX(c->exponent, (int)strlen(e) - 2);
}

static void plan_float(struct float_column *c, int dtype, const uint64_t *raw,
	size_t n, bool imaginary)
{
	double smallest = INFINITY, largest = 0;
	bool finite = true, minus_inf = false;

	memset(c, 0, sizeof(*c));
	c->dtype = dtype == TARN_C64 ? TARN_F32 : dtype;
	c->plus = imaginary;
	for (size_t i = 0; i < n; i++) {
		double d = part_of(dtype, raw[i], imaginary);

		if (!isfinite(d)) {
			finite = false;
			minus_inf |= isinf(d) && d < 0;
		} else if (d != 0) {
			smallest = fmin(smallest, fabs(d));
			largest = fmax(largest, fabs(d));
		}
	}
	c->scientific = wants_exponents(c->dtype, smallest, largest);
	for (size_t i = 0; i < n; i++) {
		double d = part_of(dtype, raw[i], imaginary);

		if (isfinite(d))
			widen(c, d);
	}
	if (c->scientific)
		c->behind = c->exponent + 2 + c->digits;
	if (!finite) {
		int inf = 3 + (c->plus || minus_inf);

		c->before = MAX(c->before, inf - (c->behind + 1));
	}
}

static const char *not_finite(double value, bool plus)
{
	if (isnan(value))
		return plus ? "+nan" : "nan";
	if (value < 0)
		return "-inf";
	return plus ? "+inf" : "inf";
}

static size_t print_float(
	const struct float_column *c, double value, char *buf, size_t size)
{
	char text[DECIMAL_TEXT];
	const char *sign = c->plus && !signbit(value) ? "+" : "";
	int before, behind;

	if (!isfinite(value))
		return (size_t)snprintf(buf, size, "%*s",
			c->before + 1 + c->behind, not_finite(value, c->plus));
	if (c->scientific) {
		decimal_scientific(c->dtype, value, c->digits, c->digits,
			c->exponent, TRIM_TO_POINT, text);
		behind = 0;
	} else {
		decimal_positional(
			c->dtype, value, true, PRECISION, TRIM_TO_POINT, text);
		behind = c->behind - (int)strlen(strchr(text, '.') + 1);
	}
	before =
		c->before - (int)(strchr(text, '.') - text) - (int)strlen(sign);
	return (size_t)snprintf(
		buf, size, "%*s%s%s%*s", before, "", sign, text, behind, "");
}

/* The j goes after the last digit, before the padding. */
static size_t print_complex(
	const struct number_column *column, uint64_t raw, char buf[NUMBER_TEXT])
{
	size_t n = print_float(&column->real, part_of(TARN_C64, raw, false),
		buf, NUMBER_TEXT / 2);
	size_t end = n + print_float(&column->imaginary,
				 part_of(TARN_C64, raw, true), buf + n,
				 NUMBER_TEXT / 2);
	size_t digit = end;

	while (buf[digit - 1] == ' ')
		digit--;
	memmove(buf + digit + 1, buf + digit, end - digit + 1);
	buf[digit] = 'j';
	return end + 1;
}

/* ---- columns --------------------------------------------------------- */

static int print_integer(int dtype, uint64_t raw, int width, char *buf)
{
	int64_t n;

	if (dtype == TARN_U64)
		return sprintf(buf, "%*llu", width, (unsigned long long)raw);
	number_i64(dtype, raw, &n);
	return sprintf(buf, "%*lld", width, (long long)n);
}

void number_column_plan(
	struct number_column *column, int dtype, const uint64_t *raw, size_t n)
{
	char buf[NUMBER_TEXT];

	memset(column, 0, sizeof(*column));
	column->dtype = dtype;
	if (dtype == TARN_BOOL)
		return;
	if (number_is_integer(dtype)) {
		for (size_t i = 0; i < n; i++)
			column->width = MAX(column->width,
				print_integer(dtype, raw[i], 0, buf));
		return;
	}
	plan_float(&column->real, dtype, raw, n, false);
	if (dtype == TARN_C64)
		plan_float(&column->imaginary, dtype, raw, n, true);
}

size_t number_column_print(
	const struct number_column *column, uint64_t raw, char buf[NUMBER_TEXT])
{
	if (column->dtype == TARN_BOOL)
		return (size_t)sprintf(buf, "%s", raw ? " True" : "False");
	if (number_is_integer(column->dtype))
		return (size_t)print_integer(
			column->dtype, raw, column->width, buf);
	if (column->dtype == TARN_C64)
		return print_complex(column, raw, buf);
	return print_float(&column->real, part_of(column->dtype, raw, false),
		buf, NUMBER_TEXT);
}

/* ---- scalars --------------------------------------------------------- */

static void scalar_float(enum tarn_dtype dtype, double value, bool plus,
	enum decimal_trim trim, char *buf)
{
	if (!isfinite(value)) {
		strcpy(buf, not_finite(value, plus));
		return;
	}
	if (plus && !signbit(value))
		*buf++ = '+';
	if (value == 0 || (fabs(value) >= 1e-4 && fabs(value) < 1e16))
		decimal_positional(dtype, value, false, -1, trim, buf);
	else
		decimal_scientific(dtype, value, -1, -1, 2, TRIM_ALL, buf);
}

static void scalar_complex(uint64_t raw, char *buf)
{
	double real = part_of(TARN_C64, raw, false);
	double imaginary = part_of(TARN_C64, raw, true);
	char text[2][DECIMAL_TEXT + 1];

	scalar_float(TARN_F32, real, false, TRIM_ALL, text[0]);
	if (real == 0 && !signbit(real)) {
		scalar_float(TARN_F32, imaginary, false, TRIM_ALL, text[1]);
		sprintf(buf, "%sj", text[1]);
		return;
	}
	scalar_float(TARN_F32, imaginary, true, TRIM_ALL, text[1]);
	sprintf(buf, "(%s%sj)", text[0], text[1]);
}

void number_print(int dtype, uint64_t raw, char buf[NUMBER_TEXT])
{
	if (dtype == TARN_BOOL)
		strcpy(buf, raw ? "True" : "False");
	else if (number_is_integer(dtype))
		print_integer(dtype, raw, 0, buf);
	else if (dtype == TARN_C64)
		scalar_complex(raw, buf);
	else
		scalar_float(dtype, number_f64(dtype, raw), false, TRIM_TO_ZERO,
			buf);
}
