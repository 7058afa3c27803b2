/* SPDX-License-Identifier: MIT */
#include "tests/kit/enemy.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/kit/tap.h"

void become_enemy(uid_t uid)
{
	if (chdir(test_tmpdir()) < 0 || setgroups(0, NULL) < 0 ||
		setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		bail("becoming uid %u: %m", uid);
	/* A change of the uid clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

pid_t begin_hoarder(uid_t uid, void (*take)(void))
{
	int ready[2];
	pid_t pid;
	char c;

	fflush(stdout);
	if (pipe2(ready, O_CLOEXEC) < 0)
		bail("pipe: %m");
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		if (uid != geteuid())
			become_enemy(uid);
		take();
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		bail("the process that keeps what it takes failed");
	close(ready[0]);
	return pid;
}
