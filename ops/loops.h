/* SPDX-License-Identifier: MIT */
/*
 * One nest of loops over several operands of one shape, made as short as it can
 * be: operand 0, the destination, is walked forward with its largest strides
 * outermost, and dimensions that are adjacent in all operands are one loop.
 * Strides are in elements of each operand; 0 where it is repeated.
 */
#pragma once

#include <stdbool.h>

#include <tarn/layout.h>
#include <tarn/tensor.h>

#define LOOPS_OPERANDS 4 /* a destination and three sources */

struct loop_operand {
	char *at;            /* element (0, 0, ...) */
	uint8_t dtype, size; /* bytes of an element */
	int64_t stride[TARN_NDIM_MAX];
};

struct loops {
	int n, n_operands;
	bool empty; /* no elements */
	int64_t extent[TARN_NDIM_MAX];
	struct loop_operand operand[LOOPS_OPERANDS];
};

void loops_begin(struct loops *loops, int ndim, const int64_t *shape);

/* The tensor is broadcast to the shape, which it fits. */
void loops_add(struct loops *loops, const tarn_tensor *tensor);

/* One element, that is used everywhere. */
void loops_add_value(struct loops *loops, enum tarn_dtype dtype, void *value);

/* Drops, turns, orders and fuses; after the last operand. */
void loops_tidy(struct loops *loops);

/* Fuses the innermost dimensions as far as all operands allow. */
void loops_fuse(struct loops *loops);

/* Does the operand have one element? */
bool loops_is_value(const struct loops *loops, int operand);

/* The block of that number, in C order, of those of at most extent each. */
void loops_block(const struct loops *loops, const int64_t *extent,
	const int64_t *count, int64_t number, struct loops *ret);

/* The loops as a layout in C order. */
void loops_pack(const struct loops *loops, enum tarn_dtype dtype,
	struct tarn_layout *ret);
