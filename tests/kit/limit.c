/* SPDX-License-Identifier: MIT */
/* See limit.h. */
#include "tests/kit/limit.h"

#include <unistd.h>

#include "tests/kit/tap.h"

struct rlimit limit_to(int resource, rlim_t n)
{
	struct rlimit before, few;

	getrlimit(resource, &before);
	few = before;
	few.rlim_cur = n;
	if (setrlimit(resource, &few) < 0)
		bail("setrlimit: %m");
	return before;
}

rlim_t limit_next_fd(void)
{
	int fd = dup(STDOUT_FILENO);

	if (fd < 0)
		bail("dup: %m");
	close(fd);
	return (rlim_t)fd;
}
