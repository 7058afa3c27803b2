/* SPDX-License-Identifier: MIT */
/*
 * The keeper's children, and what each may keep of what it inherits.
 *
 * A child closes every descriptor but those it works with: a client's socket
 * left open in a loader would never end. It unmaps the memory that is not its
 * business: a loader has no segment but its domain's. The server keeps all.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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
#include "base/pid_namespace.h"
#include "daemon/keeper/listener.h"
#include "daemon/keeper/oom.h"
#include "daemon/keeper/placement.h"
#include "daemon/keeper/populate.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

#define CHILD_FDS_MAX 2 /* descriptors that a child begins with */

/* The lowest of the given descriptors that is not below a number; INT_MAX:
 * there is none. */
static int lowest_from(int from, const int *fds, int n)
{
	int lowest = INT_MAX;

	for (int i = 0; i < n; i++)
		if (fds[i] >= from)
			lowest = MIN(lowest, fds[i]);
	return lowest;
}

/* In a child: the end of a pipe that the keeper waits for; -1: there is
 * none. */
static int begun_fd = -1;

/* A child inherits the sockets of clients. Were the keeper to drop one now,
 * this child's close() could be the last one, and hang. So the keeper waits
 * until the child has closed them. */
static void wait_until_begun(int fd)
{
	char byte;

	while (fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINTR)
		;
}

static void close_others(const int *fds, int n)
{
	int from = 3, next;

	for (; (next = lowest_from(from, fds, n)) < INT_MAX; from = next + 1)
		fd_close_range(from, next - 1);
	fd_close_from(from);
}

/* A child that lacks one of its descriptors does not begin. Its status is an
 * errno, as that of a populator is. */
static _Noreturn void give_up(int error)
{
	log_error("child_failed", log_text("error", tarn_errno_text(error)),
		log_text("reason", "a descriptor cannot be duplicated"));
	_exit(error);
}

/* Only stdio and the given descriptors stay, under their numbers, which cannot
 * fail. There is room for one more behind them. */
static void keep_in_place(int *fds, int n)
{
	fds[n] = begun_fd;
	close_others(fds, n + 1);
	begun_fd = fd_close(begun_fd);
}

/* Only stdio and the given descriptors stay, as 3, 4, ... in that order. The
 * others go first: then there is room for copies also where the keeper has as
 * many descriptors as it may have. */
static void keep_only(int *fds, int n)
{
	int kept[CHILD_FDS_MAX + 1];

	memcpy(kept, fds, sizeof(*fds) * (size_t)n);
	keep_in_place(kept, n);
	/* Out of the way of the numbers that they are about to get. */
	for (int i = 0; i < n; i++) {
		fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + n);
		if (fds[i] < 0)
			give_up(errno);
	}
	for (int i = 0; i < n; i++) {
		fds[i] = dup3(fds[i], 3 + i, O_CLOEXEC);
		if (fds[i] < 0)
			give_up(errno);
	}
	fd_close_from(3 + n);
}

static pid_t fork_child(struct keeper *keeper, const char *name)
{
	pid_t parent = getpid();
	int begun[2] = {-1, -1};
	char title[16];
	sigset_t none;
	pid_t pid;

	/* Without descriptors for it the keeper does not wait. */
	if (pipe2(begun, O_CLOEXEC) < 0)
		begun[0] = begun[1] = -1;
	oom_before_fork();
	pid = fork();
	if (pid != 0) {
		oom_after_fork();
		fd_close(begun[1]);
		if (pid > 0)
			wait_until_begun(begun[0]);
		fd_close(begun[0]);
	}
	if (pid != 0)
		return pid < 0 ? tarn_fail(errno, "cannot fork a %s: %s", name,
					 tarn_errno_text(errno))
			       : pid;
	/* Without the keeper there is nothing to work for. This comes first: a
	 * child that some other process stops before it (SIGSTOP, a freezer)
	 * stays when the keeper is killed, and nobody ends it. A child that has
	 * its name has this, too. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	begun_fd = begun[1];
	log_role(name);
	snprintf(title, sizeof(title), "tarn-%s", name);
	prctl(PR_SET_NAME, title);
	/* Ends come from the keeper, by the socket: ^C is for it alone. */
	setpgid(0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	oom_be_child();
	return 0;
}

static void drop_segments(struct keeper *keeper, uint32_t keep_domain)
{
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++) {
		struct mapped_segment *s = &keeper->memory.segments[i].mapped;

		if (s->addr && s->domain != keep_domain)
			munmap(s->addr, s->size);
	}
	if (keeper->memory.growing.mapped.addr)
		munmap(keeper->memory.growing.mapped.addr,
			keeper->memory.growing.mapped.size);
}

/* ---- the server ----------------------------------------------------- */

/* The child inherits the mappings; it needs only their addresses. */
static _Noreturn void run_server(
	struct keeper *keeper, struct server_start *start)
{
	struct mapped_segment *segments =
		calloc(keeper->memory.n_segments + 1, sizeof(*segments));

	if (!segments)
		_exit(1);
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++)
		segments[i] = keeper->memory.segments[i].mapped;
	if (keeper->memory.growing.mapped.addr)
		munmap(keeper->memory.growing.mapped.addr,
			keeper->memory.growing.mapped.size);
	start->segments = segments;
	start->n_segments = keeper->memory.n_segments;
	_exit(server_run(start));
}

int keeper_fork_server(struct keeper *keeper)
{
	struct server_start start = {
		.options = keeper->options,
		.config = &keeper->config,
		.instance = keeper->instance,
		.budget = keeper->memory.budget,
		.reach = keeper->memory.reach,
		.lanes = keeper->memory.lanes,
		.nodes = keeper->memory.nodes,
		.keeper_pid = getpid(),
		.pid_namespace = pid_namespace(),
		.inherited = keeper->inherited,
		.began_at = keeper->began_at,
		.restarts = keeper->server.restarts,
		.ended = keeper->server.ended,
		.upgrades = keeper->upgrade.n,
		.upgraded = keeper->server.ended_last,
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
	keeper->server.pid = pid;
	keeper->server.sock = pair[0];
	return 0;
}

/* ---- the dropper ---------------------------------------------------- */

struct kept {
	int *fds;
	int n;
};

static void keep_one(void *arg, const struct stored_fd *stored)
{
	struct kept *kept = arg;

	kept->fds[kept->n++] = stored->fd;
}

/* The keeper will close its copies, which must not be the last ones: so this
 * child does nothing that can fail before it has them. */
int keeper_fork_dropper(struct keeper *keeper)
{
	_cleanup_free_ int *fds =
		calloc(keeper->undropped.n + 2ul, sizeof(*fds));
	struct kept kept = {.fds = fds};
	int pair[2];
	pid_t pid;

	if (!fds)
		return tarn_fail(ENOMEM, "no memory to fork a dropper");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return tarn_fail(errno, "cannot make a socket pair: %s",
			tarn_errno_text(errno));
	if (keeper->undropped.n)
		fd_store_each(&keeper->undropped, keep_one, &kept);
	pid = fork_child(keeper, "dropper");
	if (pid == 0) {
		fds[kept.n] = pair[1];
		keep_in_place(fds, kept.n + 1);
		drop_segments(keeper, UINT32_MAX);
		keeper_dropper_run(pair[1], fds, kept.n);
	}
	fd_close(pair[1]);
	if (pid < 0) {
		fd_close(pair[0]);
		return (int)pid;
	}
	return pair[0];
}

/* ---- loaders -------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
	const struct mapped_segment *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static _Noreturn void run_loader(
	struct keeper *keeper, uint32_t domain, int sock, int pipe_fd)
{
	struct mapped_segment *mine;
	int fds[2] = {sock, pipe_fd};
	uint32_t n = 0;

	keep_only(fds, 2);
	drop_segments(keeper, domain);
	mine = calloc(keeper->memory.n_segments + 1, sizeof(*mine));
	if (!mine)
		_exit(1);
	for (uint32_t i = 0; i < keeper->memory.n_segments; i++)
		if (keeper->memory.segments[i].mapped.domain == domain &&
			keeper->memory.segments[i].mapped.addr)
			mine[n++] = keeper->memory.segments[i].mapped;
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
		run_loader(keeper, loader->domain, theirs, open_end);
	if (pid < 0)
		return (int)pid;
	loader->pid = pid;
	loader->n_segments = keeper->memory.next_segment;
	*ret_sock = fd_steal(&ours);
	*ret_pipe = fd_steal(&ends);
	return 0;
}

/* ---- populators ----------------------------------------------------- */

pid_t keeper_fork_populator(
	struct keeper *keeper, const struct keeper_segment *segment)
{
	int fd = segment->fd;
	pid_t pid;

	keeper_pages_prepare(keeper);
	/* It copies the mapping's policy. */
	pid = fork_child(keeper, "populate");

	if (pid == 0) {
		/* Rather this child than the keeper, should it come to that. */
		oom_offer();
		keep_only(&fd, 1);
		_exit(keeper_populate(keeper, segment, fd));
	}
	return pid;
}

/* ---- upgrades ------------------------------------------------------- */

pid_t keeper_fork_checker(struct keeper *keeper, int state)
{
	pid_t pid = fork_child(keeper, "check");

	if (pid == 0) {
		/* It keeps the sockets, and its program may be on a file system
		 * that does not answer: the keeper does not wait for it. */
		begun_fd = fd_close(begun_fd);
		fcntl(state, F_SETFD, 0);
		keeper_check_exec(keeper, state);
		log_error(
			"check_failed", log_text("error", tarn_fail_message()));
		_exit(127);
	}
	return pid;
}
