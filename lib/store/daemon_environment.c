/* SPDX-License-Identifier: MIT */
/*
 * The environment of a daemon.
 *
 * It is a list of the variables that it needs. The rest belongs to its starter:
 * secrets, a profiler to be preloaded, NOTIFY_SOCKET, through which the daemon
 * would talk to its starter's service manager.
 */
#include "lib/store/daemon_environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

static bool is_needed(const char *variable)
{
	/* Library paths, the language of messages, and the report files of
	 * builds for tests. */
	static const char *const prefixes[] = {"TARN_",
		"LD_LIBRARY_PATH=", "PATH=", "LANG=", "LANGUAGE=", "LC_",
		"ASAN_OPTIONS=", "LSAN_OPTIONS=", "TSAN_OPTIONS=",
		"UBSAN_OPTIONS=", "GCOV_PREFIX"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

char **daemon_environment(void)
{
	size_t n = 0, to = 0;
	char **all;

	while (environ && environ[n])
		n++;
	all = calloc(n + 1, sizeof(*all));
	for (size_t i = 0; all && i < n; i++)
		if (is_needed(environ[i]))
			all[to++] = environ[i];
	return all;
}
