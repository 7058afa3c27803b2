/* SPDX-License-Identifier: MIT */
/*
 * Tensors whose order in the source file differs from the new file's, as a
 * Fortran array's does from C order: each chunk of the new file has a little of
 * all of the old one. Such a tensor is read into memory first, once.
 */
#pragma once

#include "lib/save/plan.h"

/* The bytes of memory that this takes; 0: it is read chunk by chunk. */
uint64_t transposed_bytes(const struct part *p);

/* 1: it is in memory. 0: there is not enough memory, and it is read chunk by
 * chunk, however long that takes. options: the I/O mode, the engine, and the
 * progress callback. */
int transposed_load(struct part *p, const struct tarn_copy_options *options,
	struct tarn_copy_info *info) _must_check_;
