/* SPDX-License-Identifier: MIT */
/* Built without liburing: there is no loop on io_uring, and callers take the
 * one on epoll. */
#include "base/fail.h"
#include "daemon/loop/loop_internal.h"

int loop_uring_new(struct loop **ret)
{
	return tarn_fail(ENOSYS,
		"this tarnd was built without io_uring; install liburing-dev "
		"and build it again");
}
