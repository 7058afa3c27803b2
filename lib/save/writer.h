/* SPDX-License-Identifier: MIT */
/* Writes what is planned to an open file, from its first byte to its last. */
#pragma once

#include "lib/save/plan.h"

/*
 * fd is open for reading and writing, and has the size that the head says. The
 * head is written last, so that a file cut short is never taken for a whole one.
 * On failure nothing is known of what is in it. info counts; times are left.
 */
int save_write(struct save_plan *plan, const struct tarn_save_options *options,
	int fd, struct tarn_copy_info *info);
