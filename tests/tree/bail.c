/* SPDX-License-Identifier: MIT */
/*
 * A test that bails out leaves no daemon and no file behind, which would be
 * reported as faults of their own; a child that bails out leaves its parent's
 * alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"

static struct seen {
	pid_t daemon;
	char folder[300];
	int grandchild; /* its status */
	bool spared;    /* by it */
} * seen;

/* Its words are not this test's. */
static _Noreturn void give_up(void)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	fflush(stdout);
	dup2(null, 1);
	bail("for a try");
}

static _Noreturn void run_and_give_up(void)
{
	struct daemon daemon;
	char path[400];
	FILE *file;
	pid_t pid;

	daemon_start(&daemon, "s", NULL);
	seen->daemon = daemon.pid;
	snprintf(seen->folder, sizeof(seen->folder), "%s", test_tmpdir());
	snprintf(path, sizeof(path), "%s/file", seen->folder);
	file = fopen(path, "we");
	if (!file || fclose(file) != 0)
		bail("%s: %m", path);
	pid = fork();
	if (pid == 0)
		give_up();
	waitpid(pid, &seen->grandchild, 0);
	seen->spared = kill(seen->daemon, 0) == 0 && access(path, F_OK) == 0;
	give_up();
}

int main(void)
{
	int status = 0;
	pid_t pid;

	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED)
		bail("mmap: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_and_give_up();
	waitpid(pid, &status, 0);
	is_int(255,
		WIFEXITED(seen->grandchild) ? WEXITSTATUS(seen->grandchild)
					    : -1,
		"a child bails out");
	ok(seen->spared, "a child that bails out leaves its parent's files");
	is_int(255, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		"the parent gives up");
	ok(kill(seen->daemon, 0) < 0 && errno == ESRCH, "its daemon is gone");
	ok(access(seen->folder, F_OK) < 0 && errno == ENOENT,
		"and its folder with all that was in it");
	return done(5);
}
