/* SPDX-License-Identifier: MIT */
/*
 * Numbers: one element as raw bits, and those as a number. Raw is the
 * element's own bits in the low end of a u64 (C64: the real part's F32 bits
 * below, the imaginary part's above). Elements of less than a byte lie
 * lowest bit first: the first F4 of a byte is its low half, four F6 are the
 * 24 bits of three bytes read as a little-endian number.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tarn/dtype.h>

/* The element-th element, counted from base; at any alignment. */
uint64_t number_load(int dtype, const void *base, int64_t element);
void number_store(int dtype, void *base, int64_t element, uint64_t raw);

/* Exact, except for U64 and I64 past 2^53 (nearest). C64: the real part. */
double number_f64(int dtype, uint64_t raw);

/* Floating types are truncated towards 0, as int() does; -ERANGE when the value
 * does not fit, NaN included. */
int number_i64(int dtype, uint64_t raw, int64_t *ret);

void number_c64(int dtype, uint64_t raw, float ret[2]);

/*
 * To the nearest value of dtype, ties to even. Integer types truncate towards
 * 0, BOOL is "not 0". Values that are too large become infinity where dtype has
 * one. -ERANGE: a value that is too large for a dtype without infinity, or a
 * NaN, a sign or a 0 that dtype does not have.
 */
int number_from_f64(int dtype, double value, uint64_t *ret_raw);
int number_from_i64(int dtype, int64_t value, uint64_t *ret_raw);
int number_from_u64(int dtype, uint64_t value, uint64_t *ret_raw);

/* -EINVAL: an imaginary part that is not 0 into a type that has none. */
int number_from_c64(int dtype, const float value[2], uint64_t *ret_raw);

/* As numbers: -0 equals 0, NaN equals nothing. */
bool number_equal(int dtype, uint64_t a, uint64_t b);

bool number_is_integer(int dtype); /* BOOL is not */
bool number_is_signed(int dtype);

/* The floating types of 16 bits and less, see lib/number/minifloat.c. */
bool minifloat_is(int dtype);
double minifloat_decode(int dtype, uint64_t raw);
/* -ERANGE without a sentence; number.c sets it. */
int minifloat_encode(int dtype, double value, uint64_t *ret_raw);
double minifloat_max(int dtype);
