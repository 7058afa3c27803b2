/* SPDX-License-Identifier: MIT */
/*
 * The time in whole nanoseconds, in milliseconds (the unit of timeouts) and in
 * seconds (for people).
 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Of CLOCK_MONOTONIC. */
static inline int64_t clock_ms(void)
{
	return (int64_t)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

static inline double clock_seconds(clockid_t clock)
{
	return 1e-9 * (double)clock_ns(clock);
}
