/* SPDX-License-Identifier: MIT */
/*
 * Dtypes with arithmetic: the kinds that they are of, in which two of them meet,
 * and in which they are computed.
 */
#pragma once

#include <tarn/ops.h>

/* The order is that of what can hold what. */
enum kind { KIND_NONE, KIND_BOOL, KIND_INT, KIND_FLOAT };

/* KIND_NONE: it has no arithmetic here. */
enum kind dtype_kind(enum tarn_dtype dtype);

/* 0, or -ENOTSUP with the cast that would help. */
int dtype_check(const char *op, enum tarn_dtype dtype);

/* In which its elements are computed: F32 for F16 and BF16, else itself. */
enum tarn_dtype dtype_computed(enum tarn_dtype dtype);

/* F32 for BOOL and integers, else itself. */
enum tarn_dtype dtype_floating(enum tarn_dtype dtype);

/* 0, or -EINVAL: an integer dtype cannot hold that whole number. */
int dtype_check_number(const char *op, enum tarn_dtype dtype,
	const struct tarn_operand *number);

/* Writes a number as one element, at most 8 bytes. The dtype can hold it, or it
 * wraps around. */
void dtype_put(
	enum tarn_dtype dtype, const struct tarn_operand *number, void *ret);
