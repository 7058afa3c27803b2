/* SPDX-License-Identifier: MIT */
/*
 * run COMMAND [ARGUMENT...]: one test, in a place of its own, held to a
 * time-out, and held to account for what it leaves behind.
 *
 * The idea: this process makes itself the reaper of all its descendants, so
 * whatever a test starts, also a daemon that detached itself and hides its
 * environment, is our child in the end, and the kernel's own list of children
 * says what is left. What is left is named in a TAP "Bail out!", and ended.
 *
 * TARN_TEST_TIMEOUT is the time-out in seconds. A script that needs more than
 * others says so in a line of its head: "# Time-out: 900 s". The last line says
 * what the test took of the clock and of the processors, its descendants
 * included; bootstrap lists those that took most.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/kit/leftovers.h"

enum {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	TIMEOUT_S = 1200, /* they make some programs 20 times slower */
#else
	TIMEOUT_S = 900, /* 20 s are 400 where many share the machine */
#endif
	/* A socket's path has 108 bytes; a test needs some 60 of its own. */
	BASE_MAX = 40,
};

static char base[PATH_MAX]; /* the private folder: tmp/ and run/ */

/* A line of its own, whatever the test printed last. */
static _printf_(1, 2) int bail(const char *fmt, ...)
{
	va_list ap;

	printf("\nBail out! ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return 99;
}

/* ---- the test ------------------------------------------------------ */

/* Scripts in Python find what they share. */
static void find_kit(void)
{
	const char *rest = getenv("PYTHONPATH");
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s/tests/kit%s%s", TOP_SRCDIR,
		rest && *rest ? ":" : "", rest ? rest : "");
	setenv("PYTHONPATH", path, 1);
}

static int make_base(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 8];

	if (!tmp || *tmp != '/' || strlen(tmp) > BASE_MAX || access(tmp, W_OK))
		tmp = "/tmp";
	snprintf(base, sizeof(base), "%s/tarn-t.XXXXXX", tmp);
	if (!mkdtemp(base))
		return bail("mkdtemp %s: %s", base, strerror(errno));
	setenv("TARN_TEST_ID", strrchr(base, '/') + 1, 1);
	snprintf(path, sizeof(path), "%s/tmp", base);
	if (mkdir(path, 0700) < 0)
		return bail("mkdir %s: %s", path, strerror(errno));
	setenv("TMPDIR", path, 1);
	setenv("HOME", path, 1);
	snprintf(path, sizeof(path), "%s/run", base);
	if (mkdir(path, 0700) < 0)
		return bail("mkdir %s: %s", path, strerror(errno));
	setenv("XDG_RUNTIME_DIR", path, 1);
	return 0;
}

static void set_path(
	const char *name, const char *folder, const char *rest, bool must_exist)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", folder, rest);
	if (!must_exist)
		setenv(name, path, 1);
	else if (realpath(path, real))
		setenv(name, real, 0);
}

/* Variables of the environment that started us: its system's, and its choice of
 * a store. Not TARN_ENGINE: the suite is run again on another engine by it. */
static const char *const not_ours[] = {"TARN_SOCKET", "TARN_POOL",
	"SLURM_JOB_ID", "NOTIFY_SOCKET", "JOURNAL_STREAM", "LISTEN_PID",
	"LISTEN_FDS", "LISTEN_FDNAMES"};

/* Everything that a test asks the environment; build is two up from here. */
static void set_environment(void)
{
	char build[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);

	for (int up = 0; n > 0 && up < 2; up++)
		*strrchr(build, '/') = 0;
	set_path("top_builddir", build, "", false);
	set_path("top_srcdir", TOP_SRCDIR, "", false);
	find_kit();
	set_path("TARN", build, "/cli/tarn", false);
	set_path("TARN_DAEMON", build, "/daemon/tarnd", false);
	set_path("TARN_TEST_DATA", TOP_SRCDIR, "/../shared/data", true);
	set_path("TARN_TEST_CASES", TOP_SRCDIR, "/../shared/safetensors-cases",
		true);
	setenv("PYTHON", PYTHON_PATH, 0);
	setenv("TARN_AUTOSTART", "0", 1);
	setenv("TARN_DEVICE_MEMFD", "1", 1);
	for (size_t i = 0; i < sizeof(not_ours) / sizeof(*not_ours); i++)
		unsetenv(not_ours[i]);
	setenv("LC_ALL", "C.UTF-8", 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
	setenv("ASAN_OPTIONS", "detect_leaks=1", 0);
	setenv("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1", 0);
}

static pid_t start(char **argv, const sigset_t *old)
{
	const struct rlimit no_core = {0};
	pid_t parent = getpid(), pid = fork();
	int null;

	if (pid)
		return pid;
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(99);
	sigprocmask(SIG_SETMASK, old, NULL);
	/* As from a terminal: who starts us in the background has us ignore
	 * Ctrl-C, and Python leaves that so. */
	signal(SIGINT, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_CORE, &no_core);
	umask(022);
	null = open("/dev/null", O_RDONLY);
	dup2(null, 0);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	execvp(argv[0], argv);
	printf("Bail out! cannot run %s: %s\n", argv[0], strerror(errno));
	fflush(stdout);
	_exit(99);
}

/* Seconds: what the environment says, else the script's head, else ours. */
static int limit_of(const char *script)
{
	const char *said = getenv("TARN_TEST_TIMEOUT");
	char line[100];
	int limit = 0;
	FILE *f;

	if (said)
		return atoi(said);
	f = fopen(script, "re");
	for (int i = 0; f && i < 5 && fgets(line, sizeof(line), f); i++)
		if (sscanf(line, "# Time-out: %d s", &limit) == 1)
			break;
	if (f)
		fclose(f);
	return limit > 0 ? limit : TIMEOUT_S;
}

/* 0 and a wait status; else the verdict: out of time, or interrupted. */
static int await(pid_t pid, const sigset_t *signals, int limit, int *ret_status)
{
	double end = seconds_now() + limit;
	bool ended = false;

	for (;;) {
		double rest = end - seconds_now();
		struct timespec t = {.tv_sec = rest > 0 ? (time_t)rest : 0,
			.tv_nsec = rest > 0 ? (rest - (time_t)rest) * 1e9 : 0};
		int sig;

		left_reap(pid, ret_status, &ended);
		if (ended)
			return 0;
		sig = sigtimedwait(signals, NULL, &t);
		if (sig > 0 && sig != SIGCHLD)
			return bail("interrupted by signal %d", sig);
		if (rest <= 0) {
			bail("timed out after %d s: %s", limit,
				left_processes());
			left_ask_where();
			return 99;
		}
	}
}

static int judge(int status)
{
	const char *left = left_behind();

	if (WIFSIGNALED(status))
		return bail("killed by signal %d (%s)%s%s", WTERMSIG(status),
			strsignal(WTERMSIG(status)),
			left[0] ? ", and left behind: " : "", left);
	if (left[0])
		return bail("left behind: %s", left);
	return WEXITSTATUS(status);
}

static double seconds_of(struct timeval t)
{
	return t.tv_sec + t.tv_usec / 1e6;
}

/* A comment of TAP, on a line of its own, whatever the test printed last. */
static void print_times(double begun)
{
	struct rusage all;

	getrusage(RUSAGE_CHILDREN, &all);
	printf("\n# took %.1f s, %.1f s of CPU\n", seconds_now() - begun,
		seconds_of(all.ru_utime) + seconds_of(all.ru_stime));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double begun = seconds_now();
	sigset_t signals, old;
	int status = 0, r;
	pid_t pid;

	if (argc < 2)
		return bail("usage: run COMMAND [ARGUMENT...]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_environment();
	r = make_base();
	if (r)
		return r;
	left_begin(base);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, &old);
	pid = start(argv + 1, &old);
	if (pid < 0)
		return bail("fork: %s", strerror(errno));
	r = await(pid, &signals, limit_of(argv[argc - 1]), &status);
	if (!r)
		r = judge(status);
	else
		left_kill();
	left_remove();
	print_times(begun);
	return r;
}
