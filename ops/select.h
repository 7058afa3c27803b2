/* SPDX-License-Identifier: MIT */
/* Operands of what selects elements, and writes to those selected. */
#pragma once

#include "ops/result.h"

/* A list of numbers as I64, in C order, in a copy of its own; negative ones are
 * counted from extent. -ERANGE: one is none of extent. */
int numbers_open(const char *op, const tarn_tensor *index, int64_t extent,
	struct source *ret);

/* A number or a tensor, broadcast to a shape and in C order, in dtype, which must
 * be able to hold it, and apart from a destination. */
int operand_open(const char *op, const struct tarn_operand *operand,
	enum tarn_dtype dtype, int ndim, const int64_t *shape,
	const tarn_tensor *to, struct source *ret);
