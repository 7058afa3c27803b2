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
	int before, behind; /* characters left and right of the point */
	int digits;	    /* behind the point, scientific */
	int exponent;	    /* digits of the exponent */
};

struct number_column {
	int dtype;
	int width; /* integers */
	struct float_column real, imaginary;
};

/* The column that all of raw[n] fit into. In the C locale. */
void number_column_plan(struct number_column *column, int dtype,
	const uint64_t *raw, size_t n);

/* One number in its column; returns the length. */
size_t number_column_print(const struct number_column *column, uint64_t raw,
	char buf[NUMBER_TEXT]);

/* A number that stands alone, as numpy prints scalars. */
void number_print(int dtype, uint64_t raw, char buf[NUMBER_TEXT]);
