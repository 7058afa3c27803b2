/* SPDX-License-Identifier: MIT */
/* The kernels. One is the stand-in's own, for the test of it. */
#include "tests/fakecuda/kernels.h"

#include "tests/fakecuda/fakecuda.h"

static int increment_touches(void *params, struct touch ret[TOUCHES_MAX])
{
	struct fakecuda_increment *p = params;

	ret[0] = (struct touch) {
		.address = &p->at, .size = p->size, .writes = 1};
	return 1;
}

/* A thread for each byte, and none for bytes past the grid. */
static void increment(const void *params, const struct grid *grid)
{
	const struct fakecuda_increment *p = params;
	uint64_t threads = (uint64_t)grid->grid[0] * grid->block[0];

	for (uint64_t i = 0; i < p->size && i < threads; i++)
		((unsigned char *)p->at)[i]++;
}

int kernels_list(struct kernel ret[KERNELS_MAX])
{
	ret[0] = (struct kernel) {"fakecuda_increment",
		sizeof(struct fakecuda_increment), increment_touches,
		increment};
	return 1;
}
