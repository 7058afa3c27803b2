/* SPDX-License-Identifier: MIT */
/* See told.h. */
#include "tests/told.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/tap.h"

struct told told_prepare(void)
{
	int ask[2], answer[2];

	if (pipe2(ask, O_CLOEXEC) < 0 || pipe2(answer, O_CLOEXEC) < 0)
		bail("pipe: %m");
	return (struct told) {
		.ask = ask[1], .hear = answer[0], .its = {ask[0], answer[1]}};
}

void told_forked(struct told *told, pid_t pid, void (*be)(int ask, int answer))
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

int32_t tell(const struct told *told, char what)
{
	int32_t number = 0;

	if (write(told->ask, &what, 1) != 1 ||
		read(told->hear, &number, sizeof(number)) != sizeof(number))
		bail("a child that is told things has ended");
	return number;
}

void told_leave(const struct told *told)
{
	close(told->ask);
	close(told->hear);
}
