/* SPDX-License-Identifier: MIT */
/* Writes a planned file to a descriptor, from its first byte to its last. */
#pragma once

#include "lib/save/plan.h"

/*
 * fd is open for reading and writing, and has its final size. The head is
 * written last, so that a truncated file is never taken for a complete one.
 * After a failure its content is undefined. Adds to the counts of info; times
 * are not set.
 */
int save_write(struct save_plan *plan, const struct tarn_save_options *options,
	int fd, struct tarn_copy_info *info);
