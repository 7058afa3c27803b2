/* SPDX-License-Identifier: MIT */
/*
 * Headroom in a real memory cgroup of 256 MiB: 512 MiB are refused with a
 * sentence that names the limit, where taking them would mean a SIGKILL. The
 * group is made below our own, by a child that moves into it; who may not do
 * that (not root, or no memory controller to be handed down) skips.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/headroom.h"
#include "tests/tap.h"

#define MIB (1ull << 20)

static char group[4300];

/* Our own group's folder where the memory controller is v1 or v2. */
static bool own_group(bool v1, char *ret, size_t size)
{
	char line[4096], path[2048] = "";
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, v1 ? "%*d:memory:%2047s" : "0::%2047s",
			    path) == 1)
			break;
	if (file)
		fclose(file);
	if (!path[0])
		return false;
	snprintf(ret, size, "/sys/fs/cgroup%s%s", v1 ? "/memory" : "", path);
	return access(ret, W_OK) == 0;
}

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

static bool make_group(bool v1)
{
	char own[4200], limit[32];

	if (!own_group(v1, own, sizeof(own)))
		return false;
	snprintf(group, sizeof(group), "%s/tarn-test-%d", own, (int)getpid());
	if (mkdir(group, 0700) < 0)
		return false;
	snprintf(limit, sizeof(limit), "%llu", 256 * MIB);
	if (put(v1 ? "memory.limit_in_bytes" : "memory.max", limit))
		return true;
	rmdir(group);
	return false;
}

/* Touches size bytes, so that they count. */
static void *take(size_t size)
{
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

static int inside(bool v1)
{
	const char *limit = v1 ? "memory.limit_in_bytes" : "memory.max";
	uint64_t before = 0, after = 0;
	char text[600];

	if (!put("cgroup.procs", "0"))
		bail("%s/cgroup.procs: %m", group);
	is_int(0, headroom(&before, text, sizeof(text)), "headroom is found");
	ok(before > 128 * MIB && before <= 256 * MIB, "%llu bytes of 256 MiB",
		(unsigned long long)before);
	has_str(limit, text, "by the group's limit");
	is_int(-ENOSPC, headroom_check(512 * MIB), "512 MiB are refused");
	has_str("no room for 512 MiB", tarn_fail_message(), "which is said");
	has_str("(256 MiB, ", tarn_fail_message(), "with the limit");
	is_int(0, headroom_check(64 * MIB), "64 MiB are not");
	if (!take(100 * MIB) || headroom(&after, NULL, 0) < 0)
		bail("100 MiB: %m");
	ok(after < before - 90 * MIB,
		"what is taken is missed: %llu bytes left",
		(unsigned long long)after);
	is_int(-ENOSPC, headroom_check(200 * MIB), "200 MiB no longer fit");
	return done();
}

/* A group is busy until its last process is wholly gone. */
static bool remove_group(void)
{
	for (int i = 0; i < 200; i++) {
		if (rmdir(group) == 0)
			return true;
		usleep(10000);
	}
	return false;
}

int main(void)
{
	bool v1 = true;
	int status = 0;
	pid_t pid;

	if (!make_group(v1)) {
		v1 = false;
		if (!make_group(v1))
			skip_all("no memory cgroup can be made here (it needs "
				 "root, and the controller)");
	}
	pid = fork();
	if (pid == 0)
		exit(inside(v1));
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!remove_group())
		bail("%s is left behind: %m", group);
	if (pid < 0 || !WIFEXITED(status))
		bail("the process in the group: status %d", status);
	return WEXITSTATUS(status);
}
