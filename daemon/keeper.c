/* SPDX-License-Identifier: MIT */
/*
 * The keeper's loop: accept, create, fork, reap. See keeper.h for why it does
 * so little.
 *
 * It never waits for anybody: the server's socket is non-blocking with a queue
 * behind it, growing memory is a child's work, and clients are only accepted.
 */
#include "daemon/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "config.h"
#include "daemon/door.h"
#include "base/headroom.h"
#include "daemon/log.h"
#include "daemon/loop.h"
#include "daemon/oom.h"
#include "daemon/systemd.h"

#define ACCEPT_PAUSE_NS 100000000ull /* after it failed; picked */
#define CHILDREN_WAIT_MS 2000        /* at the end; picked */

/* ---- the server's wishes -------------------------------------------- */

static void client_speaks(struct keeper *keeper, const struct msg_client *m)
{
	struct keeper_client *client = keeper_client_find(keeper, m->number);

	if (!client)
		return;
	client->who.version = m->version;
	client->who.flags |= m->flags & (CLIENT_CHILD | CLIENT_MET);
	if (m->flags & CLIENT_MET)
		client->who.pid = m->pid;
}

static bool has_its_size(const struct wire_message *m)
{
	static const struct {
		uint16_t type;
		uint32_t size;
	} sizes[] = {
		{D_RULE_MAPPED, sizeof(struct msg_rule)},
		{D_GROW, sizeof(struct msg_grow)},
		{D_SEGMENT_MAPPED, sizeof(struct msg_segment)},
		{D_DROP_SEGMENT, sizeof(struct msg_segment)},
		{D_LOADER, sizeof(struct msg_loader)},
		{D_DRAIN_ACCEPTS, 0},
		{D_CLIENT_GONE, sizeof(struct msg_client)},
		{D_KEEP, sizeof(struct msg_keep)},
		{D_FORGET, sizeof(struct msg_keep)},
		{D_CLIENT_RULE, sizeof(struct msg_client)},
		{D_LOADER_GONE, sizeof(struct msg_loader)},
		{D_CLIENT_SPEAKS, sizeof(struct msg_client)},
		{D_STOPPED, 0},
		{D_BYE, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i].type == m->type)
			return sizes[i].size == m->size;
	return false;
}

static int take_message(struct keeper *keeper, struct wire_message *m)
{
	if (!has_its_size(m))
		return tarn_fail(
			EPROTO, "message %u of %u bytes", m->type, m->size);
	switch (m->type) {
	case D_RULE_MAPPED:
		return keeper_rule_mapped(keeper, (struct msg_rule *)m->body);
	case D_GROW:
		return keeper_grow(keeper, (struct msg_grow *)m->body);
	case D_DROP_SEGMENT:
		return keeper_drop_segment(
			keeper, (struct msg_segment *)m->body);
	case D_SEGMENT_MAPPED:
		return keeper_mapped(keeper, (struct msg_segment *)m->body);
	case D_LOADER:
		return keeper_loader_start(
			keeper, (struct msg_loader *)m->body);
	case D_LOADER_GONE:
		keeper_loader_gone(
			keeper, ((struct msg_loader *)m->body)->number);
		return 0;
	case D_STOPPED:
		keeper->stopping = 1;
		return 0;
	case D_CLIENT_SPEAKS:
		client_speaks(keeper, (struct msg_client *)m->body);
		return 0;
	case D_DRAIN_ACCEPTS:
		keeper_drain_accepts(keeper);
		return 0;
	case D_CLIENT_GONE:
		keeper_client_forget(
			keeper, ((struct msg_client *)m->body)->number);
		return 0;
	case D_KEEP:
		return keeper_keep(keeper, m);
	case D_FORGET:
		kept_drop(&keeper->kept, (struct msg_keep *)m->body);
		return 0;
	case D_CLIENT_RULE:
		return keeper_client_move(keeper, (struct msg_client *)m->body);
	default:
		keeper->finished = 1;
		return 0;
	}
}

static int hear_server(struct keeper *keeper)
{
	for (;;) {
		struct wire_message m = {0};
		int r = wire_receive(
			keeper->reader, keeper->server_sock, NULL, &m);

		/* Without memory it lies there still: poll tells of it. */
		if (r == -EAGAIN || r == -ENOBUFS)
			return 0;
		if (r == 1) {
			r = take_message(keeper, &m);
			/* What is only short is no reason to give up all
			 * memory: what was asked for does not come about. */
			if (r < 0 && r != -EPROTO && r != -EPIPE) {
				log_error("message_failed",
					log_u64("type", m.type),
					log_text("error", tarn_fail_message()));
				r = 0;
			}
		}
		wire_message_clear(&m);
		if (r < 0)
			return r;
	}
}

void keeper_hear_last(struct keeper *keeper)
{
	if (keeper->server_sock >= 0)
		hear_server(keeper);
}

/* ---- signals and children ------------------------------------------- */

static void end(struct keeper *keeper, int status, const char *why)
{
	log_info("end", log_text("why", why), log_i64("status", status));
	keeper->finished = 1;
	keeper->status = status;
}

static void reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : ENOSPC;

		if (pid == keeper->populator_pid)
			keeper_populated(keeper, code);
		else if (pid == keeper->checker_pid)
			keeper_upgrade_checked(keeper, status);
		else if (pid == keeper->server_pid && !keeper->finished) {
			/* What it said last, its good-bye for one. */
			keeper_hear_last(keeper);
			if (!keeper->finished)
				keeper_server_died(keeper, status);
		}
		/* A loader: the server sees its socket end. */
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
		} else if (!keeper->server_pid) {
			end(keeper, 0, "asked while no server runs");
		} else {
			keeper->draining = 1;
			systemd_notify("STOPPING=1\nSTATUS=finishing loads");
			door_shut(keeper->door);
			keeper_insist(keeper, D_TERMINATE, NULL, 0);
		}
	}
}

static int watch_signals(struct keeper *keeper)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
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

static int pause_ms(const struct keeper *keeper)
{
	uint64_t now = keeper_now(), at = UINT64_MAX;

	if (keeper->resume_at)
		at = keeper->resume_at;
	if (keeper->check_until)
		at = MIN(at, keeper->check_until);
	if (keeper->rules_at)
		at = MIN(at, keeper->rules_at);
	if (keeper->deaf)
		at = MIN(at, now + ACCEPT_PAUSE_NS);
	if (at == UINT64_MAX)
		return -1;
	return at > now ? (int)((at - now) / 1000000 + 1) : 0;
}

/* The socket: what it says, and its end. Its death is told by a signal. */
static void serve_server(struct keeper *keeper, short ready)
{
	int r = 0;

	if (ready & POLLOUT)
		r = keeper_flush(keeper);
	if (r >= 0 || r == -EPIPE)
		r = hear_server(keeper);
	if (r >= 0 || keeper->finished)
		return;
	keeper_server_gone(keeper);
	if (r == -EPIPE)
		return;
	log_error("server_garbage", log_text("error", tarn_fail_message()));
	if (keeper->server_pid > 0)
		kill(keeper->server_pid, SIGKILL);
}

static void serve(struct keeper *keeper)
{
	while (!keeper->finished) {
		/* Who comes while nobody answers waits at the door. */
		bool open = !keeper->deaf && !keeper->resume_at;
		struct pollfd p[] = {
			{.fd = keeper->server_sock, .events = POLLIN},
			{.fd = keeper->signal_fd, .events = POLLIN},
			{.fd = open ? door_poll_fd(keeper->door) : -1,
				.events = POLLIN},
		};
		int pause = pause_ms(keeper);

		if (!wire_writer_empty(keeper->writer))
			p[0].events |= POLLOUT;
		keeper->deaf = 0;
		if (poll(p, ARRAY_SIZE(p), pause) < 0 && errno != EINTR)
			return end(keeper, 1, "poll failed");
		if (p[0].revents)
			serve_server(keeper, p[0].revents);
		if (p[1].revents)
			take_signal(keeper);
		if (p[2].revents)
			keeper_accept(keeper);
		keeper_rules_look(keeper);
		keeper_upgrade_look(keeper);
		if (keeper->resume_at && keeper_now() >= keeper->resume_at)
			keeper_server_resume(keeper);
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
	keeper->budget =
		keeper->options.budget ? keeper->options.budget : room / 2;
	/* Address space that clients set aside for a pool: twice the machine,
	 * so that holes left by dropped segments never run it out. */
	memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * 4096;
	keeper->reach = 64ull << 30;
	while (keeper->reach < 2 * MAX(memory, keeper->budget))
		keeper->reach *= 2;
	return 0;
}

/* 1: somebody else serves there. */
static int open_door(struct keeper *keeper)
{
	const struct options *options = &keeper->options;
	int given = -1, r = systemd_socket(options->socket, &given);

	if (r >= 0)
		r = door_open(
			options->socket, options->mode, given, &keeper->door);
	return r;
}

/* Who started it may have had a reason to limit himself; it serves all of his
 * processes, and holds what they share. */
static void raise_limit(int which)
{
	struct rlimit limit;

	if (getrlimit(which, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(which, &limit);
}

static int prepare(struct keeper *keeper)
{
#ifndef __SANITIZE_ADDRESS__ /* whose leak check attaches to the process */
	prctl(PR_SET_DUMPABLE, 0);
#endif
	raise_limit(RLIMIT_AS);
	raise_limit(RLIMIT_FSIZE);
	keeper_program_note(keeper);
	keeper_limit_clients(keeper);
	return kept_begin(&keeper->kept) < 0 ? -ENOMEM : watch_signals(keeper);
}

static int begin(struct keeper *keeper)
{
	uint32_t own;
	int r = size_up(keeper);

	if (r == 0)
		r = prepare(keeper);
	/* Who started it comes in a moment. Where that cannot be, under a limit
	 * of his, it must not stay and turn away those who have none. */
	if (r == 0 && keeper->options.automatic)
		r = keeper_rule_for(keeper, geteuid(), &own);
	if (r == 0)
		r = keeper_server_start(keeper);
	for (uint32_t i = 0; i < keeper->config.n_pools && r == 0; i++)
		r = keeper_pool_add(keeper, &keeper->config.pools[i]);
	if (r == 0)
		log_info("start", log_text("socket", keeper->options.socket),
			log_u64("budget", keeper->budget));
	return r;
}

/* As another program, which has held the door all the while. */
static int go_on(struct keeper *keeper)
{
	int r = prepare(keeper);

	if (r == 0)
		r = keeper_adopt(keeper);
	if (r < 0)
		return r;
	keeper_server_begin(keeper);
	keeper_pools_update(keeper, &keeper->config);
	log_info("upgrade", log_text("version", PACKAGE_VERSION),
		log_u64("upgrades", keeper->upgrades),
		log_u64("clients", keeper->n_clients),
		log_u64("segments", keeper->n_segments),
		log_u64("ms", (keeper_now() - keeper->left_at) / 1000000));
	return 0;
}

/* Server and loaders end when their sockets do. One that a dead file system
 * holds is not waited for: it is killed when this process ends. */
static void wait_for_children(struct keeper *keeper)
{
	struct pollfd p = {.fd = keeper->signal_fd, .events = POLLIN};
	struct signalfd_siginfo info;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		if (pid < 0)
			return;
		if (pid > 0)
			continue;
		if (poll(&p, 1, CHILDREN_WAIT_MS) <= 0)
			return;
		if (read(p.fd, &info, sizeof(info)) < 0)
			return;
	}
}

static void clean_up(struct keeper *keeper)
{
	keeper->door = door_close(keeper->door);
	keeper_clients_free(keeper);
	fd_close(keeper->server_sock);
	if (keeper->populator_pid > 0)
		kill(keeper->populator_pid, SIGKILL);
	if (keeper->signal_fd >= 0)
		wait_for_children(keeper);
	keeper->reader = wire_reader_free(keeper->reader);
	keeper->writer = wire_writer_free(keeper->writer);
	keeper_loaders_free(keeper);
	kept_free(&keeper->kept);
	keeper_memory_free(keeper);
	free(keeper->program);
	fd_close(keeper->signal_fd);
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
	keeper.server_sock = keeper.signal_fd = -1;
	/* Before it is undumpable. */
	if (adopted) {
		oom_reopen();
	} else {
		oom_protect();
		r = open_door(&keeper);
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
