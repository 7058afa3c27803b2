/* SPDX-License-Identifier: MIT */
/* See command_child.h. */
#include "tests/kit/command_child.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/kit/tap.h"

struct command_child command_child_prepare(void)
{
	int ask[2], answer[2];

	if (pipe2(ask, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0)
		bail("pipe: %m");
	return (struct command_child) {
		.ask = ask[1], .hear = answer[0], .its = {ask[0], answer[1]}};
}

void command_child_forked(
	struct command_child *told, pid_t pid, void (*be)(int ask, int answer))
{
	told->pid = pid;
	if (pid == 0) {
		/* Or it would never hear that there is no other letter. */
		close(told->ask);
		be(told->its[0], told->its[1]);
		_exit(0);
	}
	close(told->its[0]);
	close(told->its[1]);
}

int32_t tell(const struct command_child *told, char what)
{
	int32_t number = 0;

	if (write(told->ask, &what, 1) != 1 ||
		read(told->hear, &number, sizeof(number)) != sizeof(number))
		bail("a child that is told things has ended");
	return number;
}

void command_child_leave(const struct command_child *told)
{
	close(told->ask);
	close(told->hear);
}
