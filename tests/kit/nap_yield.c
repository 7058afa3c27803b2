/* SPDX-License-Identifier: MIT */
/*
 * A module to preload: sched_yield(2) takes a nap. Ranks of an MPI, of which there
 * are more than processors, yield in a loop while they wait. Linux 6.18 lets two of
 * them starve all other processes, those of other sessions too, for up to a minute:
 * then tests fail elsewhere.
 */
#include <sched.h>
#include <time.h>

__attribute__((__visibility__("default"))) int sched_yield(void)
{
	const struct timespec nap = {.tv_nsec = 20000};

	return nanosleep(&nap, NULL);
}
