/* SPDX-License-Identifier: MIT */
/* See daemon_helper.h. */
#include "tests/kit/daemon_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/tap.h"

#define PATIENCE_MS 60000 /* under valgrind, on a loaded machine */
#define STOP_MS 28000     /* less than it waits for loads that do not end */
#define NAP_MS 5

static unsigned descriptors;

void daemon_limit_descriptors(unsigned n)
{
	descriptors = n;
}

static char log_path[300];

static void show_log(void *arg)
{
	if (log_path[0])
		daemon_log_show(log_path);
}

void daemon_log_to(const char *path)
{
	snprintf(log_path, sizeof(log_path), "%s", path ? path : "");
	at_bail(show_log, NULL);
}

void daemon_log_show(const char *path)
{
	char line[4096];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		diag("%s", line);
	}
	if (f)
		fclose(f);
}

unsigned daemon_logged(const char *path, const char *part)
{
	char line[4096];
	FILE *f = fopen(path, "re");
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, part) != NULL;
	if (f)
		fclose(f);
	return n;
}

bool daemon_logs(const char *path, const char *part, unsigned more_than)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += NAP_MS) {
		if (daemon_logged(path, part) > more_than)
			return true;
		usleep(NAP_MS * 1000);
	}
	return false;
}

/* The latest keepers; the others of each daemon end with it. */
static struct {
	pid_t of, pid;
} started[8];
static unsigned n_started;

static void kill_all(void *arg)
{
	for (size_t i = 0; i < sizeof(started) / sizeof(*started); i++) {
		pid_t pid = started[i].pid;

		/* Still a child of ours, and alive. */
		if (pid <= 0 || started[i].of != getpid() ||
			waitpid(pid, NULL, WNOHANG) != 0)
			continue;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

static void stderr_to_log(void)
{
	int fd =
		open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || dup2(fd, 2) < 0) {
		fprintf(stderr, "%s: %s\n", log_path, strerror(errno));
		_exit(127);
	}
}

static void note_started(pid_t pid)
{
	unsigned i = n_started++ % (sizeof(started) / sizeof(*started));

	started[i].of = getpid();
	started[i].pid = pid;
	at_bail(kill_all, NULL);
}

static _Noreturn void run_daemon(const char *program, const char *const argv[])
{
	struct rlimit few = {descriptors, descriptors};

	if (descriptors)
		setrlimit(RLIMIT_NOFILE, &few);
	if (log_path[0])
		stderr_to_log();
	execv(program, (char **)argv);
	fprintf(stderr, "%s: %s\n", program, strerror(errno));
	_exit(127);
}

static void launch(struct daemon *daemon, const char *const extra[])
{
	const char *program = getenv("TARN_DAEMON");
	const char *argv[8] = {"tarnd", "--socket", daemon->socket};

	if (!program)
		bail("TARN_DAEMON is not set; run this through tests/run");
	for (int i = 0; extra && extra[i] && i < 4; i++)
		argv[3 + i] = extra[i];
	daemon->pid = fork();
	if (daemon->pid == 0)
		run_daemon(program, argv);
	note_started(daemon->pid);
}

/* One that leaves when nobody wants it may have left before this process came
 * to it: then there is another. */
static void launch_again(struct daemon *daemon, const char *const extra[])
{
	int status;

	if (waitpid(daemon->pid, &status, WNOHANG) != daemon->pid)
		return;
	if (status != 0)
		bail("tarnd ended with status %#x", status);
	launch(daemon, extra);
}

tarn_store *daemon_start_open(
	struct daemon *daemon, const char *name, const char *const extra[])
{
	double end = seconds() + PATIENCE_MS / 1e3;
	tarn_store *store = NULL;

	snprintf(daemon->socket, sizeof(daemon->socket), "%s%s%s",
		name[0] == '/' ? "" : test_tmpdir(), name[0] == '/' ? "" : "/",
		name);
	launch(daemon, extra);
	while (tarn_store_open(daemon->socket, NULL, &store) < 0) {
		if (seconds() > end)
			bail("tarnd does not answer: %s", tarn_error_message());
		launch_again(daemon, extra);
		usleep(NAP_MS * 1000);
	}
	return store;
}

void daemon_start(
	struct daemon *daemon, const char *name, const char *const extra[])
{
	tarn_store_unref(daemon_start_open(daemon, name, extra));
}

/* By status 1 it tells, too, that its accounts did not add up in the end
 * (daemon/server/balance.c): a test that does not look must not miss that. */
static int judge_end(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		bail("tarnd ended with status 1; its log says why");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int daemon_stop(struct daemon *daemon)
{
	int status = 0;

	kill(daemon->pid, SIGTERM);
	for (int ms = 0; ms < STOP_MS; ms += NAP_MS) {
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			return judge_end(status);
		usleep(NAP_MS * 1000);
	}
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, &status, 0);
	return -1;
}
