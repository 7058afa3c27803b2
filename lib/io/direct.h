/* SPDX-License-Identifier: MIT */
/* What direct I/O on a file asks for. */
#pragma once

#include <stdint.h>

/*
 * The alignment, a power of two, that file offset, size and address of a
 * direct read must have; 0 when the file cannot be read directly. It may touch
 * the file system, and so block where that does. Never fails: where nothing
 * is known it is 4096, which suits every disk sold today, and the first read
 * tells.
 */
uint32_t tarn_direct_alignment(int fd);
