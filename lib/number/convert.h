/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements from one dtype to another: runs of them, packed on
 * both sides. The meaning is that of <tarn/copy.h>; floating arithmetic is that
 * of a thread in its default environment (to nearest).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tarn/copy.h>

#include "lib/number/convert_steps.h"

struct convert {
	uint8_t dst_dtype, src_dtype;
	uint8_t rounding; /* enum tarn_rounding */
	bool plain; /* the same dtype, unscaled: bytes are copied as they are */
	bool scaled;                /* scale and bias below are used */
	const double *scale, *bias; /* borrowed; either may be NULL */

	/* Private to convert.c: chosen once, by dtypes and by the CPU. */
	uint8_t dst_bits, src_bits;
	uint8_t steps;
	uint8_t scale_at; /* this step is the scale's */
	bool wide;        /* scaled in F64, else in F32 */
	convert_step *step[CONVERT_STEPS];
	convert_scale_one *one, *fused; /* fused: all steps up to scale_at */
	convert_scale_each *each;
};

/* -ENOTSUP: C64 with a scale. scale and bias stay the caller's. */
int convert_plan(struct convert *ret, int dst_dtype, int src_dtype,
	enum tarn_rounding rounding, const double *scale, const double *bias);

/*
 * n elements, packed, at any alignment, not overlapping; element i uses
 * scale[channel + i * step] (step 0: the same for all). Sub-byte dtypes begin
 * at a byte. Not for plain ones: that is memcpy.
 */
void convert_run(const struct convert *c, void *dst, const void *src, size_t n,
	int64_t channel, int64_t step);

/* Plans made from here on use portable C alone, or again the features of the
 * CPU; for tests, which compare the two. */
void convert_portable(bool on);
