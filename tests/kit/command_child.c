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
		.ask = ask[1], .answer = answer[0], .its = {ask[0], answer[1]}};
}

void command_child_forked(
	struct command_child *child, pid_t pid, void (*be)(int ask, int answer))
{
	child->pid = pid;
	if (pid == 0) {
		/* Or it would never see that there is no other letter. */
		close(child->ask);
		be(child->its[0], child->its[1]);
		_exit(0);
	}
	close(child->its[0]);
	close(child->its[1]);
}

int32_t command_child_ask(const struct command_child *child, char what)
{
	int32_t number = 0;

	if (write(child->ask, &what, 1) != 1 ||
		read(child->answer, &number, sizeof(number)) != sizeof(number))
		bail("a child that is given commands has ended");
	return number;
}

void command_child_leave(const struct command_child *child)
{
	close(child->ask);
	close(child->answer);
}
