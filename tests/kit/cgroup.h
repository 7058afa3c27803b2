/* SPDX-License-Identifier: MIT */
/* A real memory cgroup, below our own: for root, where there is a
 * controller. */
#pragma once

#include <stdbool.h>

/* With a limit in bytes; false where that cannot be had. */
bool cgroup_make(unsigned long long size);
bool cgroup_is_v1(void);
/* This process moves in. */
void cgroup_enter(void);
/* Its shared memory; -1: there is no group, or it does not say. */
long cgroup_shmem_mib(void);
/* How many processes in it were killed for want of memory; -1: unknown. */
long cgroup_kills(void);
/* When its last process is gone; false: something is left in it. */
bool cgroup_remove(void);
