/* SPDX-License-Identifier: MIT */
/*
 * The kernel's notification of stalls arrives: processes in a cgroup too small
 * for the file that they read wait for memory nearly all the time.
 *
 * The kernel weighs stalls by how busy each CPU is: one process that stalls
 * does not count on a machine whose other CPUs work. So there are several for
 * each CPU. The kernel also counts the stalls without notifying: if it counts
 * none, the test cannot expect a notification.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fd.h"
#include "daemon/loop/loop.h"
#include "daemon/loop/psi.h"
#include "tests/kit/cgroup.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define MIB (1ull << 20)
#define GROUP (16 * MIB)
#define FILE_SIZE (96 * MIB)
#define EACH_CPU 4
#define THRASHERS_MAX 64
#define LOOK_NS 100000000ull
#define WINDOW_LOOKS 20         /* in two seconds, as the trigger has it, */
#define WINDOW_NS 2500000000ull /* or little more: looks may come late, */
#define WINDOW_US 300000        /* twice what it asks for: a stall */
#define LATE_LOOKS 100          /* by then it must have been told */
#define PATIENCE_LOOKS 600      /* a minute */

static struct loop *loop;
static int stalls;
static int looks, stalled_at; /* the latter as the kernel counts */
static long totals[PATIENCE_LOOKS + 1];
static uint64_t times[PATIENCE_LOOKS + 1];

static void on_stall(void *arg)
{
	stalls++;
	loop_quit(arg);
}

/* Microseconds in which somebody waited for memory; -1. */
static long stalled_us(void)
{
	char text[512];
	const char *total;

	if (fd_read_text("/proc/pressure/memory", text, sizeof(text)) <= 0)
		return -1;
	total = strstr(text, "total=");
	return total ? atol(total + 6) : -1;
}

/* In the window that ends now. */
static bool kernel_counts_stall(void)
{
	int first = looks - WINDOW_LOOKS;

	return first >= 0 && times[looks] - times[first] <= WINDOW_NS &&
	       totals[looks] - totals[first] >= WINDOW_US;
}

static struct deadline next_look;

static void look(void *arg)
{
	totals[looks] = stalled_us();
	times[looks] = loop_now();
	if (!stalled_at && kernel_counts_stall())
		stalled_at = looks;
	if (looks == PATIENCE_LOOKS ||
		(stalled_at && looks == stalled_at + LATE_LOOKS))
		return loop_quit(arg);
	looks++;
	deadline_set(loop_deadlines(loop), &next_look, loop_now() + LOOK_NS);
}

static _Noreturn void thrash(const char *path)
{
	uint64_t word = (uint64_t)getpid();
	int fd = opened(path);
	const volatile unsigned char *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	cgroup_enter();
	/* What the parent has written is charged to the parent. */
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	p = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		_exit(1);
	madvise((void *)p, FILE_SIZE, MADV_RANDOM);
	for (;;) {
		word = word * 6364136223846793005ull + 1442695040888963407ull;
		(void)p[(word >> 33) % (FILE_SIZE / 4096) * 4096];
	}
}

int main(void)
{
	struct psi_watch *pressure;
	int fds[PSI_TRIGGERS];
	pid_t pids[THRASHERS_MAX];
	long n = MIN(EACH_CPU * sysconf(_SC_NPROCESSORS_ONLN), THRASHERS_MAX);
	const char *path;

	if (!cgroup_make(GROUP))
		skip_all("no memory cgroup can be made here (it needs root, "
			 "and the controller)");
	if (loop_new(&loop) < 0)
		bail("no loop");
	for (unsigned int i = 0; i < PSI_TRIGGERS; i++)
		fds[i] = psi_open(i);
	pressure = psi_watch(loop, fds, on_stall, loop);
	if (!pressure) {
		loop_free(loop);
		cgroup_remove();
		skip_all("the kernel does not let its pressure be watched");
	}
	path = made_file("file", FILE_SIZE, 1);
	fflush(stdout);
	for (long i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			thrash(path);
	}
	look(loop);
	loop_run(loop);
	for (long i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	if (stalls || stalled_at)
		ok(stalls > 0, "the kernel reports a stall");
	else
		skip(1, "the kernel has counted no stall in a minute");
	psi_unwatch(pressure);
	for (unsigned int i = 0; i < PSI_TRIGGERS; i++)
		fd_close(fds[i]);
	loop_free(loop);
	ok(cgroup_remove(), "the group is removed");
	remove_files();
	return done(2);
}
