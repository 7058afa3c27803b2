// SPDX-License-Identifier: MIT
/*
 * Timeouts as Python gives them: seconds, or None for ever. Waits are cut into
 * slices, between which signals are looked for: a signal that comes just before
 * a wait begins does not end it.
 */
#include "python/module.h"

#include <math.h>
#include <time.h>

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

int deadline_argument(PyObject *timeout, double *ret)
{
	double seconds;

	*ret = INFINITY;
	if (!timeout || timeout == Py_None)
		return 0;
	if (real_argument("timeout", timeout, &seconds) < 0)
		return -1;
	if (isnan(seconds)) {
		PyErr_SetString(PyExc_ValueError, "timeout is no number");
		return -1;
	}
	*ret = seconds > 0 ? now_ms() + seconds * 1e3 : DEADLINE_NOW;
	return 0;
}

bool deadline_passed(double deadline)
{
	return now_ms() >= deadline;
}

int deadline_slice(double deadline, int most)
{
	return (int)ceil(fmin(fmax(deadline - now_ms(), 0), most));
}
