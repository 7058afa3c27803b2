/* SPDX-License-Identifier: MIT */
/* The processors that this thread may run on. */
#pragma once

/* How many of those that are online its cpuset and affinity leave it; at least
 * 1. A system call or two: callers that ask often keep the answer. */
int cpus_allowed(void);
