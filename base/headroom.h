/* SPDX-License-Identifier: MIT */
/*
 * How much memory may still be taken before something gets hurt.
 *
 * A memcg does not say ENOSPC, it kills; so it is asked first. Headroom is the
 * least of MemAvailable and, for every cgroup from our own to the root (v1
 * and v2; cgroup namespaces and unmounted controllers are coped with), its
 * limit less its usage plus what it can reclaim (inactive file pages).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Bytes, and in words which limit it is: "memory.max of /user.slice/x
 * (256 MiB, 12 MiB in use)" or "MemAvailable". buf may be NULL. */
int headroom(uint64_t *ret_bytes, char *buf, unsigned long size);

/* 0 if want bytes can be had while leaving a reserve for everybody else
 * (HEADROOM_RESERVE), else -ENOSPC naming the limit and the numbers. */
int headroom_check(uint64_t want);

/* Is any of these limits nearly used up, counting what could be reclaimed as
 * used? If not, nobody waits for memory that we have: who stalls does so under
 * a limit of his own. True where that is not known. */
bool headroom_is_tight(void);

/* Left over for others: below it a machine starts to thrash. 64 MiB or one
 * sixteenth of the limit, whichever is less. */
#define HEADROOM_RESERVE (64ull << 20)
