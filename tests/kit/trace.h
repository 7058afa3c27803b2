/* SPDX-License-Identifier: MIT */
/* Whether one process may reach into another of its own user. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Gives up the right to trace any process, which is root's, for this process
 * and for the programs that it starts. Without it the kernel asks of a process
 * whether it is dumpable. False: it is kept, or this process may not even trace
 * its own child, and why has been said. */
bool trace_as_equal(void);

/* Is any of its memory, its registers and its descriptors to be had? */
bool trace_reaches(pid_t pid);
