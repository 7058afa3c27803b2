/* SPDX-License-Identifier: MIT */
/*
 * One pool of threads for the process. A job has parts, which the calling thread
 * and the pool's take one after the other; which thread does which part does
 * not matter to the result. While a job runs, jobs of other threads, and those
 * that a part begins, are done by the thread that has begun them.
 */
#pragma once

#include <stddef.h>

/* Calls fn(arg, part) for all parts below n, and returns when all are done. */
void threads_run(size_t n, void (*fn)(void *arg, size_t part), void *arg);

/* How many threads a job of its own would have, at least 1. */
int threads_count(void);
