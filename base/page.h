/* SPDX-License-Identifier: MIT */
/*
 * The unit of sizes and offsets in pools and tables: the smallest page of any
 * machine that tarn runs on. A machine's own pages may be larger.
 */
#pragma once

#include <stdint.h>

#define PAGE UINT64_C(4096)
