/* SPDX-License-Identifier: MIT */
/*
 * The kernel's word on stalls arrives: a process in a cgroup too small for the
 * file that it reads over and over waits for memory most of its time.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/loop.h"
#include "daemon/pressure.h"
#include "tests/cgroup_kit.h"
#include "tests/tap.h"
#include "tests/witness.h"

#define MIB (1ull << 20)
#define GROUP (16 * MIB)
#define FILE_SIZE (96 * MIB)
#define PATIENCE_NS 20000000000ull

static struct loop *loop;
static int stalls;

static void on_stall(void *arg)
{
	stalls++;
	loop_quit(arg);
}

static void too_long(void *arg)
{
	loop_quit(arg);
}

static _Noreturn void thrash(const char *path)
{
	int fd = opened(path);
	const volatile unsigned char *p;

	cgroup_enter();
	/* What the parent has written is charged to the parent. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	p = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(1);
	for (;;)
		for (uint64_t i = 0; i < FILE_SIZE; i += 4096)
			(void)p[i];
}

int main(void)
{
	struct pressure *pressure;
	int fds[PRESSURE_TRIGGERS];
	const char *path;
	pid_t pid;

	if (!cgroup_make(GROUP))
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	if (loop_new(&loop) < 0)
		bail("no loop");
	for (unsigned int i = 0; i < PRESSURE_TRIGGERS; i++)
		fds[i] = pressure_open(i);
	pressure = pressure_watch(loop, fds, on_stall, loop);
	if (!pressure) {
		loop_free(loop);
		cgroup_remove();
		skip_all("the kernel does not let its pressure be watched");
	}
	path = made_file("file", FILE_SIZE, 1);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		thrash(path);
	loop_timer(loop, loop_now() + PATIENCE_NS, too_long, loop);
	loop_run(loop);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(stalls > 0, "a stall is told of");
	pressure_free(pressure);
	for (unsigned int i = 0; i < PRESSURE_TRIGGERS; i++)
		fd_close(fds[i]);
	loop_free(loop);
	ok(cgroup_remove(), "the group is gone");
	remove_files();
	return done();
}
