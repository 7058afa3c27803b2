/* SPDX-License-Identifier: MIT */
/* Tensors to publish, and to find again by their numbers. */
#pragma once

#include <stdint.h>

#include <tarn/tarn.h>

/* One that the store has created, of n numbers, counting from first. */
tarn_tensor *kit_counting(
	tarn_store *store, int dtype, int64_t n, double first);
/* NULL: the name is not there. */
tarn_tensor *kit_looked_up(tarn_store *store, const char *name);
/* A test: a call returned 0. */
void kit_is_done(int r, const char *what);
