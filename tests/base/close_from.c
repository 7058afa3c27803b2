/* SPDX-License-Identifier: MIT */
/*
 * A child of the keeper must not keep what is another's: a loader that has a
 * client's socket, or the pipe of another loader, keeps these from ending.
 * Where a sandbox refuses close_range(), all is closed one by one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

#define FIRST 20 /* above whatever is open here */
#define CANNOT 77

static int refuse_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = ARRAY_SIZE(code), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: its exit status. */
static int closes(bool refused)
{
	if (refused && refuse_close_range() < 0)
		return CANNOT;
	if (refused && close_range(FIRST, ~0u, 0) == 0)
		return CANNOT;
	if (dup2(0, FIRST - 1) < 0)
		return CANNOT;
	/* With gaps, and more than one reading of the folder tells of. */
	for (int i = 0; i < 200; i++)
		if (i % 7 && dup2(0, FIRST + i) < 0)
			return CANNOT;
	fd_close_from(FIRST);
	for (int i = 0; i < 200; i++)
		if (is_open(FIRST + i))
			return 1;
	return is_open(FIRST - 1) && is_open(0) ? 0 : 2;
}

static void test_closes(bool refused, const char *what)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(closes(refused));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("no child: %m");
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		skip(1, "%s: cannot be arranged here", what);
	else
		is_int(0, status, "the child ends well: %s", what);
}

int main(void)
{
	if (!is_open(0))
		bail("stdin is closed");
	test_closes(false, "all descriptors from one on are closed");
	test_closes(true, "all are closed where close_range() is refused");
	return done(2);
}
