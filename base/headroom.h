/* SPDX-License-Identifier: MIT */
/*
 * How much memory this process may still take before the kernel kills
 * something.
 *
 * A memory cgroup does not return ENOSPC, it kills; so its limit is checked
 * first. Headroom is the least of MemAvailable and, for every cgroup from this
 * process's own to the root (v1 and v2; cgroup namespaces and unmounted
 * controllers are handled), its limit less its usage plus what it can reclaim
 * (inactive file pages). Where /proc/meminfo is hidden, free memory is used
 * instead of MemAvailable.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Gives the bytes, and names the limit: "memory.max of /user.slice/x (256 MiB,
 * 12 MiB in use)" or "MemAvailable". buf may be NULL. */
int headroom(uint64_t *ret_bytes, char *buf, unsigned long size);

/* 0 if want bytes can be had while leaving a reserve for other processes
 * (HEADROOM_RESERVE), else -ENOSPC naming the limit and the numbers. */
int headroom_check(uint64_t want);

/* Is any of these limits nearly used up, counting reclaimable memory as used?
 * If not, no process waits for memory because of tarn: a process that stalls
 * does so under a limit of its own. True where that is not known. */
bool headroom_is_tight(void);

/* Left for other processes: with less a machine starts to thrash. 64 MiB or one
 * sixteenth of the limit, whichever is less. */
#define HEADROOM_RESERVE (64ull << 20)
