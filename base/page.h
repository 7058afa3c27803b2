/* SPDX-License-Identifier: MIT */
/*
 * Two sizes of pages.
 *
 * PAGE is the unit of sizes and offsets in pools and tables: the smallest page
 * of any machine that tarn runs on. A machine's own pages may be larger.
 *
 * HUGE_PAGE is the unit of transparent huge pages on x86-64, and on aarch64
 * with pages of 4 KiB. Memory whose address is congruent to its offset modulo
 * this can be mapped by huge pages, and by large folios of the page cache.
 */
#pragma once

#include <stdint.h>

#define PAGE UINT64_C(4096)
#define HUGE_PAGE (UINT64_C(2) << 20)
