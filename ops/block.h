/* SPDX-License-Identifier: MIT */
/*
 * Runs a kernel over a nest of loops, block by block. What the kernel can take
 * as it lies (its dtype, element beside element, or one element repeated), it
 * gets as it lies. Other operands are staged: a block of them is moved to a small
 * packed buffer, by the same code that copies tensors, which transposes and
 * converts on the way; and a destination's buffer is moved out. Blocks are cut so
 * that each operand is read along its own adjacent elements.
 *
 * Blocks do not depend on the number of threads.
 */
#pragma once

#include "ops/kernels.h"
#include "ops/loops.h"

/* The destination's and the sources' dtypes in the kernel. Each block is a part
 * for the pool's threads where there are enough of them. The destination may be
 * a source whose strides are the same. cost: of an element, as a multiple of an
 * addition's. */
void block_run(const struct loops *loops, run_fn *kernel,
	const enum tarn_dtype dtypes[LOOPS_OPERANDS], unsigned cost);
