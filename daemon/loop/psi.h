/* SPDX-License-Identifier: MIT */
/*
 * PSI: the kernel reports that tasks stall for lack of memory, of our cgroup if
 * it has that, else of the machine. It sends the report when it happens.
 */
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

/* The machine's, our cgroup's. */
#define PSI_TRIGGERS 2u

/* A descriptor that has an urgent event when tasks have stalled for a while.
 * -errno: not to be had, -EMFILE, -ENFILE and -ENOMEM for now. Closing the last
 * one of a trigger takes the kernel some ten milliseconds, at the end of a
 * process too. */
int psi_open(unsigned int which);
/* The cgroup that it watches is gone. */
bool psi_ended(int fd);

struct psi_watch;

/* Calls fn in the loop when one of them fires, at most every two seconds. They
 * stay the caller's, which closes them later; a negative one is none. NULL where nothing
 * can be watched. */
struct psi_watch *psi_watch(struct loop *loop, const int fds[PSI_TRIGGERS],
	void (*fn)(void *arg), void *arg);
struct psi_watch *psi_unwatch(struct psi_watch *pressure);
