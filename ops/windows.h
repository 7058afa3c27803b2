/* SPDX-License-Identifier: MIT */
/* Windows that move over one or two dimensions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One of those dimensions; out: how many windows there are. */
struct axis {
	int64_t in, kernel, stride, padding, dilation, out;
};

/* Checks it, and sets out; ceil: the last window may reach past the end. */
int axis_open(const char *op, struct axis *a, bool ceil);
