/* SPDX-License-Identifier: MIT */
#include "tests/kit/stepped.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/tap.h"

/* Shared with the child: it has done what it is to do. */
static _Atomic bool *through;

static void share(void)
{
	if (!through)
		through = mmap(NULL, sizeof(*through), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (through == MAP_FAILED)
		bail("no memory");
	atomic_store(through, false);
}

pid_t stepped_start(void (*call)(void))
{
	int status = 0;
	pid_t pid;

	share();
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(3);
		raise(SIGSTOP);
		call();
		atomic_store(through, true);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip_all("a process cannot be traced here");
	if (!WIFSTOPPED(status))
		bail("the child did not stop: status %d", status);
	return pid;
}

bool stepped_go(pid_t pid, int steps)
{
	for (int i = 0; i < steps && !atomic_load(through); i++) {
		int status = 0;

		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
			skip_all("a process cannot be stepped here: %m");
		waitpid(pid, &status, 0);
		if (!WIFSTOPPED(status))
			bail("the child ended with status %d", status);
	}
	return !atomic_load(through);
}

void stepped_finish(pid_t pid)
{
	int status = 0;

	ptrace(PTRACE_CONT, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status))
		bail("the child ended with status %d", status);
}

void stepped_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
