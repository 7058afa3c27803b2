/* SPDX-License-Identifier: MIT */
/* The file that a tool of a Python test is given. */
#pragma once

#include <tarn/tensor.h>

/* argv[1], mapped into memory and as a file's bytes. */
void tool_open(int argc, char **argv, tarn_storage *ret_storages[2]);
void tool_close(tarn_storage *const storages[2]);
