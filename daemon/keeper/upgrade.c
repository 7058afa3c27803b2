/* SPDX-License-Identifier: MIT */
/*
 * SIGUSR2: the keeper becomes the program that is installed now.
 *
 * The idea: an upgrade is a restart of the server with an exec of the keeper
 * in between. Descriptors survive an exec, and what they are is written down
 * (keeper/state_read.c). Mappings do not, and nobody can map a sealed segment
 * writable again, so segments are only read from then on. Control regions are
 * not sealed against writing: the next server goes on in them as after a crash.
 *
 * The keeper kills the server first. It does not wait for its end, but notices
 * it like every other death, and goes on from there.
 *
 * Nothing is given up before the new program has shown, in a process of its
 * own and on the real state, that it can go on from there: it knows the state's
 * version, and the version and layout of each control region. If the exec fails
 * all the same, nothing has changed but the server, and another one begins.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/listener.h"
#include "daemon/keeper/placement.h"
#include "daemon/keeper/state.h"
#include "daemon/loop/log.h"

/* The program starts, and reads a few records: picked. */
#define CHECK_NS 20000000000ull

/* ---- which program ------------------------------------------------------ */

/* As it was started: by a path that may lead to another file by now, which is
 * the point. Relative ones are of the folder that this was started in. */
void keeper_program_note(struct keeper *keeper)
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	_cleanup_free_ char *folder = NULL;

	if (!path || *path == '/') {
		keeper->upgrade.program = path ? strdup(path) : NULL;
		return;
	}
	folder = getcwd(NULL, 0);
	if (!folder ||
		asprintf(&keeper->upgrade.program, "%s/%s", folder, path) < 0)
		keeper->upgrade.program = NULL;
}

/* Those of this one, without what a keeper before it has added. */
static char **arguments(
	const struct keeper *keeper, const char *option, char *number)
{
	char *const *from = keeper->line.argv;
	char **argv;
	size_t n = 0, to = 0;

	while (from[n])
		n++;
	argv = calloc(n + 3, sizeof(*argv));
	if (!argv)
		return NULL;
	argv[to++] = from[0];
	argv[to++] = (char *)option;
	argv[to++] = number;
	for (size_t i = 1; i < n; i++)
		if (strcmp(from[i], "--adopt") == 0)
			i++;
		else
			argv[to++] = from[i];
	return argv;
}

/* Returns if it fails. */
static int become(struct keeper *keeper, const char *option, int state)
{
	char number[16];
	char **argv;
	int error;

	snprintf(number, sizeof(number), "%d", state);
	argv = arguments(keeper, option, number);
	if (!argv)
		return tarn_fail(ENOMEM, "out of memory");
	execv(keeper->upgrade.program, argv);
	error = errno;
	free(argv);
	return tarn_fail(error, "%s: %s", keeper->upgrade.program,
		tarn_errno_text(error));
}

/* ---- may it be ---------------------------------------------------------- */

static int may_upgrade(const struct keeper *keeper)
{
	if (keeper->draining || keeper->stopping || keeper->unbound)
		return tarn_fail(EBUSY, "the daemon is about to end");
	if (!keeper->upgrade.program)
		return tarn_fail(
			ENOENT, "it is not known which program was started");
	return 0;
}

static void refuse(const struct keeper *keeper)
{
	log_error("upgrade_refused",
		log_text("program",
			keeper->upgrade.program ? keeper->upgrade.program : ""),
		log_text("error", tarn_fail_message()));
}

static int write_state(struct keeper *keeper, uint64_t left_at, int *ret_fd)
{
	struct keeper_rest rest = {
		.listener = listener_parts(keeper->listener),
		.oom = oom_score(),
		.left_at = left_at,
	};

	snprintf(
		rest.socket, sizeof(rest.socket), "%s", keeper->options.socket);
	return keeper_state_write(keeper, &rest, ret_fd);
}

/* In the child. */
int keeper_check_exec(struct keeper *keeper, int state)
{
	keeper_state_inherit(keeper, true);
	return become(keeper, "--adopt-check", state);
}

static int begin_check(struct keeper *keeper)
{
	_cleanup_fd_ int state = -1;
	int r = may_upgrade(keeper);

	/* Of this moment; another one is written when it counts. */
	if (r == 0)
		r = write_state(keeper, 0, &state);
	if (r < 0)
		return r;
	keeper->upgrade.checker_pid = keeper_fork_checker(keeper, state);
	return keeper->upgrade.checker_pid < 0
		       ? (int)keeper->upgrade.checker_pid
		       : 0;
}

/* It takes too long. */
static void end_check(void *arg)
{
	struct keeper *keeper = arg;

	kill(keeper->upgrade.checker_pid, SIGKILL);
}

void keeper_upgrade(struct keeper *keeper)
{
	int r;

	if (keeper->upgrade.checker_pid > 0 || keeper->upgrade.waiting) {
		tarn_fail(EBUSY, "another upgrade is under way");
		return refuse(keeper);
	}
	r = begin_check(keeper);
	if (r < 0) {
		keeper->upgrade.checker_pid = 0;
		return refuse(keeper);
	}
	keeper_call_in(
		keeper, &keeper->upgrade.check_until, CHECK_NS, end_check);
}

/* ---- the upgrade -------------------------------------------------------- */

/* Returns if it fails, and nothing has changed then but the server. */
static int upgrade(struct keeper *keeper)
{
	_cleanup_fd_ int state = -1;
	int r;

	/* The exec would close them here. */
	keeper_drop_rest(keeper);
	if (keeper->undropped.n)
		return tarn_fail(EBUSY,
			"%u sockets of clients that are gone cannot be closed "
			"at present, as no process can be forked",
			keeper->undropped.n);
	keeper_memory_forget(keeper);
	r = write_state(keeper, keeper_now(), &state);
	if (r < 0)
		return r;
	keeper_state_inherit(keeper, true);
	fcntl(state, F_SETFD, 0);
	r = become(keeper, "--adopt", state);
	keeper_state_inherit(keeper, false);
	return r;
}

void keeper_upgrade_checked(struct keeper *keeper, int status)
{
	int r;

	keeper->upgrade.checker_pid = 0;
	deadline_set(&keeper->deadlines, &keeper->upgrade.check_until, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != ADOPT_YES)
		r = tarn_fail(EPROTO,
			"it cannot continue from here (%s %d); see its log",
			WIFEXITED(status) ? "exit status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status)
					  : WTERMSIG(status));
	else
		r = may_upgrade(keeper);
	if (r < 0)
		return refuse(keeper);
	keeper->upgrade.waiting = true;
	if (keeper->server.pid)
		kill(keeper->server.pid, SIGKILL);
	else
		keeper_upgrade_go_on(keeper);
}

void keeper_upgrade_go_on(struct keeper *keeper)
{
	int r = may_upgrade(keeper);

	keeper->upgrade.waiting = false;
	/* It may have been asked to end in the meantime. */
	if (r < 0) {
		refuse(keeper);
	} else {
		r = upgrade(keeper);
		log_error("upgrade_failed",
			log_text("program", keeper->upgrade.program),
			log_text("error", r < 0 ? tarn_fail_message() : ""));
	}
	keeper_server_begin(keeper);
}

/* ---- in the new program ------------------------------------------------- */

int keeper_adopt_check(int state)
{
	static struct keeper keeper;
	static struct keeper_settings settings;
	struct keeper_rest rest;

	return keeper_state_read(state, false, &keeper, &rest, &settings);
}

/* Its limits are the administrator's, and no others: those that were in force
 * before, or, where they were not handed over, what is read in the end. */
static void take_settings(
	struct keeper *keeper, const struct keeper_settings *settings)
{
	struct options *options = &keeper->options;

	log_error("config_unread",
		log_text("config", options->config ? options->config : ""),
		log_text("in_force",
			settings->there
				? "what was read before the upgrade; SIGHUP "
				  "reads it again"
				: "nothing: it is read again until it can be"));
	if (settings->there) {
		options->budget = settings->budget;
		options->segment_max = settings->segment_max;
		options->idle_ns = settings->idle_ns;
		options->mode = settings->mode;
		options->placement = settings->placement;
		options->registers = settings->flags & POOL_REGISTER;
		keeper->config = settings->config;
		return;
	}
	for (;;) {
		*options = keeper->line;
		if (config_read(options, &keeper->config) == 0)
			return;
		usleep(KEEPER_AGAIN_US);
	}
}

/* The program before this one is gone, and with this one all that it left would
 * go: so it waits for memory, however long. */
int keeper_adopt(struct keeper *keeper)
{
	static struct keeper_rest rest; /* its path is used to the end */
	static struct keeper_settings settings;
	int state = keeper->options.adopt, r;

	r = keeper_state_read(state, true, keeper, &rest, &settings);
	if (r < 0)
		return r;
	if (keeper->options.unread)
		take_settings(keeper, &settings);
	while ((r = listener_adopt(rest.socket, &rest.listener,
			&keeper->listener)) == -ENOMEM)
		usleep(KEEPER_AGAIN_US);
	if (r < 0)
		return r;
	fd_close(state);
	placement_begin(keeper, true);
	keeper_state_inherit(keeper, false);
	oom_adopt(&rest.oom);
	keeper->options.socket = rest.socket;
	keeper->upgrade.n++;
	keeper->server.ended_last = true;
	keeper->upgrade.left_at = rest.left_at;
	return 0;
}
