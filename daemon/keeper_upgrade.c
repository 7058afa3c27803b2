/* SPDX-License-Identifier: MIT */
/*
 * SIGUSR2: the keeper becomes the program that is installed now.
 *
 * The idea: an upgrade is a restart of the server with an exec of the keeper
 * in between. Descriptors survive an exec, and what they are is written down
 * (keeper_state.c); mappings do not, and for what is sealed nobody can make
 * the writable ones again. So segments are only read from then on, and control
 * regions are left and copied (shm/table_move.c): left before the exec, when
 * that can still be written there, and copied after it, when the copy can be
 * mapped by those who will write it.
 *
 * Nothing is given up before the new program has shown, in a process of its
 * own and on the real state, that it can go on from there. What fails after
 * that is taken back: regions are returned to, and another server begins.
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

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "daemon/door.h"
#include "daemon/keeper_state.h"
#include "daemon/log.h"

/* What is installed is started, mapped and reads a few records: picked. */
#define CHECK_NS 20000000000ull

/* ---- which program ------------------------------------------------------ */

/* As it was started: by a path that may lead to another file by now, which is
 * the point. Relative ones are of the folder that this was started in. */
void keeper_program_note(struct keeper *keeper)
{
	const char *path = (const char *)getauxval(AT_EXECFN);
	_cleanup_free_ char *folder = NULL;

	if (!path || *path == '/') {
		keeper->program = path ? strdup(path) : NULL;
		return;
	}
	folder = getcwd(NULL, 0);
	if (!folder || asprintf(&keeper->program, "%s/%s", folder, path) < 0)
		keeper->program = NULL;
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
	execv(keeper->program, argv);
	error = errno;
	free(argv);
	return tarn_fail(
		error, "%s: %s", keeper->program, tarn_errno_text(error));
}

/* ---- may it be ---------------------------------------------------------- */

static int may_upgrade(const struct keeper *keeper)
{
	uint64_t bytes = 0;

	if (keeper->draining || keeper->stopping || keeper->shut)
		return tarn_fail(EBUSY, "the daemon is about to end");
	if (!keeper->program)
		return tarn_fail(
			ENOENT, "it is not known which program was started");
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		bytes += table_footprint(&keeper->rules[i].table);
	return headroom_check(bytes);
}

static void refuse(const struct keeper *keeper)
{
	log_error("upgrade_refused",
		log_text("program", keeper->program ? keeper->program : ""),
		log_text("error", tarn_fail_message()));
}

static int write_state(struct keeper *keeper, uint64_t left_at, int *ret_fd)
{
	struct keeper_rest rest = {
		.door = door_parts(keeper->door),
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
	keeper->checker_pid = keeper_fork_checker(keeper, state);
	return keeper->checker_pid < 0 ? (int)keeper->checker_pid : 0;
}

void keeper_upgrade(struct keeper *keeper)
{
	int r;

	if (keeper->checker_pid > 0)
		return;
	r = begin_check(keeper);
	if (r < 0) {
		keeper->checker_pid = 0;
		refuse(keeper);
		return;
	}
	keeper->check_until = keeper_now() + CHECK_NS;
}

void keeper_upgrade_look(struct keeper *keeper)
{
	if (!keeper->check_until || keeper_now() < keeper->check_until)
		return;
	keeper->check_until = 0;
	kill(keeper->checker_pid, SIGKILL);
}

/* ---- the upgrade -------------------------------------------------------- */

/* What it said last counts, as after a death. */
static void end_server(struct keeper *keeper)
{
	pid_t pid = keeper->server_pid;

	if (!pid)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	keeper_hear_last(keeper);
	keeper->server_pid = 0;
	keeper_server_gone(keeper);
	keeper->ended++;
	keeper->ended_last = true;
}

static void leave_rules(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		if (!keeper->rules[i].left)
			table_leave(&keeper->rules[i].table);
}

static void return_to_rules(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		if (!keeper->rules[i].left)
			table_return(&keeper->rules[i].table);
}

/* Returns if it fails, and nothing has changed then but the server. */
static int upgrade(struct keeper *keeper)
{
	_cleanup_fd_ int state = -1;
	int r;

	keeper_memory_forget(keeper);
	r = keeper_rules_settle(keeper);
	if (r == 0)
		r = write_state(keeper, keeper_now(), &state);
	if (r < 0)
		return r;
	keeper_state_inherit(keeper, true);
	fcntl(state, F_SETFD, 0);
	leave_rules(keeper);
	r = become(keeper, "--adopt", state);
	return_to_rules(keeper);
	keeper_state_inherit(keeper, false);
	return r;
}

void keeper_upgrade_checked(struct keeper *keeper, int status)
{
	int r;

	keeper->checker_pid = 0;
	keeper->check_until = 0;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != ADOPT_YES)
		r = tarn_fail(EPROTO,
			"it does not go on from here (%s %d); it has said why",
			WIFEXITED(status) ? "exit status" : "signal",
			WIFEXITED(status) ? WEXITSTATUS(status)
					  : WTERMSIG(status));
	else
		r = may_upgrade(keeper);
	if (r < 0)
		return refuse(keeper);
	end_server(keeper);
	if (keeper->finished)
		return;
	r = upgrade(keeper);
	log_error("upgrade_failed", log_text("program", keeper->program),
		log_text("error", r < 0 ? tarn_fail_message() : ""));
	keeper_server_begin(keeper);
}

/* ---- in the new program ------------------------------------------------- */

int keeper_adopt_check(int state)
{
	static struct keeper keeper;
	struct keeper_rest rest;

	return keeper_state_read(state, &keeper, &rest);
}

int keeper_adopt(struct keeper *keeper)
{
	int state = keeper->options.adopt, r;
	struct keeper_rest rest;

	r = keeper_state_read(state, keeper, &rest);
	if (r == 0)
		r = door_adopt(rest.socket, &rest.door, &keeper->door);
	if (r < 0)
		return r;
	fd_close(state);
	keeper_state_inherit(keeper, false);
	oom_adopt(&rest.oom);
	keeper->options.socket = strdup(rest.socket);
	if (!keeper->options.socket)
		return tarn_fail(ENOMEM, "out of memory");
	keeper->upgrades++;
	keeper->ended_last = true;
	keeper->left_at = rest.left_at;
	return 0;
}
