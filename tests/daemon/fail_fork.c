/* SPDX-License-Identifier: MIT */
/*
 * A descriptor that a child of the keeper is to keep cannot be duplicated: by
 * fcntl() or by dup3(), each time once, in each kind of child. That child says
 * so and ends, rather than work without the descriptor or with another one of
 * that number. Nothing of it stays open: the keeper is told by the end of its
 * socket, and has as many descriptors as before.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/keeper.h"
#include "tests/kit/daemon_helper.h"
#include "tests/kit/tap.h"
#include "tests/kit/witness.h"

#define PATIENCE_S 60
#define SEGMENT (2u << 20)

/* ---- the call that fails ------------------------------------------------- */

static pid_t test_pid;
static int left; /* calls of a child until the one that fails; 0: none does */

static bool is_denied(void)
{
	if (getpid() == test_pid || !left || --left)
		return false;
	errno = EMFILE;
	return true;
}

/* By whichever name the headers have it. */
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

static int control(int fd, int command, va_list arguments)
{
	long argument = va_arg(arguments, long);

	if (command == F_DUPFD_CLOEXEC && is_denied())
		return -1;
	return __real_fcntl(fd, command, argument);
}

int __wrap_fcntl(int fd, int command, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, command);
	r = control(fd, command, arguments);
	va_end(arguments);
	return r;
}

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list arguments;
	int r;

	va_start(arguments, command);
	r = control(fd, command, arguments);
	va_end(arguments);
	return r;
}

int __real_dup3(int from, int to, int flags);
int __wrap_dup3(int from, int to, int flags);

int __wrap_dup3(int from, int to, int flags)
{
	return is_denied() ? -1 : __real_dup3(from, to, flags);
}

/* ---- the children -------------------------------------------------------- */

static struct keeper keeper;
static char log_path[300];
static int segment = -1;
static void *mapped;

/* Each: the keeper's end of the child's socket; -1: it has none. */
static int fork_server(void)
{
	if (keeper_fork_server(&keeper) < 0)
		bail("%s", tarn_fail_message());
	return keeper.server.sock;
}

static int fork_dropper(void)
{
	int sock = keeper_fork_dropper(&keeper);

	if (sock < 0)
		bail("%s", tarn_fail_message());
	return sock;
}

static int fork_loader(void)
{
	struct msg_loader loader = {.domain = 0};
	int sock, end;

	if (keeper_fork_loader(&keeper, &loader, &sock, &end) < 0)
		bail("%s", tarn_fail_message());
	close(end);
	return sock;
}

static int fork_populator(void)
{
	const struct keeper_segment s = {
		.mapped = {.addr = mapped, .size = SEGMENT}, .fd = segment};

	if (keeper_fork_populator(&keeper, &s) < 0)
		bail("%s", tarn_fail_message());
	return -1;
}

/* Nobody has the other end. */
static bool is_ended(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};

	return sock < 0 ||
	       (poll(&p, 1, PATIENCE_S * 1000) == 1 && p.revents & POLLHUP);
}

/* Of the only child; -1: it had to be killed. */
static int exit_status(const char *title)
{
	double end = seconds() + PATIENCE_S;
	pid_t pid = 0;
	int status = 0;

	while (!pid && seconds() < end) {
		usleep(1000);
		pid = waitpid(-1, &status, WNOHANG);
	}
	if (pid < 0)
		bail("no child was forked: %m");
	if (!pid) {
		kill(child_named(test_pid, title), SIGKILL);
		waitpid(-1, &status, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct kind {
	const char *what, *title;
	int (*begin)(void);
	int n; /* descriptors that it keeps */
};

static void deny(const struct kind *kind, int n)
{
	const char *what = kind->what, *call = n <= kind->n ? "fcntl" : "dup3";
	unsigned logged = daemon_logged(log_path, "child_failed");
	int fds = count_fds(test_pid), sock;

	left = n;
	sock = kind->begin();
	left = 0;
	ok(is_ended(sock), "no end of the socket stays open: %s, %s", what,
		call);
	fd_close(sock);
	is_int(EMFILE, exit_status(kind->title),
		"the child does not begin: %s, %s", what, call);
	is_int(logged + 1, daemon_logged(log_path, "child_failed"),
		"the child logs why: %s, %s", what, call);
	is_int(fds, count_fds(test_pid),
		"the keeper has as many descriptors as before: %s, %s", what,
		call);
}

/* Three for stdio, its socket, and the pidfd that its launcher waits for; count_fds
 * sees "." and ".." as well. */
static void test_none_denied(void)
{
	double end = seconds() + PATIENCE_S;
	int fds = count_fds(test_pid), sock = fork_dropper(), seen;
	pid_t pid;

	while ((pid = child_named(test_pid, "tarn-dropper")) <= 0 &&
		seconds() < end)
		usleep(1000);
	while ((seen = count_fds(pid)) != 7 && seconds() < end)
		usleep(1000);
	is_int(7, seen, "a child keeps stdio and its descriptors alone");
	close(sock);
	is_int(0, exit_status("tarn-dropper"),
		"a child with its descriptor works");
	is_int(fds, count_fds(test_pid), "the keeper has as many descriptors");
}

int main(void)
{
	static const struct kind kinds[] = {
		{"a server", "tarn-server", fork_server, 1},
		{"a loader", "tarn-loader", fork_loader, 2},
		{"a populator", "tarn-populate", fork_populator, 1},
	};

	test_pid = getpid();
	snprintf(log_path, sizeof(log_path), "%s/log", test_tmpdir());
	segment = memfd_create("segment", MFD_CLOEXEC);
	if (segment < 0 || ftruncate(segment, SEGMENT) < 0 ||
		!freopen(log_path, "a", stderr))
		bail("%s: %m", log_path);
	mapped = mmap(
		NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
	if (mapped == MAP_FAILED)
		bail("mmap: %m");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (int n = 1; n <= 2 * kinds[i].n; n++)
			deny(&kinds[i], n);
	test_none_denied();
	munmap(mapped, SEGMENT);
	close(segment);
	unlink(log_path);
	return done(4 * 8 + 3);
}
