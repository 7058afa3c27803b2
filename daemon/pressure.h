/* SPDX-License-Identifier: MIT */
/*
 * Is memory short, so that what is kept for convenience should go?
 *
 * Two signs: the kernel says that tasks stall for want of memory (PSI, of our
 * cgroup where it has that, else of the machine), or the headroom is small.
 * The first comes when it happens; the second is asked for, and is all there
 * is where PSI may not be watched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop.h"

/* Below this the headroom is small, and it is filled up to that: what
 * headroom.h leaves for others, once and twice. */
#define PRESSURE_LOW (64ull << 20)
#define PRESSURE_HIGH (128ull << 20)

/* How much to give back when room bytes of headroom are left and givable ones
 * could be given; stalled: PSI says so. A stall alone costs an eighth, so that
 * a short one does not cost the whole cache. */
uint64_t pressure_relief(uint64_t room, bool stalled, uint64_t givable);

struct pressure;

/* Calls fn in the loop when tasks have stalled for a while; at most every two
 * seconds. NULL where that cannot be watched. */
struct pressure *pressure_watch(
	struct loop *loop, void (*fn)(void *arg), void *arg);
struct pressure *pressure_free(struct pressure *pressure);
