/* SPDX-License-Identifier: MIT */
/* Makes sure that stdin, stdout and stderr are open. */
#pragma once

#include <fcntl.h>
#include <unistd.h>

/* For main, before anything else. If one of them is closed, its number would go
 * to the next file opened, such as a socket or a file being written, and
 * messages for people would end up in it. The descriptor put in its place fails
 * in the same way as a closed one. */
static inline void std_fds_open(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}
