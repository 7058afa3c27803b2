/* SPDX-License-Identifier: MIT */
/* See cgroup.h. */
#include "tests/kit/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/cgroup_path.h"
#include "tests/kit/tap.h"

static char group[4300];
static bool is_v1;

static bool put(const char *name, const char *text)
{
	char path[4400];
	FILE *file;
	bool fine;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	file = fopen(path, "we");
	if (!file)
		return false;
	fine = fputs(text, file) >= 0;
	return fclose(file) == 0 && fine;
}

/* One that is there already, of nobody who lives, is not what was asked for:
 * its limit is another. */
static bool make_folder(const char *path)
{
	if (mkdir(path, 0700) == 0)
		return true;
	return errno == EEXIST && rmdir(path) == 0 && mkdir(path, 0700) == 0;
}

static bool make_group(bool v1, unsigned long long size)
{
	const char *id = getenv("TARN_TEST_ID");
	char limit[32];

	if (!cgroup_of_test(v1, id ? id : "tarn-test", group, sizeof(group)) ||
		!make_folder(group)) {
		group[0] = 0;
		return false;
	}
	snprintf(limit, sizeof(limit), "%llu", size);
	if (put(v1 ? "memory.limit_in_bytes" : "memory.max", limit))
		return true;
	rmdir(group);
	group[0] = 0;
	return false;
}

static void remove_group(void *arg)
{
	cgroup_remove();
}

bool cgroup_make(unsigned long long size)
{
	is_v1 = make_group(true, size);
	if (!is_v1 && !make_group(false, size))
		return false;
	at_bail(remove_group, NULL);
	return true;
}

bool cgroup_is_v1(void)
{
	return is_v1;
}

void cgroup_enter(void)
{
	if (!put("cgroup.procs", "0"))
		bail("%s/cgroup.procs: %m", group);
}

/* The number after a word in one of its files; -1. */
static long number_in(const char *name, const char *word)
{
	char path[4400], line[200];
	size_t size = strlen(word);
	long number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	file = group[0] ? fopen(path, "re") : NULL;
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, word, size) == 0 &&
			sscanf(line + size, " %ld", &number) == 1)
			break;
	if (file)
		fclose(file);
	return number;
}

long cgroup_kills(void)
{
	return number_in(
		is_v1 ? "memory.oom_control" : "memory.events", "oom_kill ");
}

long cgroup_shmem_mib(void)
{
	long bytes = number_in("memory.stat", "shmem ");

	return bytes < 0 ? -1 : bytes >> 20;
}

/* A group is busy until its last process is wholly gone. */
bool cgroup_remove(void)
{
	for (int i = 0; i < 6000; i++) {
		if (rmdir(group) == 0)
			return true;
		usleep(10000);
	}
	return false;
}
