/* SPDX-License-Identifier: MIT */
/*
 * The steps that conversions are made of (see convert.c). Each takes n packed
 * elements at any alignment and never works in place. A set of them is
 * compiled once for any CPU, and again for those that can do more; all sets
 * give the same bits (but for the payload and sign of a NaN that was scaled).
 */
#pragma once

#include <stddef.h>

#include <tarn/dtype.h>

/* F4 to F4 with a scale: unpack, load, scale, store, pack; and one spare. */
#define CONVERT_STEPS 6

typedef void convert_step(void *dst, const void *src, size_t n);
/* dst = src * scale + bias, in the pivot's type. */
typedef void convert_scale_one(
	void *dst, const void *src, size_t n, double scale, double bias);
/* The same with arrays of the pivot's type, one of each for an element. */
typedef void convert_scale_each(void *dst, const void *src, size_t n,
	const void *scale, const void *bias);

#define CONVERT_DTYPES (TARN_DTYPE_MAX + 1)

/* Arrays are indexed by dtype; [1] of two rounds to even, [0] truncates. */
struct convert_set {
	convert_step *load_f32[CONVERT_DTYPES]; /* exact in F32 */
	convert_step *load_f64[CONVERT_DTYPES]; /* nearest F64 */
	convert_step *load_f64_odd[CONVERT_DTYPES];
	convert_step *load_i64[CONVERT_DTYPES];
	convert_step *store_f32[2][CONVERT_DTYPES]; /* from F32 */
	convert_step *store_f64[2][CONVERT_DTYPES];
	convert_step *store_i64[CONVERT_DTYPES];
	convert_step *widen, *narrow, *narrow_odd; /* F32 to F64, and back */
	/* Sub-byte elements to their codes in bytes, and back. */
	convert_step *unpack[CONVERT_DTYPES], *pack[CONVERT_DTYPES];
	convert_scale_one *one_f32, *one_f64;
	convert_scale_each *each_f32, *each_f64;
	convert_scale_one *one_load[CONVERT_DTYPES]; /* load_f32, then scale */
	/* One step in place of two: [source][destination]. */
	convert_step *direct[CONVERT_DTYPES][CONVERT_DTYPES];
};

extern const struct convert_set convert_set_c;
/* NULL where this CPU has no AVX2 and F16C. */
const struct convert_set *convert_set_avx2(void);
