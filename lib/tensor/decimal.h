/* SPDX-License-Identifier: MIT */
/*
 * Decimal text of floating-point numbers as numpy writes it: the fewest digits
 * that identify the value among all values of its dtype, in positional or
 * scientific notation. All of it expects the C locale (decimal_locale).
 */
#pragma once

#include <locale.h>
#include <stdbool.h>

/* Enough for any number here: at most 16 digits before the point or 17 in all,
 * a sign, zeros after the point and an exponent. */
#define DECIMAL_TEXT 64

/* The end of the text, after the last digit that is needed. numpy's names: ".",
 * "0", "-". */
enum decimal_trim {
	TRIM_TO_POINT, /* "1." */
	TRIM_TO_ZERO,  /* "1.0" */
	TRIM_ALL,      /* "1" */
};

/* As many digits after the point as needed, at most "most" (-1: no limit,
 * otherwise rounded from the exact value). whole: all digits before the point
 * are the value's own; otherwise those that are not needed are 0. |value| <
 * 1e16. */
void decimal_positional(int dtype, double value, bool whole, int most,
	enum decimal_trim trim, char buf[DECIMAL_TEXT]);

/* "1.5e+07". Between least and most digits after the point (-1: no limit), and
 * at least exponent digits in the exponent. */
void decimal_scientific(int dtype, double value, int least, int most,
	int exponent, enum decimal_trim trim, char buf[DECIMAL_TEXT]);

/* Makes "." the decimal point in this thread; -ENOMEM. */
struct decimal_locale {
	locale_t c, old;
};
int decimal_locale_enter(struct decimal_locale *locale);
void decimal_locale_leave(struct decimal_locale *locale);
