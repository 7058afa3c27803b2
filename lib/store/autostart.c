/* SPDX-License-Identifier: MIT */
/*
 * Starting tarnd from a library, in a foreign process.
 *
 * The daemon must inherit nothing of the host process (descriptors, session,
 * folder, signal handlers, standard streams, environment; the daemon itself
 * undoes the rest, daemon/keeper/inherited.h), and the host must not notice the
 * start: the processes are made without an exit signal, so that no SIGCHLD
 * comes and no wait() of the host returns them. The daemon's stderr is a memfd
 * of fixed size: it contains the reason of a failed start, keeps no terminal
 * and no pipe open, and cannot grow.
 */
#include "lib/store/autostart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "lib/store/daemon_environment.h"
#include "lib/store/daemon_path.h"

#define DEADLINE_MS 10000 /* a loaded machine starts a program in less */
#define STARTS_MAX 3      /* a daemon may lose to another that is just ending */
#define RESTART_MS 200    /* by then the winner of a race listens */
#define GIVE_UP_MS 1000   /* after the last one has ended */
/* The same if it wrote nothing: it found another daemon that serves the path,
 * but whose socket was removed, and which checks that every two seconds. */
#define GIVE_UP_MUTE_MS 5000
#define NAP_MAX_MS 50
#define SAID_MAX 4096

/* ---- before the fork ------------------------------------------------- */

bool autostart_forbidden(void)
{
	const char *value = secure_getenv("TARN_AUTOSTART");

	return value && strcmp(value, "0") == 0;
}

/* The daemon changes its folder, so its paths must not be relative. */
static int make_absolute(const char *path, char ret[SOCKET_PATH_MAX])
{
	char cwd[4096] = "";
	int n;

	if (path[0] != '/' && !getcwd(cwd, sizeof(cwd)))
		return tarn_fail(errno, "socket %s: the current folder: %s",
			path, tarn_errno_text(errno));
	n = snprintf(
		ret, SOCKET_PATH_MAX, "%s%s%s", cwd, cwd[0] ? "/" : "", path);
	if (n >= SOCKET_PATH_MAX)
		return tarn_fail(ENAMETOOLONG,
			"socket %.60s...: a path of %d bytes, %d are the most",
			path, n, SOCKET_PATH_MAX - 1);
	return 0;
}

/* A file for stderr that no amount of output can overflow. */
static int make_stderr_file(int *ret)
{
	_cleanup_fd_ int fd = -1;
	int r = file_limit_check(SAID_MAX);

	if (r < 0)
		return r;
	fd = memfd_create("tarnd-stderr", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, SAID_MAX) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return tarn_fail(errno, "memfd for tarnd's messages: %s",
			tarn_errno_text(errno));
	*ret = fd_dup(fd);
	return *ret < 0 ? tarn_fail(-*ret, "dup: %s", tarn_errno_text(*ret))
			: 0;
}

/* ---- the children ---------------------------------------------------- */

/* What the first child says, in memory that it shares with us. */
struct news {
	pid_t pid;        /* of the daemon; 0 if there is none */
	int error;        /* errno of the call that failed */
	const char *call; /* NULL: the start of the program */
};

struct plan {
	const char *daemon;
	char *const *argv;
	char *const *environment;
	int null_fd, said_fd;
	struct news *news;
};

/* fork without an exit signal, and without atfork handlers, which are not meant
 * for a child that only calls exec. */
static pid_t quiet_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
}

/* From here to exec only calls that are safe in the fork of a threaded
 * process. */
static _Noreturn void become_daemon(const struct plan *plan, int error_fd)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	sigset_t none;
	int error;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &plain, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/") == 0 && dup2(plan->null_fd, 0) >= 0 &&
		dup2(plan->null_fd, 1) >= 0 && dup2(plan->said_fd, 2) >= 0 &&
		syscall(SYS_close_range, 3U, ~0U, 4U /* CLOEXEC */) == 0)
		execve(plan->daemon, plan->argv, plan->environment);
	error = errno;
	if (write(error_fd, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* Starts the daemon; errno of what failed, also in the child: a successful exec
 * ends the pipe. It is made here, where there is one thread: in the host another
 * one may fork at any moment, and that child would have its end open, too. */
static int start_daemon(
	const struct plan *plan, pid_t *ret_pid, const char **ret_call)
{
	int ends[2], out, error = 0;

	*ret_call = "pipe";
	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	*ret_call = "dup";
	/* Above 2, where the daemon's own streams go. */
	out = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
	if (out < 0)
		return errno;
	*ret_call = "fork";
	*ret_pid = quiet_fork();
	if (*ret_pid == 0)
		become_daemon(plan, out);
	if (*ret_pid < 0)
		return errno;
	*ret_call = NULL;
	close(ends[1]);
	close(out);
	return read(ends[0], &error, sizeof(error)) < 0 ? errno : error;
}

static _Noreturn void become_parent(const struct plan *plan)
{
	pid_t pid = 0;

	setsid();
	plan->news->error = start_daemon(plan, &pid, &plan->news->call);
	plan->news->pid = MAX(pid, 0);
	_exit(0);
}

/* ---- starting -------------------------------------------------------- */

static int launch(const struct plan *plan)
{
	sigset_t all, old;
	pid_t pid;
	int error;

	/* No signal handler of the host may run in a child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = quiet_fork();
	if (pid == 0)
		become_parent(plan);
	error = errno;
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid < 0 ? tarn_fail(error, "starting tarnd: fork: %s",
				 tarn_errno_text(error))
		       : 0;
}

/* What came of it. */
static int read_news(
	const struct news *news, const char *daemon, pid_t *ret_pid)
{
	*ret_pid = news->pid;
	if (news->call)
		return tarn_fail(news->error, "starting tarnd: %s: %s",
			news->call, tarn_errno_text(news->error));
	if (news->error)
		return tarn_fail(news->error,
			"starting the daemon %s: %s; name another in "
			"TARN_DAEMON",
			daemon, tarn_errno_text(news->error));
	return 0;
}

static int launch_and_see(struct plan *plan, pid_t *ret_pid)
{
	int r;

	plan->news = mmap(NULL, sizeof(*plan->news), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (plan->news == MAP_FAILED)
		return tarn_fail(errno, "starting tarnd: a page: %s",
			tarn_errno_text(errno));
	r = launch(plan);
	if (r >= 0)
		r = read_news(plan->news, plan->daemon, ret_pid);
	munmap(plan->news, sizeof(*plan->news));
	return r;
}

static int start_once(struct autostart *start)
{
	char *const argv[] = {"tarnd", "--auto", "--socket", start->path, NULL};
	_cleanup_fd_ int null_fd = -1;
	_cleanup_free_ char **environment = daemon_environment();
	struct plan plan = {.daemon = start->daemon,
		.argv = argv,
		.environment = environment};
	pid_t pid = 0;
	int r;

	if (!environment)
		return tarn_fail(ENOMEM, "starting tarnd: out of memory");
	start->said_fd = fd_close(start->said_fd);
	r = make_stderr_file(&start->said_fd);
	if (r < 0)
		return r;
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return tarn_fail(errno, "starting tarnd: /dev/null: %s",
			tarn_errno_text(errno));
	plan.null_fd = null_fd;
	plan.said_fd = start->said_fd;
	r = launch_and_see(&plan, &pid);
	if (r < 0)
		return r;
	start->started++;
	start->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	return 0;
}

int autostart_begin(struct autostart *start, const char *path)
{
	int r;

	*start = (struct autostart) {
		.pidfd = -1,
		.said_fd = -1,
		.nap_ms = 1,
		.deadline = clock_ms() + DEADLINE_MS,
	};
	start->daemon = daemon_path(start->daemon_space);
	r = make_absolute(path, start->path);
	if (r >= 0)
		r = start_once(start);
	start->ended_at = clock_ms();
	if (r < 0)
		autostart_end(start);
	return r;
}

/* Has it written nothing to stderr? */
static bool is_mute(const struct autostart *start)
{
	char first = 0;

	return fd_pread(start->said_fd, &first, 1, 0) != 1 || !first;
}

/* ---- waiting --------------------------------------------------------- */

bool autostart_again(struct autostart *start)
{
	struct pollfd p = {.fd = start->pidfd, .events = POLLIN};

	/* poll ignores a negative descriptor: then this is only a nap. */
	if (poll(&p, 1, start->nap_ms) > 0) {
		start->pidfd = fd_close(start->pidfd);
		start->ended_at = clock_ms();
	}
	start->nap_ms = MIN(start->nap_ms * 2, NAP_MAX_MS);
	if (clock_ms() >= start->deadline)
		return false;
	if (start->pidfd >= 0)
		return true;
	if (start->started == STARTS_MAX)
		return clock_ms() <
		       start->ended_at +
			       (is_mute(start) ? GIVE_UP_MUTE_MS : GIVE_UP_MS);
	if (clock_ms() < start->ended_at + RESTART_MS)
		return true;
	return start_once(start) >= 0;
}

/* The last line that it wrote, without the program's name. */
static void last_words(const struct autostart *start, char *text, size_t size)
{
	char said[SAID_MAX + 1], *line = said, *end;
	ssize_t n = start->said_fd < 0
			    ? -1
			    : fd_pread(start->said_fd, said, SAID_MAX, 0);

	said[MAX(n, 0)] = '\0';
	end = said + strlen(said);
	while (end > said && end[-1] == '\n')
		*--end = '\0';
	if (strrchr(said, '\n'))
		line = strrchr(said, '\n') + 1;
	if (strncmp(line, "tarnd: ", 7) == 0)
		line += 7;
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	snprintf(text, size, "%s", line);
}

int autostart_failed(struct autostart *start)
{
	char words[300];

	last_words(start, words, sizeof(words));
	if (start->pidfd < 0)
		return tarn_fail(ECONNREFUSED,
			"%s was started %d times for %s, and ended%s%s",
			start->daemon, start->started, start->path,
			words[0] ? ": " : " without a word", words);
	return tarn_fail(ETIMEDOUT,
		"%s was started for %s and does not answer after %d s%s%s",
		start->daemon, start->path, DEADLINE_MS / 1000,
		words[0] ? ": " : "", words);
}

void autostart_end(struct autostart *start)
{
	start->pidfd = fd_close(start->pidfd);
	start->said_fd = fd_close(start->said_fd);
}
