/* SPDX-License-Identifier: MIT */
/*
 * The processors that this thread may run on. The set has room for 1,024; the
 * kernel refuses it where it knows more, and then all that are online count.
 */
#include "base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include "base/checked.h"

int cpus_allowed(void)
{
	int online = (int)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return online;
	return MIN(MAX(CPU_COUNT(&set), 1), online);
}
