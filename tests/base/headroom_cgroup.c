/* SPDX-License-Identifier: MIT */
/*
 * Headroom in a real memory cgroup of 256 MiB: 512 MiB are refused with a
 * sentence that names the limit, where taking them would mean a SIGKILL. A
 * child makes the group below its own and moves into it. Where it may not (it
 * is not root, or has no memory controller) the test is skipped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/tap.h"

#define MIB (1ull << 20)

/* Touches size bytes, so that they count. */
static void *take(size_t size)
{
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return bytes == MAP_FAILED ? NULL : bytes;
}

static int inside(void)
{
	const char *limit =
		cgroup_is_v1() ? "memory.limit_in_bytes" : "memory.max";
	uint64_t before = 0, after = 0;
	char text[600];

	cgroup_enter();
	is_int(0, headroom(&before, text, sizeof(text)),
		"the headroom of a real group is found");
	diag("%llu bytes", (unsigned long long)before);
	ok(before > 128 * MIB && before <= 256 * MIB,
		"the headroom of a group of 256 MiB is most of it, and no "
		"more");
	has_str(limit, text, "the group's limit is named as the tightest");
	is_int(-ENOSPC, headroom_check(512 * MIB),
		"512 MiB are refused in a group of 256 MiB");
	has_str("no room for 512 MiB", tarn_fail_message(),
		"the error contains 'no room for 512 MiB'");
	has_str("(256 MiB, ", tarn_fail_message(),
		"the error names the limit and its usage");
	is_int(0, headroom_check(64 * MIB),
		"64 MiB are granted in a group of 256 MiB");
	if (!take(100 * MIB) || headroom(&after, NULL, 0) < 0)
		bail("100 MiB: %m");
	diag("%llu bytes left", (unsigned long long)after);
	ok(after < before - 90 * MIB,
		"memory that is taken lowers the headroom");
	is_int(-ENOSPC, headroom_check(200 * MIB),
		"200 MiB are refused after memory was taken");
	return done(9);
}

int main(void)
{
	int status = 0;
	pid_t pid;

	if (!cgroup_make(256 * MIB))
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	pid = fork();
	if (pid == 0)
		exit(inside());
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (!cgroup_remove())
		bail("the group is left behind: %m");
	if (pid < 0 || !WIFEXITED(status))
		bail("the process in the group: status %d", status);
	return WEXITSTATUS(status);
}
