/* SPDX-License-Identifier: MIT */
/*
 * The parts of headroom.c that tests run against trees of their own. Every path
 * (/proc/meminfo, /proc/self/cgroup, /proc/self/mountinfo, and the mount points
 * found there) is looked up below root, which is "" outside of tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int headroom_at(
	const char *root, uint64_t *ret_bytes, char *buf, unsigned long size);
int headroom_check_at(const char *root, uint64_t want);
bool headroom_is_tight_at(const char *root);

/* ---- base/headroom_cgroup.c --------------------------------------- */

/* One limit: its name ("memory.max of /x"), and bytes. */
struct headroom_limit {
	char name[512];
	uint64_t limit;
	uint64_t used;
	uint64_t shmem; /* of used: shared memory, also that of the dead */
	uint64_t room;  /* what is left of it, counting reclaimable memory */
};

/* Calls fn for each memory limit of a process's cgroups, v1 and v2, from its
 * own to the highest that can be seen; process: "self", or a pid. A missing
 * file is no limit. */
int headroom_cgroups(const char *root, const char *process,
	void (*fn)(void *arg, const struct headroom_limit *limit), void *arg);
