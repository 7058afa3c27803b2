/* SPDX-License-Identifier: MIT */
/* Clocks, and the one number that stands for many: what benchmarks share. */
#pragma once

#include <stdlib.h>
#include <time.h>

static inline double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double wall(void)
{
	return seconds(CLOCK_MONOTONIC);
}

/* In whole nanoseconds, for what takes few of them. */
static inline double wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void sort_values(double *values, int n)
{
	qsort(values, (size_t)n, sizeof(*values), by_value);
}

/* Sorts them. */
static inline double median(double *values, int n)
{
	sort_values(values, n);
	return values[n / 2];
}
