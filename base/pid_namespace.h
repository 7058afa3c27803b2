/* SPDX-License-Identifier: MIT */
/* Which pid namespace a process is in. Its pids have a meaning only there. */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

/* The inode number of this process's pid namespace, the same for all processes
 * in it; 0 where /proc does not show it. */
static inline uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}
