/* SPDX-License-Identifier: MIT */
/* The size of the processor's cache. */
#pragma once

#include <stdint.h>

/*
 * Bytes of the largest cache that one core reaches: what a move may leave there
 * for its next reader. root is "", or a folder that stands for / in a test. A
 * guess where neither the kernel nor the C library has a figure.
 */
int64_t cache_size(const char *root);
