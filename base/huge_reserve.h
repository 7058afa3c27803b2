/* SPDX-License-Identifier: MIT */
/* The reserve of huge pages, as the kernel counts it. */
#pragma once

#include <stdint.h>

struct huge_reserve {
	uint64_t all;
	uint64_t free;     /* that a mapping can still get */
	char setting[128]; /* the file that changes how many there are */
};

/* Of pages of 2^shift bytes. 0, or -errno: -ENOENT where the machine has none
 * of that size. The figures are looked up below root, "" outside of tests. */
int huge_reserve_read(
	const char *root, unsigned shift, struct huge_reserve *ret);
