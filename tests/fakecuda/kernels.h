/* SPDX-License-Identifier: MIT */
/* The kernels that the stand-in knows, as functions of the host. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Memory that a kernel uses: from size bytes at *address on. The stand-in puts
 * the host's address in its place before the kernel runs. */
struct touch {
	uint64_t *address;
	int64_t first; /* the first byte, counted from it */
	size_t size;   /* 0: none */
	int writes;
};

#define TOUCHES_MAX 4

struct grid {
	unsigned grid[3], block[3], shared;
};

/* Each has one parameter, of that size, and is told of it by a copy. */
struct kernel {
	const char *name;
	size_t size;
	int (*touches)(void *params, struct touch ret[TOUCHES_MAX]);
	void (*run)(const void *params, const struct grid *grid);
};

#define KERNELS_MAX 128

/* Fills the list; returns how many there are. */
int kernels_list(struct kernel ret[KERNELS_MAX]);

#pragma GCC visibility pop
