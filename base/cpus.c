/* SPDX-License-Identifier: MIT */
/*
 * The processors that this thread may run on. The set has room for 1,024; the
 * kernel refuses it where it knows more, and then all that are online count.
 */
#include "base/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

int cpus_allowed(void)
{
	int online = (int)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return online;
	return MIN(MAX(CPU_COUNT(&set), 1), online);
}

/* ---- control groups ------------------------------------------------------ */

/* "max 100000", "150000 100000": of v2. */
static void limit_by_max(const char *folder, int *n)
{
	long long quota, period;
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cpu.max", folder);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 &&
		period > 0)
		*n = (int)MIN((quota + period - 1) / period, (long long)*n);
	fclose(f);
}

static long long read_number(const char *folder, const char *name)
{
	char path[4200];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%lld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static void limit_by_quota(const char *folder, int *n)
{
	long long quota = read_number(folder, "cpu.cfs_quota_us");
	long long period = read_number(folder, "cpu.cfs_period_us");

	if (quota > 0 && period > 0)
		*n = (int)MIN((quota + period - 1) / period, (long long)*n);
}

/* A group, and those above it up to where its hierarchy is mounted. One that is
 * not seen there, as from within a container, limits by the mount's own. */
static void limit_upwards(const char *mount, char *path,
	void (*limit)(const char *folder, int *n), int *n)
{
	char folder[4096];
	char *slash;

	do {
		snprintf(folder, sizeof(folder), "%s%s", mount, path);
		limit(folder, n);
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}

int cpus_granted(void)
{
	int n = cpus_allowed();
	FILE *f = fopen("/proc/self/cgroup", "re");
	char *line = NULL, *path;
	size_t room = 0;

	while (f && getline(&line, &room, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		path = strchr(line, ':');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		if (!strncmp(line, "0::", 3))
			limit_upwards(
				"/sys/fs/cgroup", path + 1, limit_by_max, &n);
		else if (strstr(line, ":cpu,") || strstr(line, ",cpu:") ||
			 strstr(line, ":cpu:"))
			limit_upwards("/sys/fs/cgroup/cpu", path + 1,
				limit_by_quota, &n);
	}
	free(line);
	if (f)
		fclose(f);
	return MAX(n, 1);
}
