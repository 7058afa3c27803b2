/* SPDX-License-Identifier: MIT */
/* See daemon_helper.h. */
#include "tests/daemon_helper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tarn/store.h>

#include "tests/tap.h"

#define PATIENCE_MS 20000 /* under valgrind, on a loaded machine */
#define NAP_MS 5

static unsigned descriptors;

void daemon_limit_descriptors(unsigned n)
{
	descriptors = n;
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
	for (int ms = 0; ms < PATIENCE_MS; ms += NAP_MS) {
		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		usleep(NAP_MS * 1000);
	}
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, &status, 0);
	return -1;
}
