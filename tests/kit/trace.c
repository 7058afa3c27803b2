/* SPDX-License-Identifier: MIT */
/* See trace.h. */
#include "tests/kit/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/tap.h"

#define RIGHT (1u << CAP_SYS_PTRACE)

/* Also of programs that root executes, which would get it back. */
static bool give_up_right(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE) == 1)
		prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE);
	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	if (data[0].permitted & RIGHT &&
		prctl(PR_CAPBSET_READ, CAP_SYS_PTRACE) == 1)
		return false;
	data[0].effective &= ~RIGHT;
	data[0].permitted &= ~RIGHT;
	data[0].inheritable &= ~RIGHT;
	return syscall(SYS_capset, &head, data) == 0;
}

/* Yama, or a container, may forbid what is dumpable as well. */
static bool reaches_child(void)
{
	pid_t pid = fork();
	bool reaches;

	if (pid == 0)
		for (;;)
			pause();
	reaches = pid > 0 && trace_reaches(pid);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return reaches;
}

bool trace_as_equal(void)
{
	if (!give_up_right()) {
		diag("the right to trace cannot be given up: %m");
		return false;
	}
	if (!reaches_child()) {
		diag("no process may be traced here");
		return false;
	}
	return true;
}

static bool opens(pid_t pid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || (errno != EACCES && errno != EPERM);
}

static bool is_read(pid_t pid)
{
	struct iovec here = {(char[1]) {0}, 1}, there = {(void *)4096, 1};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 ||
	       errno != EPERM;
}

bool trace_reaches(pid_t pid)
{
	const char *by = opens(pid, "mem", O_RDWR)    ? "its memory"
			 : opens(pid, "fd/0", O_PATH) ? "a descriptor"
			 : is_read(pid)               ? "process_vm_readv"
			 : ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 ? "ptrace"
								: NULL;

	if (by)
		diag("process %d is reached by way of %s", (int)pid, by);
	return by;
}
