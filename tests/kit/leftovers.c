/* SPDX-License-Identifier: MIT */
/*
 * Finds, names and removes what a test left behind.
 *
 * Processes are our descendants, with any parent at first, since orphans become
 * children of the nearest reaper, and that is us. Files are those in the test's
 * own folder. Shared memory, cgroups and folders that other users may enter
 * have one place for all tests, which run in parallel, so there the test's id
 * in the name decides.
 */
#include "tests/kit/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/kit/cgroup_path.h"
#include "tests/kit/huge_pages.h"

enum {
	/* A daemon that was asked to end needs a moment; where many share the
	 * machine it may be long. TARN_TEST_GRACE says otherwise. */
	GRACE_S = 60,
	END_S = 60, /* after SIGKILL: I/O in flight is waited for */
	TELL_S = 2, /* to say where they are */
};

static const char *base; /* the test's folder */
static const char *id;   /* its last part */
static char *shm_before; /* names in /dev/shm, "/a/b/c/" */
static char left[4096];  /* the sentence */

static _printf_(1, 2) void leave(const char *fmt, ...)
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

double seconds_now(void)
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

static void quit_process(pid_t pid)
{
	kill(pid, SIGQUIT);
}

static void kill_process(pid_t pid)
{
	kill(pid, SIGKILL);
}

/* Collects the dead; true while any child lives. */
bool left_reap(pid_t wanted, int *ret_status, bool *ret_seen)
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
	double end = seconds_now() + seconds;

	while (left_reap(-1, NULL, NULL)) {
		if (seconds_now() > end)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

void left_ask_where(void)
{
	each_descendant(quit_process);
	wait_for_all(TELL_S);
}

void left_kill(void)
{
	double end = seconds_now() + END_S;

	/* Again and again: a process may fork while we look. */
	do
		each_descendant(kill_process);
	while (!wait_for_all(0.1) && seconds_now() < end);
}

/* ---- files --------------------------------------------------------- */

static int name_file(
	const char *path, const struct stat *st, int type, struct FTW *at)
{
	size_t n = strlen(path);

	if (type == FTW_D || type == FTW_DP)
		return 0;
	/* An empty lock file stays on purpose: removing one that another
	 * process has just opened would leave two holders of one lock. */
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

/* ---- places that tests share ------------------------------------------- */

/* A folder where other users are let in cannot lie in ours. */
#define OUTSIDE "/tmp"

static void each_outside(void (*fn)(const char *path))
{
	DIR *dir = opendir(OUTSIDE);
	struct dirent *e;
	char path[PATH_MAX];

	while (dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, id, strlen(id)) != 0 ||
			e->d_name[strlen(id)] != '-')
			continue;
		snprintf(path, sizeof(path), OUTSIDE "/%s", e->d_name);
		fn(path);
	}
	if (dir)
		closedir(dir);
}

static void leave_outside(const char *path)
{
	leave("folder %s", path);
}

static void remove_tree(const char *path)
{
	nftw(path, open_folder, 16, FTW_PHYS);
	nftw(path, remove_file, 16, FTW_PHYS | FTW_DEPTH);
}

/* A memory cgroup that is called as we are; "" for none. */
static const char *group(void)
{
	static char path[PATH_MAX];

	for (int v1 = 0; v1 < 2; v1++)
		if (cgroup_of_test(v1, id, path, sizeof(path)) &&
			access(path, F_OK) == 0)
			return path;
	return "";
}

/* It is busy until its last process is wholly gone. */
static void remove_group(void)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	double end = seconds_now() + END_S;
	const char *path = group();

	while (*path && rmdir(path) < 0 && seconds_now() < end)
		nanosleep(&pause, NULL);
}

/* A test that was ended could not put the machine's reserve back. Others take
 * turns with it: theirs ends first. */
static void put_huge_pages_back(void)
{
	char path[PATH_MAX], text[32];
	int from, to;
	ssize_t n = 0;

	snprintf(path, sizeof(path), "%s/tmp/" HUGE_BEFORE, base);
	from = open(path, O_RDONLY | O_CLOEXEC);
	if (from < 0)
		return;
	to = open(HUGE_RESERVE, O_RDWR | O_CLOEXEC);
	n = read(from, text, sizeof(text));
	if (to >= 0 && n > 0 && flock(to, LOCK_EX) == 0)
		n = write(to, text, (size_t)n);
	if (to >= 0)
		close(to);
	close(from);
}

void left_remove(void)
{
	put_huge_pages_back();
	remove_tree(base);
	each_outside(remove_tree);
	remove_group();
}

/* ---- all of it ----------------------------------------------------- */

void left_begin(const char *folder)
{
	base = folder;
	id = strrchr(folder, '/') + 1;
	shm_before = strdup("/");
	each_shm(note_shm);
}

const char *left_processes(void)
{
	each_descendant(name_process);
	return left;
}

const char *left_behind(void)
{
	const char *said = getenv("TARN_TEST_GRACE");

	if (!wait_for_all(said ? atoi(said) : GRACE_S) &&
		!each_descendant(name_process))
		leave("a process that /proc does not show");
	left_kill();
	nftw(base, name_file, 16, FTW_PHYS);
	each_shm(leave_shm);
	each_outside(leave_outside);
	if (*group())
		leave("cgroup %s", group());
	return left;
}
