/* SPDX-License-Identifier: MIT */
/* Threads are made for the processors that a process may use, and not for all
 * that the machine has. */
#include <sched.h>
#include <unistd.h>

#include "base/cpus.h"
#include "tests/kit/tap.h"

/* Leaves the first of those in it. */
static void leave_one(cpu_set_t *set)
{
	int cpu = 0;

	while (!CPU_ISSET(cpu, set))
		cpu++;
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

int main(void)
{
	int n = cpus_allowed();
	cpu_set_t set;

	ok(n >= 1 && n <= sysconf(_SC_NPROCESSORS_ONLN),
		"a process may use one processor or more, and no more than "
		"there are");
	if (sched_getaffinity(0, sizeof(set), &set) < 0) {
		skip(1, "this machine has more processors than a set");
		return done(2);
	}
	leave_one(&set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		bail("the affinity cannot be set: %m");
	is_int(1, cpus_allowed(), "a process bound to one may use that one");
	return done(2);
}
