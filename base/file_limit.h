/* SPDX-License-Identifier: MIT */
/* The limit on the size of files that this process makes (RLIMIT_FSIZE). */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/fail.h"

/* Call it before a file is made that large, a memfd too: the kernel reports an
 * excess by a signal that kills (SIGXFSZ). */
static inline int file_limit_check(uint64_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || size <= limit.rlim_cur)
		return 0;
	return tarn_fail(EFBIG,
		"no file of this process may have %llu bytes: the limit "
		"(RLIMIT_FSIZE, ulimit -f) is %llu",
		(unsigned long long)size, (unsigned long long)limit.rlim_cur);
}
