/* SPDX-License-Identifier: MIT */
/* Replaces lib/io/io_uring.c where configure found no liburing. */
#include "base/fail.h"
#include "lib/io/io_engine.h"

int tarn_io_uring_new(int keep_fd, struct tarn_io **ret_io)
{
	return tarn_fail(ENOSYS,
		"io_uring is not in this build; install liburing-dev and "
		"configure again");
}
