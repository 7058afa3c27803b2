/* SPDX-License-Identifier: MIT */
/*
 * No daemon serves the socket: one is started, and only one, however many
 * clients ask at once. It inherits nothing of the process that started it, and
 * that process notices nothing. If it cannot be started the error says why.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/tarn.h>

#include "tests/kit/must.h"
#include "tests/kit/report.h"
#include "tests/kit/tap.h"

#define N_CLIENTS 20

static volatile sig_atomic_t n_sigchld;

static void on_sigchld(int sig)
{
	n_sigchld++;
}

static void test_forbidden(void)
{
	tarn_store *store;
	int r;

	setenv("TARN_AUTOSTART", "0", 1);
	r = tarn_store_open(NULL, NULL, &store);
	ok(r == -ENOENT || r == -ECONNREFUSED, "TARN_AUTOSTART=0 forbids it");
	has_str("tarnd --socket", tarn_error_message(),
		"the error says how to start a daemon");
	is_int(-ENOENT, tarn_store_open("/nowhere/at.all", NULL, &store),
		"TARN_AUTOSTART=0 forbids it also for a named socket");
	has_str("/nowhere/at.all", tarn_error_message(),
		"the error names the socket");
	setenv("TARN_AUTOSTART", "1", 1);
}

static void write_script(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f)
		bail("%s: %s", path, strerror(errno));
	fputs(text, f);
	fclose(f);
	chmod(path, 0700);
}

static void test_failures(void)
{
	char *daemon = strdup(getenv("TARN_DAEMON"));
	char path[300];
	tarn_store *store;

	setenv("TARN_DAEMON", "/no/such/program", 1);
	is_int(-ENOENT, tarn_store_open(NULL, NULL, &store),
		"a daemon program that does not exist is an error");
	has_str("/no/such/program", tarn_error_message(),
		"the error contains '/no/such/program'");
	snprintf(path, sizeof(path), "%s/fails", test_tmpdir());
	write_script(path, "#!/bin/sh\n"
			   "echo first >&2\n"
			   "echo tarnd: the moon is in the way >&2\n"
			   "exit 1\n");
	setenv("TARN_DAEMON", path, 1);
	is_int(-ECONNREFUSED, tarn_store_open(NULL, NULL, &store),
		"a daemon that fails to start is an error");
	has_str("ended: the moon is in the way", tarn_error_message(),
		"the error quotes the last line of the failed daemon");
	unlink(path);
	setenv("TARN_DAEMON", daemon, 1);
	free(daemon);
}

static bool socket_goes(const char *socket)
{
	for (int i = 0; i < 6000 && access(socket, F_OK) == 0; i++)
		usleep(10000);
	return access(socket, F_OK) < 0;
}

static void stop(tarn_store *store, const char *socket)
{
	if (tarn_store_stop(store) < 0)
		diag("stop: %s", tarn_error_message());
	tarn_store_unref(store);
	ok(socket_goes(socket), "a daemon that failed leaves no socket");
}

/* On a slow machine the daemon that wins may not answer in time. */
static int open_patiently(tarn_store **ret)
{
	double end = seconds() + 60;
	int r;

	do {
		r = tarn_store_open(NULL, NULL, ret);
	} while ((r == -ETIMEDOUT || r == -ECONNREFUSED) && seconds() < end);
	return r;
}

/* Each opens at the same moment and says whom it got. */
static void race(int go, int out)
{
	struct tarn_report_daemon status;
	tarn_store *store;
	char c;

	if (read(go, &c, 1) < 0)
		_exit(1);
	if (open_patiently(&store) < 0 || report_daemon(store, &status) < 0) {
		diag("client: %s", tarn_error_message());
		_exit(2);
	}
	if (write(out, &status.instance, 8) != 8)
		_exit(3);
	tarn_store_unref(store);
	_exit(0);
}

static void test_race(void)
{
	int go[2], out[2], n_ok = 0, n_same = 0, status;
	uint64_t first = 0, instance;

	if (pipe(go) < 0 || pipe(out) < 0)
		bail("pipe: %s", strerror(errno));
	for (int i = 0; i < N_CLIENTS; i++) {
		if (fork() == 0) {
			close(go[1]);
			race(go[0], out[1]);
		}
	}
	close(out[1]);
	close(go[0]);
	close(go[1]); /* read returns: all of them go */
	while (read(out[0], &instance, 8) == 8) {
		first = first ? first : instance;
		n_same += instance == first;
	}
	close(out[0]);
	for (int i = 0; i < N_CLIENTS; i++) {
		if (wait(&status) > 0 && status == 0)
			n_ok++;
	}
	is_int(N_CLIENTS, n_ok, "all of %d clients that ask at once are served",
		N_CLIENTS);
	is_int(N_CLIENTS, n_same, "all clients are served by one daemon");
}

static bool link_is(pid_t pid, const char *what, const char *want)
{
	char path[64], seen[300];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	n = readlink(path, seen, sizeof(seen) - 1);
	seen[n > 0 ? n : 0] = '\0';
	if (strcmp(seen, want) != 0)
		diag("%s is %s", path, seen);
	return strcmp(seen, want) == 0;
}

/* An undumpable daemon shows its links to root alone. */
static void test_detached(pid_t pid)
{
	ok(getsid(pid) != getsid(0) && getsid(pid) > 0,
		"the daemon has a session of its own");
	if (geteuid() != 0) {
		skip(4, "an undumpable process shows its links to root only");
		return;
	}
	ok(link_is(pid, "cwd", "/"), "the daemon's working folder is /");
	ok(link_is(pid, "fd/0", "/dev/null"),
		"the daemon's stdin is /dev/null");
	ok(link_is(pid, "fd/1", "/dev/null"),
		"the daemon's stdout is /dev/null");
	ok(!link_is(pid, "fd/100", "/etc/passwd"),
		"the daemon does not inherit a descriptor");
}

static void test_start(void)
{
	struct tarn_report_daemon status = {0}, other = {0};
	tarn_store *store, *second;
	int fd = open("/etc/passwd", O_RDONLY);

	/* What a daemon must not inherit: not even without CLOEXEC. */
	dup2(fd, 100);
	close(fd);
	signal(SIGCHLD, on_sigchld);
	if (!is_int(0, tarn_store_open(NULL, NULL, &store),
		    "a daemon is started by opening a store"))
		bail("%s", tarn_error_message());
	is_int(0, report_daemon(store, &status), "the started daemon answers");
	is_int(0, n_sigchld,
		"the process that started the daemon gets no SIGCHLD");
	is_int(-1, waitpid(-1, NULL, WNOHANG | __WALL),
		"the process that started the daemon has no child");
	test_detached(status.keeper_pid);
	is_str(getenv("TARN_SOCKET"), tarn_store_socket(store),
		"the store has the socket of TARN_SOCKET");
	is_int(0, tarn_store_open(NULL, NULL, &second),
		"a second store opens at the same socket");
	is_int(0, report_daemon(second, &other), "the second store is served");
	ok(status.instance == other.instance,
		"the second store has the same daemon");
	is_int(0, tarn_store_stop(second), "the daemon stops when asked to");
	tarn_store_unref(second);
	tarn_store_unref(store);
	close(100);
	signal(SIGCHLD, SIG_DFL);
}

/* As TARN_SOCKET does: its folder is made, and a daemon started there. */
static void test_named(void)
{
	char path[300];
	tarn_store *store;

	snprintf(path, sizeof(path), "%s/named/n.sock", test_tmpdir());
	if (!is_int(0, tarn_store_open(path, NULL, &store),
		    "a daemon is started at a socket that the caller names"))
		bail("%s", tarn_error_message());
	is_str(path, tarn_store_socket(store),
		"the daemon serves the socket that the caller named");
	stop(store, path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

/* A child that another thread forks while the daemon is started. */
static bool forks;
static pid_t forked;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode = 0;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (forks && strcmp(path, "/dev/null") == 0) {
		forks = false;
		forked = fork();
		if (forked == 0) {
			sleep(300);
			_exit(1);
		}
	}
	return __real_open(path, flags, mode);
}

static void test_forked_meanwhile(void)
{
	tarn_store *store;
	int status = 0;

	forks = true;
	if (!is_int(0, tarn_store_open(NULL, NULL, &store),
		    "a daemon is started while another thread forks"))
		bail("%s", tarn_error_message());
	kill(forked, SIGKILL);
	waitpid(forked, &status, 0);
	ok(!forks && WIFSIGNALED(status),
		"nobody waits until that thread's child ends");
	stop(store, getenv("TARN_SOCKET"));
}

/* The last: there is none from here on. */
static void test_no_null(void)
{
	tarn_store *store;
	int r;

	if (unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/dev", "tmpfs", 0, NULL) < 0) {
		skip(2, "needs root, to hide /dev/null");
		return;
	}
	r = tarn_store_open(NULL, NULL, &store);
	is_int(-ENOENT, r, "no daemon is started without /dev/null");
	has_str("/dev/null", tarn_error_message(), "the error names /dev/null");
}

static void stop_if_any(void)
{
	tarn_store *store;

	for (int i = 0; i < 6000; i++) {
		setenv("TARN_AUTOSTART", "0", 1);
		if (tarn_store_open(NULL, NULL, &store) < 0)
			break;
		/* A daemon that ends already need not answer. */
		may_fail(tarn_store_stop(store));
		tarn_store_unref(store);
		usleep(10000);
	}
	ok(socket_goes(getenv("TARN_SOCKET")),
		"the daemon that was not started leaves no socket");
	setenv("TARN_AUTOSTART", "1", 1);
}

/* Several of those that ask at once start a daemon, and all but one end by
 * themselves. On a slow machine one may come so late that it finds no other, and
 * serves. So those of the race are ours, and it is over when none is left. */
static void expect_orphans(unsigned long yes)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, yes, 0, 0, 0) < 0)
		bail("prctl: %m");
}

static void stop_late_ones(void)
{
	tarn_store *store;

	setenv("TARN_AUTOSTART", "0", 1);
	for (int i = 0; i < 6000; i++) {
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			break;
		usleep(10000);
		if (tarn_store_open(NULL, NULL, &store) < 0)
			continue;
		may_fail(tarn_store_stop(store));
		tarn_store_unref(store);
	}
	setenv("TARN_AUTOSTART", "1", 1);
}

int main(void)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/run/t.sock", test_tmpdir());
	setenv("TARN_SOCKET", path, 1);
	test_forbidden();
	test_failures();
	test_start();
	stop_if_any();
	expect_orphans(1);
	test_race();
	stop_if_any();
	stop_late_ones();
	expect_orphans(0);
	test_named();
	test_forked_meanwhile();
	test_no_null();
	return done(34);
}
