/* SPDX-License-Identifier: MIT */
/* Page tables, filled before they are needed. */
#pragma once

#include <stdint.h>

/* Reads a little of each page from addr on, which must be the beginning of a
 * page, in that many threads, the caller's included. 0, or a positive errno:
 * some pages could not be read. */
int populate_read(void *addr, uint64_t size, int threads);
