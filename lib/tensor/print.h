/* SPDX-License-Identifier: MIT */
/* How the numbers of one array are printed: all in one width. */
#pragma once

#include <stddef.h>

#include "lib/tensor/decimal.h"

/* Two columns of floats, with 17 digits, exponents and padding. */
#define NUMBER_TEXT 192

struct float_column {
	int dtype;
	bool plus; /* a sign always: imaginary parts */
	bool scientific;
	int before, behind; /* characters before and after the point */
	int digits;         /* after the point, scientific */
	int exponent;       /* digits of the exponent */
};

struct number_column {
	int dtype;
	int width; /* integers */
	struct float_column real, imaginary;
};

/* Plans the column that all of raw[n] fit into. In the C locale. */
void number_column_plan(
	struct number_column *column, int dtype, const uint64_t *raw, size_t n);

/* One number in its column; returns the length. */
size_t number_column_print(const struct number_column *column, uint64_t raw,
	char buf[NUMBER_TEXT]);

/* A single number, as numpy prints scalars. */
void number_print(int dtype, uint64_t raw, char buf[NUMBER_TEXT]);
