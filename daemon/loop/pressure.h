/* SPDX-License-Identifier: MIT */
/*
 * Is memory short, so that the daemon should free what it keeps only as a
 * cache?
 *
 * There are two signs: the kernel reports that tasks stall for lack of memory
 * (PSI, of our cgroup if it has that, else of the machine), or the headroom is
 * small. The kernel sends the first when it happens; the daemon polls the
 * second, which is the only one where PSI cannot be watched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop/loop.h"

/* Below this the headroom is small, and it is filled up to that: what
 * headroom.h leaves for others, once and twice. */
#define PRESSURE_LOW (64ull << 20)
#define PRESSURE_HIGH (128ull << 20)

/* How much to give back when room bytes of headroom are left and reclaimable
 * bytes could be freed; stalled: PSI reports a stall. A stall alone costs an
 * eighth, so that a short one does not cost the whole cache. */
uint64_t pressure_relief(uint64_t room, bool stalled, uint64_t reclaimable);

/* The machine's, our cgroup's. */
#define PRESSURE_TRIGGERS 2u

/* A descriptor that has an urgent event when tasks have stalled for a while.
 * -1: not to be had. Closing the last one of a trigger takes the kernel some
 * ten milliseconds, at the end of a process too. */
int pressure_open(unsigned int which);
/* The cgroup that it watches is gone. */
bool pressure_ended(int fd);

struct pressure;

/* Calls fn in the loop when one of them fires, at most every two seconds. They
 * stay the caller's, which closes them later; -1 is none. NULL where nothing
 * can be watched. */
struct pressure *pressure_watch(struct loop *loop,
	const int fds[PRESSURE_TRIGGERS], void (*fn)(void *arg), void *arg);
struct pressure *pressure_free(struct pressure *pressure);
