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

#include <tarn/store.h>

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

void daemon_start(
	struct daemon *daemon, const char *name, const char *const extra[])
{
	const char *program = getenv("TARN_DAEMON");
	const char *argv[8] = {"tarnd", "--socket", daemon->socket};
	tarn_store *store = NULL;
	int status;

	if (!program)
		bail("TARN_DAEMON is not set; run this through tests/run");
	snprintf(daemon->socket, sizeof(daemon->socket), "%s%s%s",
		name[0] == '/' ? "" : test_tmpdir(), name[0] == '/' ? "" : "/",
		name);
	for (int i = 0; extra && extra[i] && i < 4; i++)
		argv[3 + i] = extra[i];
	daemon->pid = fork();
	if (daemon->pid > 0)
		note_started(daemon->pid);
	if (daemon->pid == 0) {
		struct rlimit few = {descriptors, descriptors};

		if (descriptors)
			setrlimit(RLIMIT_NOFILE, &few);
		if (log_path[0])
			stderr_to_log();
		execv(program, (char **)argv);
		fprintf(stderr, "%s: %s\n", program, strerror(errno));
		_exit(127);
	}
	for (int ms = 0; ms < PATIENCE_MS; ms += NAP_MS) {
		if (tarn_store_open(daemon->socket, &store) >= 0) {
			tarn_store_unref(store);
			return;
		}
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			bail("%s ended with status %#x", program, status);
		usleep(NAP_MS * 1000);
	}
	bail("%s does not answer: %s", program, tarn_error_message());
}

int daemon_stop(struct daemon *daemon)
{
	int status = 0;

	kill(daemon->pid, SIGTERM);
	for (int ms = 0; ms < STOP_MS; ms += NAP_MS) {
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		usleep(NAP_MS * 1000);
	}
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, &status, 0);
	return -1;
}
