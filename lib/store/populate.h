/* SPDX-License-Identifier: MIT */
/* Page tables, filled before they are needed. */
#pragma once

#include <stdint.h>

/* Reads a little of each page of addr, which is one's beginning, by so many
 * threads, this one among them. 0, or a positive errno: some are not there. */
int populate_read(void *addr, uint64_t size, int threads);
