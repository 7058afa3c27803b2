/* SPDX-License-Identifier: MIT */
/*
 * A fuzz target is a name, under which its corpus and its dictionary are
 * found, and a function that takes any bytes. It returns 0; if it finds a
 * fault it calls bail(), which ends the program, and libFuzzer keeps the
 * bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

extern const char fuzz_name[];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
