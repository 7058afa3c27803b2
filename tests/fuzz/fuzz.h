/* SPDX-License-Identifier: MIT */
/*
 * What a fuzz target is: a name, under which its corpus and its dictionary
 * lie, and a function that is given any bytes. Whatever they are, it returns
 * 0; what must never be so it tells by bail(), which ends the program, and
 * libFuzzer keeps the bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

extern const char fuzz_name[];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
