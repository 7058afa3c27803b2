/* SPDX-License-Identifier: MIT */
/* Which rows of a tensor have come: ranges that neither overlap nor touch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct set_range {
	int64_t begin, end;
};

struct set_rows {
	size_t n;
	struct set_range *ranges; /* in order */
};

/* 0; 1: some of them are there already, and *ret_there is the first of those;
 * -ENOMEM. */
int set_rows_add(struct set_rows *rows, int64_t begin, int64_t end,
	int64_t *ret_there) _must_check_;
/* The first range of 0 .. end - 1 that is missing; false: none is. */
bool set_rows_missing(
	const struct set_rows *rows, int64_t end, struct set_range *ret);
void set_rows_free(struct set_rows *rows);
