/* SPDX-License-Identifier: MIT */
/*
 * A nest of loops in slices, so that the thread that moves it can do other work
 * in between. A slice is some steps of one loop with all that is inside; the
 * loops outside count on like digits.
 */
#pragma once

#include <stdbool.h>

#include "lib/move/nest.h"

struct slices {
	int level;                    /* the loop that is cut */
	int64_t steps;                /* of the loop in each slice */
	int64_t first;                /* the next of its steps */
	int64_t inside;               /* elements in one of its steps */
	int64_t index[TARN_NDIM_MAX]; /* of the loops outside */
	bool ended;                   /* there is none, or none left */
};

/* bytes: of dst in a slice, approximately. */
void slices_begin(
	struct slices *slices, const struct nest *nest, int64_t bytes);
/* The next slice, unless they have ended. Returns its bytes of dst. */
uint64_t slices_next(
	struct slices *slices, const struct nest *nest, struct nest *ret);
