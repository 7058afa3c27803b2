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
 * TARN_TEST_TIMEOUT is the time-out in seconds.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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

enum {
	TIMEOUT_S = 120, /* some ten times the slowest test, sanitized */
	GRACE_S = 3,     /* a daemon that was asked to end needs a moment */
	END_S = 10,      /* after SIGKILL: I/O in flight is waited for */
	/* A socket's path has 108 bytes; a test needs some 60 of its own. */
	BASE_MAX = 40,
};

static char base[PATH_MAX]; /* the private folder: tmp/ and run/ */
static char id[16];         /* its last part, also the test's id */
static char left[4096];     /* what was left behind, as a sentence */
static char *shm_before;    /* names in /dev/shm, "/a/b/c/" */

static void leave(const char *fmt, ...)
	__attribute__((__format__(printf, 1, 2)));

static void leave(const char *fmt, ...)
{
	size_t used = strlen(left);
	va_list ap;

	if (used)
		used += snprintf(left + used, sizeof(left) - used, "; ");
	if (used >= sizeof(left))
		return;
	va_start(ap, fmt);
	vsnprintf(left + used, sizeof(left) - used, fmt, ap);
	va_end(ap);
}

static int bail(const char *fmt, ...) __attribute__((__format__(printf, 1, 2)));

/* A line of its own, whatever the test printed last. */
static int bail(const char *fmt, ...)
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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* ---- processes ----------------------------------------------------- */

static pid_t parent_of(pid_t pid)
{
	char path[64], text[512];
	const char *p;
	int fd, parent = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	/* "pid (any name, also with brackets) state ppid ..." */
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z' ||
		sscanf(p + 3, "%d", &parent) != 1)
		return 0;
	return parent;
}

static void command_of(pid_t pid, char *text, size_t size)
{
	char path[64];
	ssize_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	while (n > 0 && !text[n - 1])
		n--;
	text[n > 0 ? n : 0] = 0;
	for (ssize_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] == 127)
			text[i] = ' ';
}

/* Calls fn for each living descendant of ours; returns how many. */
static int each_descendant(void (*fn)(pid_t))
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int count = 0;

	while (proc && (e = readdir(proc))) {
		pid_t pid = atoi(e->d_name), up = pid;

		if (pid <= 0)
			continue;
		for (int depth = 0; up > 1 && up != getpid(); depth++)
			up = depth < 64 ? parent_of(up) : 0;
		if (up == getpid() && pid != up) {
			fn(pid);
			count++;
		}
	}
	if (proc)
		closedir(proc);
	return count;
}

static void name_process(pid_t pid)
{
	char text[200];

	command_of(pid, text, sizeof(text));
	leave("process %d (%s)", pid, text);
}

static void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
}

/* Collects the dead; true while any child lives. */
static bool reap(pid_t wanted, int *ret_status, bool *ret_seen)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid <= 0)
			return pid == 0;
		if (pid == wanted) {
			*ret_status = status;
			*ret_seen = true;
		}
	}
}

static bool wait_for_all(double seconds)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	double end = now() + seconds;

	while (reap(-1, NULL, NULL)) {
		if (now() > end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static void kill_all(void)
{
	double end = now() + END_S;

	/* Again and again: a process may fork while we look. */
	do
		each_descendant(kill_process);
	while (!wait_for_all(0.1) && now() < end);
}

/* ---- files --------------------------------------------------------- */

static int name_file(
	const char *path, const struct stat *st, int type, struct FTW *at)
{
	size_t n = strlen(path);

	if (type == FTW_D || type == FTW_DP)
		return 0;
	/* An empty lock file stays on purpose: who removes one that another
	 * process has just opened leaves two holders of one lock. */
	if (S_ISREG(st->st_mode) && !st->st_size && n > 5 &&
		!strcmp(path + n - 5, ".lock"))
		return 0;
	leave("file %s (%lld bytes)", path + strlen(base) + 1,
		(long long)st->st_size);
	return 0;
}

static int open_folder(
	const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (type == FTW_D || type == FTW_DNR)
		chmod(path, 0700);
	return 0;
}

static int remove_file(
	const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

static void remove_base(void)
{
	nftw(base, open_folder, 16, FTW_PHYS);
	nftw(base, remove_file, 16, FTW_PHYS | FTW_DEPTH);
}

/* Ours by id, or of nobody's id and new: tests run in parallel. */
static bool shm_is_ours(const char *name)
{
	char part[NAME_MAX + 3];

	if (strstr(name, id))
		return true;
	snprintf(part, sizeof(part), "/%s/", name);
	return strstr(name, "tarn") && !strstr(name, "tarn-t.") &&
	       !strstr(shm_before, part);
}

static void each_shm(void (*fn)(const char *name))
{
	DIR *dir = opendir("/dev/shm");
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			fn(e->d_name);
	if (dir)
		closedir(dir);
}

static void note_shm(const char *name)
{
	size_t used = strlen(shm_before), more = strlen(name) + 2;
	char *all = realloc(shm_before, used + more);

	if (!all)
		abort();
	shm_before = all;
	snprintf(shm_before + used, more, "%s/", name);
}

static void leave_shm(const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "/dev/shm/%s", name);
	if (!shm_is_ours(name) || lstat(path, &st) < 0 ||
		st.st_uid != geteuid())
		return;
	leave("shared memory %s", path);
	if (strstr(name, id))
		unlink(path);
}

/* ---- the test ------------------------------------------------------ */

static int make_base(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX + 8];

	if (!tmp || *tmp != '/' || strlen(tmp) > BASE_MAX || access(tmp, W_OK))
		tmp = "/tmp";
	snprintf(base, sizeof(base), "%s/tarn-t.XXXXXX", tmp);
	if (!mkdtemp(base))
		return bail("mkdtemp %s: %s", base, strerror(errno));
	snprintf(id, sizeof(id), "%s", strrchr(base, '/') + 1);
	setenv("TARN_TEST_ID", id, 1);
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

/* Everything that a test asks the environment; build is two up from here. */
static void set_environment(void)
{
	char build[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", build, sizeof(build) - 1);

	for (int up = 0; n > 0 && up < 2; up++)
		*strrchr(build, '/') = 0;
	set_path("top_builddir", build, "", false);
	set_path("top_srcdir", TOP_SRCDIR, "", false);
	set_path("TARN", build, "/cli/tarn", false);
	set_path("TARN_DAEMON", build, "/daemon/tarnd", false);
	set_path("TARN_TEST_DATA", TOP_SRCDIR, "/../shared/data", true);
	set_path("TARN_TEST_CASES", TOP_SRCDIR, "/../shared/safetensors-cases",
		true);
	setenv("PYTHON", PYTHON_PATH, 0);
	setenv("TARN_AUTOSTART", "0", 1);
	unsetenv("TARN_SOCKET");
	unsetenv("SLURM_JOB_ID");
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

/* 0 and a wait status; else the verdict: out of time, or interrupted. */
static int await(pid_t pid, const sigset_t *signals, int limit, int *ret_status)
{
	double end = now() + limit;
	bool ended = false;

	for (;;) {
		double rest = end - now();
		struct timespec t = {.tv_sec = rest > 0 ? (time_t)rest : 0,
			.tv_nsec = rest > 0 ? (rest - (time_t)rest) * 1e9 : 0};
		int sig;

		reap(pid, ret_status, &ended);
		if (ended)
			return 0;
		sig = sigtimedwait(signals, NULL, &t);
		if (sig > 0 && sig != SIGCHLD)
			return bail("interrupted by signal %d", sig);
		if (rest <= 0) {
			each_descendant(name_process);
			return bail("timed out after %d s: %s", limit, left);
		}
	}
}

static int judge(int status)
{
	if (!wait_for_all(GRACE_S) && !each_descendant(name_process))
		leave("a process that /proc does not show");
	kill_all();
	nftw(base, name_file, 16, FTW_PHYS);
	each_shm(leave_shm);
	if (WIFSIGNALED(status))
		return bail("killed by signal %d (%s)%s%s", WTERMSIG(status),
			strsignal(WTERMSIG(status)),
			left[0] ? ", and left behind: " : "", left);
	if (left[0])
		return bail("left behind: %s", left);
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *limit = getenv("TARN_TEST_TIMEOUT");
	sigset_t signals, old;
	int status = 0, r;
	pid_t pid;

	if (argc < 2)
		return bail("usage: run COMMAND [ARGUMENT...]");
	setvbuf(stdout, NULL, _IOLBF, 0);
	shm_before = strdup("/");
	each_shm(note_shm);
	set_environment();
	r = make_base();
	if (r)
		return r;
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
	r = await(pid, &signals, limit ? atoi(limit) : TIMEOUT_S, &status);
	if (!r)
		r = judge(status);
	else
		kill_all();
	remove_base();
	free(shm_before);
	return r;
}
