/* SPDX-License-Identifier: MIT */
/* See cgroup_path.h. */
#include "tests/kit/cgroup_path.h"

#include <stdio.h>
#include <unistd.h>

bool cgroup_of_test(bool v1, const char *id, char *ret, size_t size)
{
	char line[4096], path[2048] = "", own[2200];
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, v1 ? "%*d:memory:%2047s" : "0::%2047s",
			    path) == 1)
			break;
	if (file)
		fclose(file);
	if (!path[0])
		return false;
	snprintf(own, sizeof(own), "/sys/fs/cgroup%s%s", v1 ? "/memory" : "",
		path);
	snprintf(ret, size, "%s/%s", own, id);
	return access(own, W_OK) == 0;
}
