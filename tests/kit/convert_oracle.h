/* SPDX-License-Identifier: MIT */
/*
 * The expected result of a conversion: one element, by other means than the
 * library's (ldexp and floor instead of bits, see number.c), and nothing but
 * what <tarn/copy.h> says. Elements are raw bits, in the low ones of a word.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* even: to integers, to the nearest, ties to even; else what is behind the
 * point is cut. */
uint64_t oracle_convert(int dst, int src, uint64_t raw, bool even);
uint64_t oracle_from_double(int dtype, double value, bool even);

/* As numbers are: any NaN is as good as another. */
bool oracle_same(int dtype, uint64_t wanted, uint64_t seen);

/* A number as it is, which has to be one of that dtype. */
uint64_t oracle_raw(int dtype, double value);
/* So many of the low bits. */
uint64_t oracle_ones(int bits);
