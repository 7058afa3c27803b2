/* SPDX-License-Identifier: MIT */
/* Shared by indexing in expressions, slice and select. */
#pragma once

#include <tarn/layout.h>

/* Python's slice.indices: how many elements, and which is the first. step is
 * neither 0 nor TARN_NONE. */
int64_t slice_count(int64_t n, int64_t start, int64_t stop, int64_t step,
	int64_t *ret_first);

/* count elements of dim from first on, step apart; all of them exist. */
void layout_take(struct tarn_layout *layout, int dim, int64_t first,
	int64_t count, int64_t step);

/* A negative index counts from the end; -ERANGE. */
int layout_wrap_index(const char *op, const struct tarn_layout *layout, int dim,
	int64_t index, int64_t *ret);
