/* SPDX-License-Identifier: MIT */
/* What the saver writes to the disk, and the log of the disk has. */
#pragma once

#include <stdint.h>

#define CUT_SECTOR 512
#define CUT_MAGIC 0x7472616e6d61726bull

enum { CUT_BEGUN = 1, CUT_RETURNED = 2 };

struct cut_mark {
	uint64_t magic;
	uint64_t version;
	uint64_t state;
	uint64_t zero[61];
};
_Static_assert(sizeof(struct cut_mark) == CUT_SECTOR, "a mark is a sector");
