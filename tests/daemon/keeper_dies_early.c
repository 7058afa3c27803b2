/* SPDX-License-Identifier: MIT */
/*
 * The keeper is killed when a child of it has just been born, and is stopped as
 * soon as it has its name. That child was stopped before it had told the kernel
 * that it is to die with the keeper: so it stayed, for as long as it was
 * stopped. Now a child with that name is prepared for it.
 */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/keeper/keeper.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_MS 20000

static struct keeper keeper;

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);

int __wrap_prctl(int option, ...)
{
	unsigned long value;
	va_list arguments;
	int r;

	va_start(arguments, option);
	value = va_arg(arguments, unsigned long);
	va_end(arguments);
	r = __real_prctl(option, value, 0ul, 0ul, 0ul);
	if (option == PR_SET_NAME)
		raise(SIGSTOP);
	return r;
}

static _Noreturn void be_keeper(void)
{
	struct msg_loader loader = {.domain = 0};
	int sock, end;

	keeper_fork_loader(&keeper, &loader, &sock, &end);
	_exit(1);
}

/* The keeper's child; -1: there is none. */
static pid_t child_of(pid_t pid)
{
	for (int i = 0; i < PATIENCE_MS; i++) {
		pid_t child = child_named(pid, "tarn-loader");

		if (child > 0)
			return child;
		usleep(1000);
	}
	return -1;
}

int main(void)
{
	struct pollfd p = {.events = POLLIN};
	pid_t pid = fork(), child;

	if (pid == 0)
		be_keeper();
	child = child_of(pid);
	p.fd = child > 0 ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
	if (p.fd < 0)
		bail("the keeper forked no loader");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	is_int(1, poll(&p, 1, PATIENCE_MS),
		"a loader that was stopped at its birth ends with the keeper");
	kill(child, SIGKILL);
	poll(&p, 1, PATIENCE_MS);
	fd_close(p.fd);
	return done(1);
}
