/* SPDX-License-Identifier: MIT */
/* Tokens, of 1 to 8 bytes, as other integers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/dtype.h>

/* One of width bytes, at any address. NONE is without a sign. */
int64_t data_token_at(const void *p, enum tarn_dtype dtype, unsigned width);

/* n tokens of width bytes as those of another integer dtype. False: *ret_bad is
 * the first that does not fit. */
bool data_tokens_convert(const void *from, enum tarn_dtype dtype,
	unsigned width, size_t n, void *to, enum tarn_dtype out,
	size_t *ret_bad);
