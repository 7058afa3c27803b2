// SPDX-License-Identifier: MIT
/*
 * The shortest decimal of a number: printf with more and more digits, until the
 * text reads back as the same value of that dtype. printf is exact, so this is
 * another way to do Steele and White's (and numpy's Dragon4's) unique mode: the
 * same digits, in a hundredth of the code.
 */
#include "lib/tensor/decimal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/number/number.h"

#define DIGITS_MAX 17 /* enough to distinguish any two doubles */

/* digits[0] . digits[1] digits[2] ... times ten to the exponent */
struct decimal {
	int n;
	int exponent;
	char digits[DIGITS_MAX + 2];
};

int decimal_locale_enter(struct decimal_locale *locale)
{
	locale->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!locale->c)
		return tarn_fail(ENOMEM, "locale: out of memory");
	locale->old = uselocale(locale->c);
	return 0;
}

void decimal_locale_leave(struct decimal_locale *locale)
{
	uselocale(locale->old);
	freelocale(locale->c);
}

/* Two digits would distinguish 8-bit floats, but show 448 as 450; they are
 * shown as the F32 that they are exactly. */
static int shown_as(int dtype)
{
	return tarn_dtype_bits(dtype) <= 8 ? TARN_F32 : dtype;
}

/* This many digits survive decimal -> dtype -> decimal. A shorter decimal of
 * the value is then printf's result for that many, and zeros. */
static int safe_digits(int dtype, double value)
{
	switch (dtype) {
	case TARN_F64:
		return value < DBL_MIN ? 1 : DBL_DIG;
	case TARN_F32:
		return value < (double)FLT_MIN ? 1 : FLT_DIG;
	default:
		return 1;
	}
}

static bool reads_back(int dtype, const struct decimal *d, double value)
{
	char text[DECIMAL_TEXT];
	uint64_t raw;

	snprintf(text, sizeof(text), "%c.%se%d", d->digits[0], d->digits + 1,
		d->exponent);
	if (dtype == TARN_F64)
		return strtod(text, NULL) == value;
	if (dtype == TARN_F32)
		return (double)strtof(text, NULL) == value;
	return number_from_f64(dtype, strtod(text, NULL), &raw) == 0 &&
	       number_f64(dtype, raw) == value;
}

static void print_digits(struct decimal *d, double value, int n)
{
	char text[DECIMAL_TEXT];

	snprintf(text, sizeof(text), "%.*e", n - 1, value);
	d->n = n;
	d->digits[0] = text[0];
	memcpy(d->digits + 1, text + 2, (size_t)n - 1);
	d->digits[n] = '\0';
	d->exponent = atoi(strchr(text, 'e') + 1);
}

/* Adds one in the last place. */
static void next_up(struct decimal *d)
{
	int i = d->n - 1;

	for (; i >= 0 && d->digits[i] == '9'; i--)
		d->digits[i] = '0';
	if (i >= 0) {
		d->digits[i]++;
		return;
	}
	d->digits[0] = '1';
	d->exponent++;
}

/* value >= 0 */
static void shortest(int dtype, double value, struct decimal *d)
{
	/* At a power of two the neighbour above is twice as far away as the one
	 * below, so the nearest decimal may not read back as the value while
	 * the next one does. */
	int unused;
	bool lopsided = frexp(value, &unused) == 0.5;

	dtype = shown_as(dtype);
	for (int n = safe_digits(dtype, value); n <= DIGITS_MAX; n++) {
		print_digits(d, value, n);
		if (reads_back(dtype, d, value))
			break;
		if (!lopsided)
			continue;
		next_up(d);
		if (reads_back(dtype, d, value))
			break;
	}
	if (d->n > DIGITS_MAX)
		d->n = DIGITS_MAX;
	while (d->n > 1 && d->digits[d->n - 1] == '0')
		d->n--;
	d->digits[d->n] = '\0';
}

/* text has a point; removes zeros at its end. */
static void trim_end(char *text, enum decimal_trim trim)
{
	size_t n = strlen(text);

	while (text[n - 1] == '0')
		n--;
	if (trim == TRIM_ALL && text[n - 1] == '.')
		n--;
	text[n] = '\0';
	if (trim == TRIM_TO_ZERO && text[n - 1] == '.')
		memcpy(text + n, "0", 2);
}

void decimal_positional(int dtype, double value, bool whole, int most,
	enum decimal_trim trim, char buf[DECIMAL_TEXT])
{
	struct decimal d;
	char *p = buf;
	int before;

	if (signbit(value))
		*p++ = '-';
	value = fabs(value);
	shortest(dtype, value, &d);
	/* Digits beyond those that identify it come from its exact value. */
	if (most >= 0 && d.n - 1 - d.exponent > most) {
		snprintf(p, DECIMAL_TEXT - 1, "%.*f", most, value);
		trim_end(p, trim);
		return;
	}
	if (whole && d.n - 1 < d.exponent)
		print_digits(&d, value, d.exponent + 1);
	/* Digits before the point, with zeros up to it; then the others. */
	before = d.exponent >= 0 ? d.exponent + 1 : 0;
	for (int i = 0; i < before; i++)
		*p++ = i < d.n ? d.digits[i] : '0';
	if (before == 0)
		*p++ = '0';
	*p++ = '.';
	for (int i = d.exponent + 1; i < 0; i++)
		*p++ = '0';
	for (int i = before; i < d.n; i++)
		*p++ = d.digits[i];
	*p++ = '0'; /* a character where trim_end stops */
	*p = '\0';
	trim_end(buf, trim);
}

void decimal_scientific(int dtype, double value, int least, int most,
	int exponent, enum decimal_trim trim, char buf[DECIMAL_TEXT])
{
	struct decimal d;
	char *p = buf;
	int kept;

	if (signbit(value))
		*p++ = '-';
	value = fabs(value);
	shortest(dtype, value, &d);
	kept = d.n - 1;
	if (most >= 0 && kept > most)
		print_digits(&d, value, most + 1);
	else if (kept < least)
		print_digits(&d, value, least + 1);
	p += sprintf(p, "%c.%s", d.digits[0], d.digits + 1);
	if (least < 0)
		trim_end(buf, trim);
	p = buf + strlen(buf);
	sprintf(p, "e%c%0*d", d.exponent < 0 ? '-' : '+', exponent,
		abs(d.exponent));
}
