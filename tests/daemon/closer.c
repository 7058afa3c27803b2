/* SPDX-License-Identifier: MIT */
/*
 * The processes that close descriptors for a server are killed, as the kernel
 * does when memory is short: one that waits for work, and one in a close()
 * that hangs. Others take their places: later descriptors are closed, and no
 * descriptor that is gone counts as still to be closed. And the descriptors
 * that are closed when the server has ended, with and without /proc; the last
 * process to use its table, which may hang in a close(), is none of its threads.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/futex.h>
#include <linux/io_uring.h>

#include "daemon/loop/closer.h"
#include "daemon/loop/closer_end.h"
#include "tests/kit/linger.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60.0
#define NAP_US 5000

/* ---- the processes ------------------------------------------------------- */

static void no_memory(void *arg)
{
	(void)arg;
}

/* All of them: on a busy machine there may be a second one. How many. */
static int kill_closers(void)
{
	pid_t launcher = child_named(getpid(), "tarn-closer");
	char path[64];
	FILE *children;
	int n = 0, pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", launcher,
		launcher);
	children = fopen(path, "re");
	while (children && fscanf(children, "%d", &pid) == 1)
		n += kill(pid, SIGKILL) == 0;
	if (children)
		fclose(children);
	return n;
}

/* A new pipe's end is given to the closer; the other end. */
static int give_pipe(struct closer *closer)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	closer_close(closer, ends[1]);
	return ends[0];
}

static bool is_closed(int end)
{
	struct pollfd p = {.fd = end};
	bool yes = poll(&p, 1, (int)(PATIENCE_S * 1000)) == 1;

	close(end);
	return yes;
}

static bool becomes_idle(const struct closer *closer)
{
	double end = seconds() + PATIENCE_S;

	while (!closer_is_idle(closer) && seconds() < end)
		usleep(NAP_US);
	return closer_is_idle(closer);
}

/* Somebody is in its close(): the number is free before that waits. */
static bool is_begun(int fd)
{
	double end = seconds() + PATIENCE_S;

	while (fcntl(fd, F_GETFD) >= 0 && seconds() < end)
		usleep(NAP_US);
	return fcntl(fd, F_GETFD) < 0;
}

static void test_idle(struct closer *closer)
{
	ok(is_closed(give_pipe(closer)), "a closer closes a descriptor");
	ok(becomes_idle(closer), "no descriptor is left to be closed");
	ok(kill_closers() > 0, "closers that wait for work are killed");
	ok(is_closed(give_pipe(closer)),
		"a descriptor is closed after the closers were killed");
	ok(becomes_idle(closer),
		"no descriptor is left to be closed after that");
}

static void test_hanging(struct closer *closer)
{
	int fd = lingering(), end;

	if (fd < 0) {
		skip(6, "no TCP on the loopback interface");
		return;
	}
	closer_close(closer, fd);
	ok(is_begun(fd), "a lingering socket is being closed");
	ok(closer_poll(closer, 1) > 1,
		"a closer that hangs has a deadline to be checked");
	end = give_pipe(closer);
	ok(!closer_is_idle(closer),
		"the lingering socket and those behind it are not closed");
	ok(kill_closers() > 0,
		"closers are killed, one of them in a close() that hangs");
	ok(is_closed(end),
		"descriptors behind the hanging one are closed afterwards");
	ok(becomes_idle(closer),
		"the descriptor of the killed closer counts as closed");
	let_go();
}

/* Whatever it does when it is killed: no descriptor is waited for in vain. */
static void test_often(struct closer *closer)
{
	int ends[200], closed = 0;

	for (int i = 0; i < 200; i++) {
		ends[i] = give_pipe(closer);
		kill_closers();
	}
	ok(becomes_idle(closer),
		"closers are killed 200 times while they work");
	for (int i = 0; i < 200; i++) {
		struct pollfd p = {.fd = ends[i]};

		closed += poll(&p, 1, 0) == 1;
		close(ends[i]);
	}
	/* What one had taken and not begun with stays open. */
	diag("%d of 200 descriptors were closed", closed);
	ok(is_closed(give_pipe(closer)),
		"a descriptor is closed after 200 killed closers");
}

/* ---- the end ------------------------------------------------------------ */

enum { PIPE, MEMORY, RING, OWN_SOCKET, CLIENT_SOCKET, DEVICE, KINDS };

static bool hide_proc(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/proc", "tmpfs", 0, NULL) == 0;
}

/* A bit for each kind that is closed; 0: they could not be had. */
static int what_ends(int client)
{
	struct io_uring_params params = {0};
	int ends[2], pair[2], fds[KINDS], closed = 0;

	if (pipe(ends) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		return 0;
	fds[PIPE] = ends[1];
	fds[MEMORY] = memfd_create("memory", MFD_ALLOW_SEALING);
	fds[RING] = (int)syscall(SYS_io_uring_setup, 4, &params);
	fds[OWN_SOCKET] = pair[0];
	fds[CLIENT_SOCKET] = client;
	fds[DEVICE] = open("/dev/zero", O_RDONLY);
	closer_end(getpid());
	for (int i = 0; i < KINDS; i++)
		closed |= (fcntl(fds[i], F_GETFD) < 0) << i;
	return closed;
}

/* In a process of its own, whose status says it: its pipes are closed. */
static void test_end(bool with_proc)
{
	const int wanted =
		1 << PIPE | 1 << MEMORY | 1 << RING | 1 << OWN_SOCKET;
	int pair[2], status = 0;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		bail("a pair of sockets: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(with_proc || hide_proc() ? what_ends(pair[0]) : 0xff);
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 0xff)
		skip(1, "only root can do without /proc");
	else
		is_int(wanted, WEXITSTATUS(status),
			"memory, rings, pipes and own sockets are closed at "
			"the end, %s /proc",
			with_proc ? "with" : "without");
	close(pair[0]);
	close(pair[1]);
}

/* ---- the last user of the table ------------------------------------------ */

enum { ENDS = 20, LOCKS = 2048 /* as many as the kernel looks at */ };

/* A thread that takes some time to end: the kernel looks whether it holds so
 * many locks, each in a page that nobody has touched, before it gives up the
 * thread's table of descriptors. */
static void *end_slowly(void *arg)
{
	static struct robust_list_head head;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *areas = mmap(NULL, 2 * LOCKS * page, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct robust_list *last = &head.list;

	if (areas == MAP_FAILED)
		_exit(1);
	for (size_t i = 0; i < LOCKS; i++) {
		last->next = (void *)(areas + i * page);
		last = last->next;
	}
	last->next = &head.list;
	head.futex_offset = (long)(LOCKS * page);
	syscall(SYS_set_robust_list, &head, sizeof(head));
	if (write(*(int *)arg, "", 1) == 1)
		pause();
	_exit(1);
}

static _Noreturn void be_owner(int ready)
{
	pthread_t thread;

	if (closers_begin(1, no_memory, NULL) < 0 ||
		pthread_create(&thread, NULL, end_slowly, &ready) != 0)
		_exit(1);
	for (;;)
		pause();
}

static int pidfd_of(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		bail("a pidfd of %d: %m", (int)pid);
	return fd;
}

/* It takes its name soon after it began. */
static pid_t launcher_of(pid_t owner)
{
	double end = seconds() + PATIENCE_S;
	pid_t pid;

	while ((pid = child_named(owner, "tarn-closer")) <= 0 &&
		seconds() < end)
		usleep(1000);
	return pid;
}

/* An owner is killed: does its launcher end after all of its threads? */
static bool launcher_is_last(void)
{
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		bail("a pipe: %m");
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		be_owner(ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		bail("a process with closers cannot be started");
	close(ready[0]);
	/* The launcher is looked at before the owner is. */
	p[0].fd = pidfd_of(launcher_of(pid));
	p[1].fd = pidfd_of(pid);
	kill(pid, SIGKILL);
	poll(p, 1, -1);
	poll(p, 2, 0);
	close(p[0].fd);
	close(p[1].fd);
	waitpid(pid, NULL, 0);
	return p[1].revents;
}

static void test_last(void)
{
	int n = 0;

	for (int i = 0; i < ENDS; i++)
		n += launcher_is_last();
	is_int(ENDS, n, "a launcher ends after the last thread of its owner");
}

int main(void)
{
	struct closer *closer;

	test_end(true);
	test_end(false);
	test_last();
	if (closers_begin(1, no_memory, NULL) < 0)
		bail("closers cannot be started");
	closer = closer_get(0);
	test_idle(closer);
	test_hanging(closer);
	test_often(closer);
	return done(16);
}
