/* SPDX-License-Identifier: MIT */
/* stdin, stdout and stderr: that there are such. */
#pragma once

#include <fcntl.h>
#include <unistd.h>

/* For main, before all else: a closed stream's number would go to what is
 * opened next, a socket or a file being written, and what is meant for people
 * into that. What is put in its place fails as it would. */
static inline void streams_keep_apart(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
			open("/dev/null",
				fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return;
}
