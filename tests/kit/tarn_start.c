/* SPDX-License-Identifier: MIT */
#include "tests/kit/tarn_start.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/kit/tap.h"

pid_t kit_tarn_start(const char *const args[])
{
	const char *tarn = getenv("TARN");
	const char *argv[9] = {"tarn"};
	pid_t pid;

	if (!tarn)
		bail("TARN names no command");
	for (int i = 0; args[i]; i++) {
		if (i == 7)
			bail("too many arguments");
		argv[i + 1] = args[i];
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(2);
		execv(tarn, (char **)argv);
		_exit(3);
	}
	return pid;
}
