/* SPDX-License-Identifier: MIT */
/*
 * without_uring COMMAND [ARGUMENT...]: runs it, and whatever it starts, where
 * io_uring is refused, as in a container.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/kit/no_uring.h"

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: without_uring COMMAND...\n");
		return 2;
	}
	if (refuse_io_uring() < 0) {
		perror("without_uring: seccomp");
		return 1;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 127;
}
