/* SPDX-License-Identifier: MIT */
/*
 * Tensors that lie crosswise in the file that they come from, as a Fortran
 * array does in a file in C order: each piece of the new file has a little of
 * all of the old one. Such a tensor is brought into memory first, once.
 */
#pragma once

#include "lib/save/plan.h"

/* Bytes to be brought in for it; 0: it is read piece by piece. */
uint64_t crosswise_bytes(const struct part *p);

/* 1: it is in memory. 0: there is not enough, and it is read piece by piece,
 * however long that takes. options: the road, the engine, and whom to tell. */
int crosswise_bring(struct part *p, const struct tarn_copy_options *options,
	struct tarn_copy_info *info) _must_check_;
