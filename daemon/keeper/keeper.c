/* SPDX-License-Identifier: MIT */
/*
 * The keeper's loop: accept, create, fork, reap. See keeper.h for why it does
 * so little.
 *
 * The keeper never waits for another process: the server's socket is
 * non-blocking with a queue behind it, a child grows the memory, and clients
 * are only accepted.
 */
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/placement.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/headroom.h"
#include "base/overflow_uid.h"
#include "config.h"
#include "daemon/keeper/inherited.h"
#include "daemon/keeper/listener.h"
#include "daemon/keeper/oom.h"
#include "daemon/keeper/systemd.h"
#include "daemon/loop/log.h"
#include "daemon/loop/loop.h"
#include "shm/segment.h"

#define LISTENER_CHECK_NS 2000000000ull /* less than clients wait; picked */
#define CHILDREN_WAIT_MS 2000           /* at the end; picked */

/* ---- signals and children ------------------------------------------- */

static void end(struct keeper *keeper, int status, const char *why)
{
	log_info("end", log_text("why", why), log_i64("status", status));
	keeper->finished = 1;
	keeper->status = status;
}

/* Of a server that ended in good order: if its accounts did not add up then,
 * its status is 1 (server/balance.c), and so is this process's. */
static void note_farewell(struct keeper *keeper, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		keeper->status = 1;
}

/* Its last messages, such as its farewell, count. */
static void server_ended(struct keeper *keeper, int status)
{
	if (!keeper->finished)
		keeper_receive_last(keeper);
	if (keeper->finished)
		note_farewell(keeper, status);
	else
		keeper_server_died(keeper, status);
}

static void reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : ENOSPC;

		if (pid == keeper->memory.populator_pid)
			keeper_populated(keeper, code);
		else if (pid == keeper->upgrade.checker_pid)
			keeper_upgrade_checked(keeper, status);
		else if (pid == keeper->server.pid)
			server_ended(keeper, status);
		/* Its socket reports its death to the server. */
		keeper_loader_reaped(keeper, pid);
	}
}

static void take_signal(struct keeper *keeper)
{
	struct signalfd_siginfo info;

	while (read(keeper->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD) {
			reap(keeper);
		} else if (info.ssi_signo == SIGHUP) {
			systemd_notify_reloading(keeper_now());
			keeper_server_resume(keeper);
			keeper_reload(keeper);
			systemd_notify("READY=1");
		} else if (info.ssi_signo == SIGUSR2) {
			keeper_upgrade(keeper);
		} else if (keeper->draining) {
			end(keeper, 1, "asked twice");
		} else if (!keeper->server.pid) {
			end(keeper, 0, "asked while no server runs");
		} else {
			keeper->draining = 1;
			systemd_notify("STOPPING=1\nSTATUS=finishing loads");
			listener_unbind(keeper->listener);
			keeper_terminate_server(keeper);
		}
	}
}

/* Before the first file is made: a signal that comes while the daemon starts
 * waits until the keeper takes it, and then nothing is left behind. */
static sigset_t hold_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return set;
}

static int watch_signals(struct keeper *keeper)
{
	sigset_t set = hold_signals();

	signal(SIGPIPE, SIG_IGN);
	/* Memory is files here: what is past a limit on these is an error. */
	signal(SIGXFSZ, SIG_IGN);
	keeper->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (keeper->signal_fd < 0)
		return tarn_fail(errno, "cannot watch signals: %s",
			tarn_errno_text(errno));
	return 0;
}

/* ---- life ----------------------------------------------------------- */

/* Has the daemon been asked to end, and is there no server that could end in
 * good order? The state of this one waits in the queue, and has for as long as
 * keeper_replay() waits: the kernel refuses to send descriptors. It serves
 * nobody, and may not for as long as others leave theirs unread. */
static bool ends_untold(const struct keeper *keeper)
{
	return (keeper->draining || keeper->stopping) &&
	       keeper->server.sock >= 0 && !keeper->server.told;
}

static int pause_ms(const struct keeper *keeper)
{
	uint64_t now = keeper_now(), at = deadlines_next(&keeper->deadlines);

	/* One is always set: check_listener. */
	return at > now ? (int)((at - now) / 1000000 + 1) : 0;
}

/* The socket: its messages, and its end. A signal reports its death. */
static void serve_server(struct keeper *keeper, short ready)
{
	int r = 0;

	if (ready & POLLOUT)
		r = keeper_flush(keeper);
	if (r >= 0 || r == -EPIPE)
		r = keeper_receive_server(keeper);
	if (r >= 0 || keeper->finished)
		return;
	keeper_server_gone(keeper);
	if (r == -EPIPE)
		return;
	log_error("server_garbage", log_text("error", tarn_fail_message()));
	if (keeper->server.pid > 0)
		kill(keeper->server.pid, SIGKILL);
}

/* A client that finds the lock held but no socket has to wait for this look. */
static void check_listener(void *arg)
{
	struct keeper *keeper = arg;
	int r;

	keeper_call_in(keeper, &keeper->listener_timer, LISTENER_CHECK_NS,
		check_listener);
	if (!listener_is_lost(keeper->listener))
		return;
	keeper_accept_all(keeper);
	r = listener_restore(keeper->listener);
	/* Once, not every two seconds. */
	if (r == 0)
		log_warning("listener_restored",
			log_text("socket", keeper->options.socket));
	else if (!keeper->displaced)
		log_error("listener_lost",
			log_text("socket", keeper->options.socket),
			log_text("error", r > 0 ? "another daemon serves it"
						: tarn_fail_message()));
	keeper->displaced = r != 0;
}

static void serve(struct keeper *keeper)
{
	check_listener(keeper);
	while (!keeper->finished) {
		/* New clients wait in the queue while there is no server, or
		 * while too much of others cannot be closed. */
		bool open = !keeper->clients.accept_at.at &&
			    !keeper->server.resume_at.at &&
			    keeper->undropped.n < keeper->clients.max;
		bool reads = !keeper->server.read_at.at;
		struct pollfd p[] = {
			{.fd = reads ? keeper->server.sock : -1,
				.events = POLLIN},
			{.fd = keeper->signal_fd, .events = POLLIN},
			{.fd = open ? listener_poll_fd(keeper->listener) : -1,
				.events = POLLIN},
		};
		int pause = pause_ms(keeper);

		if (!wire_writer_empty(keeper->server.writer))
			p[0].events |= POLLOUT;
		if (poll(p, ARRAY_SIZE(p), pause) < 0 && errno != EINTR)
			return end(keeper, 1, "poll failed");
		if (p[0].revents)
			serve_server(keeper, p[0].revents);
		if (p[1].revents)
			take_signal(keeper);
		if (p[2].revents)
			keeper_accept(keeper);
		deadlines_run(&keeper->deadlines, keeper_now());
		if (ends_untold(keeper) && !keeper->finished)
			end(keeper, 0,
				"asked while nothing can be sent to the "
				"server");
	}
}

/* How much, and under which number: once for all programs that this process
 * becomes. */
static int size_up(struct keeper *keeper)
{
	uint64_t room, memory;
	int r;

	if (getrandom(&keeper->instance, sizeof(keeper->instance), 0) !=
		sizeof(keeper->instance))
		return tarn_fail(EIO, "no random numbers to be had");
	r = headroom(&room, NULL, 0);
	if (r < 0)
		return r;
	keeper->memory.budget =
		keeper->options.budget ? keeper->options.budget : room / 2;
	/* Address space that clients set aside for a pool: twice the machine,
	 * so that holes left by dropped segments never run it out. */
	memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
		 (uint64_t)sysconf(_SC_PAGESIZE);
	keeper->memory.reach = 64ull << 30;
	while (keeper->memory.reach < 2 * MAX(memory, keeper->memory.budget))
		keeper->memory.reach *= 2;
	placement_begin(keeper, false);
	return 0;
}

/* 1: another daemon serves the path. */
static int open_listener(struct keeper *keeper)
{
	const struct options *options = &keeper->options;
	int given = -1, r = systemd_socket(options->socket, &given);

	if (r >= 0)
		r = listener_open(options->socket, options->mode, given,
			&keeper->listener);
	return r;
}

static void drop_listener(void *arg, int fd)
{
	keeper_drop(arg, fd);
}

void keeper_hide(void)
{
#ifndef __SANITIZE_ADDRESS__ /* whose leak check attaches to the process */
	prctl(PR_SET_DUMPABLE, 0);
#endif
}

void keeper_adopt_begin(void)
{
	/* Its own, which cannot be opened any more after that. */
	oom_reopen();
	keeper_hide();
}

static int prepare(struct keeper *keeper)
{
	bool adopts = keeper->options.adopt >= 0;
	int r;

	keeper_hide();
	keeper_program_note(keeper);
	/* Else it could never be upgraded again; exec() has told the path. */
	while (!keeper->upgrade.program && adopts) {
		usleep(KEEPER_AGAIN_US);
		keeper_program_note(keeper);
	}
	keeper_limit_clients(keeper);
	/* While there are descriptors and memory for it. An upgraded keeper
	 * does not end for lack of these: both begin when they are needed. */
	keeper->dropper = keeper_fork_dropper(keeper);
	if (keeper->dropper < 0 && !adopts)
		return keeper->dropper;
	if ((fd_store_reserve(&keeper->fd_store) < 0 ||
		    fd_store_reserve(&keeper->undropped) < 0) &&
		!adopts)
		return -ENOMEM;
	while ((r = watch_signals(keeper)) < 0 && adopts)
		usleep(KEEPER_AGAIN_US);
	if (r == 0)
		keeper_reserve_take(keeper);
	return r;
}

static int begin(struct keeper *keeper)
{
	uint32_t own;
	int r = size_up(keeper);

	if (r == 0)
		r = prepare(keeper);
	/* The client that started it connects in a moment. If its limits leave
	 * too few descriptors for that, the daemon must not stay and refuse
	 * clients that have no such limits. */
	if (r == 0 && keeper->options.automatic)
		r = keeper_domain_for(keeper, geteuid(), &own);
	if (r == 0)
		r = keeper_server_start(keeper);
	if (keeper->listener)
		listener_set_close(keeper->listener, drop_listener, keeper);
	for (uint32_t i = 0; i < keeper->config.n_pools && r == 0; i++)
		r = keeper_pool_add(keeper, &keeper->config.pools[i]);
	if (r == 0 && keeper->inherited[0])
		log_warning("inherited", log_text("left", keeper->inherited));
	if (r == 0)
		log_info("start", log_text("socket", keeper->options.socket),
			log_u64("budget", keeper->memory.budget));
	return r;
}

/* As another program, which has held the listener all the while. */
static int go_on(struct keeper *keeper)
{
	int r = prepare(keeper);

	if (r == 0)
		r = keeper_adopt(keeper);
	if (r < 0)
		return r;
	listener_set_close(keeper->listener, drop_listener, keeper);
	keeper_server_begin(keeper);
	keeper_pools_update(keeper, &keeper->config);
	log_info("upgrade", log_text("version", PACKAGE_VERSION),
		log_u64("upgrades", keeper->upgrade.n),
		log_u64("clients", keeper->clients.n),
		log_u64("segments", keeper->memory.n_segments),
		log_u64("ms",
			(keeper_now() - keeper->upgrade.left_at) / 1000000));
	return 0;
}

/* Server and loaders end when their sockets do. One that a dead file system
 * holds is not waited for: it is killed when this process ends. */
static void wait_for_children(struct keeper *keeper)
{
	struct pollfd p = {.fd = keeper->signal_fd, .events = POLLIN};
	struct signalfd_siginfo info;
	int status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0)
			return;
		if (pid > 0) {
			if (pid == keeper->server.pid)
				note_farewell(keeper, status);
			continue;
		}
		if (poll(&p, 1, CHILDREN_WAIT_MS) <= 0)
			return;
		if (read(p.fd, &info, sizeof(info)) < 0)
			return;
	}
}

static void clean_up(struct keeper *keeper)
{
	keeper->listener = listener_close(keeper->listener);
	fd_close(keeper->server.sock);
	keeper_drop_end(keeper);
	if (keeper->memory.populator_pid > 0)
		kill(keeper->memory.populator_pid, SIGKILL);
	if (keeper->signal_fd >= 0)
		wait_for_children(keeper);
	keeper->server.writer = wire_writer_free(keeper->server.writer);
	keeper_loaders_free(keeper);
	fd_store_free(&keeper->fd_store);
	keeper_memory_free(keeper);
	free(keeper->upgrade.program);
	while (keeper_reserve_give(keeper))
		;
	fd_close(keeper->signal_fd);
	/* When a client sees its connection end, path, lock and memory are
	 * free already. */
	keeper_clients_end(keeper);
	keeper_drop_rest(keeper);
}

/* Memory is opened again for reading alone by its path there: without it no
 * client could get any. */
static int check_proc(void)
{
	_cleanup_fd_ int fd = memfd_create("tarn-check", MFD_CLOEXEC);
	_cleanup_fd_ int again = -1;

	return fd < 0 ? tarn_fail(errno, "memfd_create: %s",
				tarn_errno_text(errno))
		      : segment_reopen(fd, &again);
}

int keeper_run(const struct options *line, const struct options *options,
	const struct config *config)
{
	static struct keeper keeper;
	bool adopted = options->adopt >= 0;
	int r = 0;

	keeper.line = *line;
	keeper.options = *options;
	keeper.began_at = loop_now();
	keeper.config = *config;
	keeper.server.sock = keeper.signal_fd = keeper.dropper = -1;
	inherited_shed(options->automatic, keeper.inherited);
	hold_signals();
	if (!adopted) {
		/* Clients of other users could pass for its own. */
		r = overflow_uid_check("tarnd");
		if (r == 0)
			r = keeper_check_descriptors();
		if (r == 0)
			r = check_proc();
		if (r == 0)
			oom_protect();
		if (r == 0)
			r = open_listener(&keeper);
	}
	if (r == 1) {
		if (!options->automatic)
			fprintf(stderr,
				"tarnd: another daemon serves %s; stop "
				"it with tarn stop, or choose another "
				"--socket\n",
				options->socket);
		return options->automatic ? 0 : 1;
	}
	if (r == 0)
		r = adopted ? go_on(&keeper) : begin(&keeper);
	if (r < 0) {
		fprintf(stderr, "tarnd: %s\n", tarn_fail_message());
		keeper.status = 1;
	} else {
		systemd_notify("READY=1");
		serve(&keeper);
		systemd_notify("STOPPING=1");
	}
	clean_up(&keeper);
	return keeper.status;
}
