/* SPDX-License-Identifier: MIT */
/* The processors that this thread may run on. */
#pragma once

/* How many of those that are online its cpuset and affinity leave it; at least
 * 1. A system call or two: callers that ask often keep the answer. */
int cpus_allowed(void);

/* The same, but no more than the time that the process's control groups (v2, and
 * v1's cpu.cfs_quota_us) grant it: 1.5 processors' worth are 2. */
int cpus_granted(void);
