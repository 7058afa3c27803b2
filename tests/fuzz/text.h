/* SPDX-License-Identifier: MIT */
/* Inputs that are text: what functions of C strings are given. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* size bytes with a NUL behind them, in memory of exactly that size; to be
 * freed. Ends the program without memory. */
char *text_of(const uint8_t *bytes, size_t size);
