/* SPDX-License-Identifier: MIT */
/* The list of numbers that tarn_gather is given, of any integer dtype. */
#pragma once

#include <tarn/layout.h>

#include "base/cleanup.h"

struct row_numbers {
	const char *at; /* the first */
	int64_t step;   /* bytes from one to the next */
	int dtype;
	int64_t n;
	int64_t rows; /* of the table: what is valid */
};

/* Is it the dtype of such a list? */
bool row_numbers_dtype(int dtype);

/* Reads n numbers from first on; negative ones are counted from the end, so
 * that all are 0 .. rows - 1. -ERANGE names the first that is not valid. Each
 * is read once: nobody can change it behind the check. */
int row_numbers_read(const struct row_numbers *numbers, int64_t first,
	int64_t n, int64_t *ret) _must_check_;

/* Are all of them valid? */
int row_numbers_check(const struct row_numbers *numbers) _must_check_;
