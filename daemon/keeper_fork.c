/* SPDX-License-Identifier: MIT */
/*
 * The keeper's children, and what each may keep of what it inherits.
 *
 * A child closes every descriptor but those it works with: a client's socket
 * left open in a loader would never end. It unmaps the memory that is not its
 * business: a loader has no segment but its rule's, and no control region. The
 * server keeps all of both.
 */
#include "daemon/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/door.h"
#include "daemon/log.h"
#include "daemon/oom.h"
#include "daemon/populate.h"
#include "daemon/server.h"

/* Only stdio and the given descriptors stay, as 3, 4, ... in that order. */
static void keep_only(int *fds, int n)
{
	/* Out of the way of the numbers that they are about to get. */
	for (int i = 0; i < n; i++)
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + n);
	for (int i = 0; i < n; i++)
		fds[i] = dup3(fds[i], 3 + i, O_CLOEXEC);
	fd_close_from(3 + n);
}

static pid_t fork_child(struct keeper *keeper, const char *name)
{
	pid_t parent = getpid();
	char title[16];
	sigset_t none;
	pid_t pid;

	oom_before_fork();
	pid = fork();
	if (pid != 0)
		oom_after_fork();
	if (pid != 0)
		return pid < 0 ? tarn_fail(errno, "cannot fork a %s: %s", name,
					 tarn_errno_text(errno))
			       : pid;
	log_role(name);
	snprintf(title, sizeof(title), "tarn-%s", name);
	prctl(PR_SET_NAME, title);
	/* Without the keeper there is nothing to work for. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* Ends come from the keeper, by the socket: ^C is for it alone. */
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	oom_be_child();
	return 0;
}

static void drop_segments(struct keeper *keeper, uint32_t keep_rule)
{
	for (uint32_t i = 0; i < keeper->n_segments; i++) {
		struct mapped_segment *s = &keeper->segments[i].mapped;

		if (s->addr && s->rule != keep_rule)
			munmap(s->addr, s->size);
	}
	if (keeper->growing.mapped.addr)
		munmap(keeper->growing.mapped.addr,
			keeper->growing.mapped.size);
}

static void drop_tables(struct keeper *keeper)
{
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		table_unmap(&keeper->rules[i].table);
}

/* ---- the server ----------------------------------------------------- */

/* What is mapped here is mapped there, too; it only has to know where. */
static _Noreturn void run_server(
	struct keeper *keeper, struct server_start *start)
{
	struct mapped_segment *segments =
		calloc(keeper->n_segments + 1, sizeof(*segments));
	struct table *tables = calloc(keeper->n_rules + 1, sizeof(*tables));

	if (!segments || !tables)
		_exit(1);
	for (uint32_t i = 0; i < keeper->n_segments; i++)
		segments[i] = keeper->segments[i].mapped;
	for (uint32_t i = 0; i < keeper->n_rules; i++)
		tables[i] = keeper->rules[i].table;
	if (keeper->growing.mapped.addr)
		munmap(keeper->growing.mapped.addr,
			keeper->growing.mapped.size);
	start->segments = segments;
	start->n_segments = keeper->n_segments;
	start->tables = tables;
	start->n_tables = keeper->n_rules;
	_exit(server_run(start));
}

int keeper_fork_server(struct keeper *keeper)
{
	struct server_start start = {
		.options = keeper->options,
		.config = &keeper->config,
		.instance = keeper->instance,
		.budget = keeper->budget,
		.reach = keeper->reach,
		.keeper_pid = getpid(),
		.began_at = keeper->began_at,
		.restarts = keeper->restarts,
		.ended = keeper->ended,
		.upgrades = keeper->upgrades,
		.upgraded = keeper->ended_last,
	};
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, pair) < 0)
		return tarn_fail(errno, "cannot make a socket pair: %s",
			tarn_errno_text(errno));
	pid = fork_child(keeper, "server");
	if (pid == 0) {
		keep_only(&pair[1], 1);
		start.sock = pair[1];
		run_server(keeper, &start);
	}
	fd_close(pair[1]);
	if (pid < 0) {
		fd_close(pair[0]);
		return (int)pid;
	}
	keeper->server_pid = pid;
	keeper->server_sock = pair[0];
	return 0;
}

/* ---- loaders -------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
	const struct mapped_segment *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static _Noreturn void run_loader(
	struct keeper *keeper, uint32_t rule, int sock, int pipe_fd)
{
	struct mapped_segment *mine;
	int fds[2] = {sock, pipe_fd};
	uint32_t n = 0;

	keep_only(fds, 2);
	drop_segments(keeper, rule);
	drop_tables(keeper);
	mine = calloc(keeper->n_segments + 1, sizeof(*mine));
	if (!mine)
		_exit(1);
	for (uint32_t i = 0; i < keeper->n_segments; i++)
		if (keeper->segments[i].mapped.rule == rule &&
			keeper->segments[i].mapped.addr)
			mine[n++] = keeper->segments[i].mapped;
	qsort(mine, n, sizeof(*mine), by_offset);
	_exit(loader_run(fds[0], fds[1], mine, n));
}

int keeper_fork_loader(struct keeper *keeper, struct msg_loader *loader,
	int *ret_sock, int *ret_pipe)
{
	_cleanup_fd_ int ours = -1, theirs = -1, ends = -1, open_end = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0, pair) < 0)
		return tarn_fail(errno, "cannot make a socket pair: %s",
			tarn_errno_text(errno));
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return tarn_fail(errno, "cannot make a pipe: %s",
			tarn_errno_text(errno));
	ends = pair[0];
	open_end = pair[1];
	pid = fork_child(keeper, "loader");
	if (pid == 0)
		run_loader(keeper, loader->rule, theirs, open_end);
	if (pid < 0)
		return (int)pid;
	loader->pid = pid;
	loader->n_segments = keeper->next_segment;
	*ret_sock = fd_steal(&ours);
	*ret_pipe = fd_steal(&ends);
	return 0;
}

/* ---- populators ----------------------------------------------------- */

pid_t keeper_fork_populator(
	struct keeper *keeper, int fd, void *addr, uint64_t size, bool reserved)
{
	pid_t pid = fork_child(keeper, "populate");

	if (pid == 0) {
		/* Rather this child than the keeper, should it come to that. */
		oom_offer();
		keep_only(&fd, 1);
		_exit(populate(fd, addr, size, reserved));
	}
	return pid;
}

/* ---- upgrades ------------------------------------------------------- */

pid_t keeper_fork_checker(struct keeper *keeper, int state)
{
	pid_t pid = fork_child(keeper, "check");

	if (pid == 0) {
		fcntl(state, F_SETFD, 0);
		keeper_check_exec(keeper, state);
		log_error(
			"check_failed", log_text("error", tarn_fail_message()));
		_exit(127);
	}
	return pid;
}
