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
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/door.h"
#include "daemon/headroom.h"
#include "daemon/log.h"
#include "daemon/loop.h"

#define ACCEPT_PAUSE_MS 100          /* after it failed; picked */
#define CHILDREN_WAIT_MS 2000        /* at the end; picked */
#define SERVER_QUEUE_MAX (64u << 20) /* the server reads, or is stuck */

int keeper_tell(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r = wire_push(keeper->writer, type, 0, body, size, fds, n_fds);

	return r < 0 ? r : wire_flush(keeper->writer, keeper->server_sock);
}

/* ---- the server's wishes -------------------------------------------- */

static int answer_loader(struct keeper *keeper, const struct msg_loader *want)
{
	struct msg_loader message = *want;
	_cleanup_fd_ int sock = -1, ends = -1;
	int fds[2], r;

	if (want->rule >= keeper->n_rules)
		return tarn_fail(EPROTO, "there is no rule %u", want->rule);
	r = keeper_fork_loader(keeper, &message, &sock, &ends);
	if (r >= 0) {
		fds[0] = sock;
		fds[1] = ends;
		r = keeper_tell(
			keeper, D_LOADER_IS, &message, sizeof(message), fds, 2);
	}
	if (r >= 0) {
		log_info("loader_start", log_i64("pid", message.pid),
			log_u64("uid", message.uid));
		return 0;
	}
	/* pid 0 in the answer: there is none; one that was forked ends with
	 * its socket. */
	log_error("loader_failed", log_text("error", tarn_fail_message()));
	message.pid = 0;
	return keeper_tell(
		keeper, D_LOADER_IS, &message, sizeof(message), NULL, 0);
}

static int take_message(struct keeper *keeper, struct wire_message *m)
{
	static const struct {
		uint16_t type;
		uint32_t size;
	} sizes[] = {
		{D_RULE_MAPPED, sizeof(struct msg_rule)},
		{D_GROW, sizeof(struct msg_grow)},
		{D_SEGMENT_MAPPED, sizeof(struct msg_segment)},
		{D_LOADER, sizeof(struct msg_loader)},
		{D_DRAIN_ACCEPTS, 0},
		{D_CLIENT_GONE, sizeof(struct msg_client)},
		{D_KEEP, sizeof(struct msg_keep)},
		{D_FORGET, sizeof(struct msg_keep)},
		{D_CLIENT_RULE, sizeof(struct msg_client)},
		{D_BYE, 0},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i].type == m->type)
			break;
	if (i == ARRAY_SIZE(sizes) || sizes[i].size != m->size)
		return tarn_fail(
			EPROTO, "message %u of %u bytes", m->type, m->size);
	switch (m->type) {
	case D_RULE_MAPPED:
		return keeper_rule_mapped(
			keeper, ((struct msg_rule *)m->body)->rule);
	case D_GROW:
		return keeper_grow(keeper, (struct msg_grow *)m->body);
	case D_SEGMENT_MAPPED:
		return keeper_mapped(keeper, (struct msg_segment *)m->body);
	case D_LOADER:
		return answer_loader(keeper, (struct msg_loader *)m->body);
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

		if (r == -EAGAIN)
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
		else if (pid == keeper->server_pid && !keeper->finished) {
			keeper->server_pid = 0;
			/* Its good-bye may still lie in the socket. */
			hear_server(keeper);
			if (!keeper->finished)
				end(keeper, 1, "the server died");
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
			keeper_reload(keeper);
		} else if (keeper->draining) {
			end(keeper, 1, "asked twice");
		} else {
			keeper->draining = 1;
			door_shut(keeper->door);
			keeper_tell(keeper, D_TERMINATE, NULL, 0, NULL, 0);
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
	sigprocmask(SIG_SETMASK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	keeper->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (keeper->signal_fd < 0)
		return tarn_fail(errno, "cannot watch signals: %s",
			tarn_errno_text(errno));
	return 0;
}

/* ---- life ----------------------------------------------------------- */

static void serve(struct keeper *keeper)
{
	while (!keeper->finished) {
		struct pollfd p[] = {
			{.fd = keeper->server_sock, .events = POLLIN},
			{.fd = keeper->signal_fd, .events = POLLIN},
			{.fd = keeper->deaf ? -1 : door_fd(keeper->door),
				.events = POLLIN},
		};
		int r = 0, pause = keeper->deaf ? ACCEPT_PAUSE_MS : -1;

		if (!wire_writer_empty(keeper->writer))
			p[0].events |= POLLOUT;
		keeper->deaf = 0;
		if (poll(p, ARRAY_SIZE(p), pause) < 0 && errno != EINTR)
			return end(keeper, 1, "poll failed");
		if (p[0].revents & POLLOUT)
			r = wire_flush(keeper->writer, keeper->server_sock);
		if (r >= 0 && p[0].revents & (POLLIN | POLLHUP | POLLERR))
			r = hear_server(keeper);
		if (r < 0 && !keeper->finished) {
			log_error("server_garbage",
				log_text("error", tarn_fail_message()));
			return end(
				keeper, 1, "the server cannot be understood");
		}
		if (p[1].revents)
			take_signal(keeper);
		if (p[2].revents)
			keeper_accept(keeper);
	}
}

static int prepare(struct keeper *keeper)
{
	uint64_t room, memory;
	int r;

#ifndef __SANITIZE_ADDRESS__ /* whose leak check attaches to the process */
	prctl(PR_SET_DUMPABLE, 0);
#endif
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
	keeper_limit_clients(keeper);
	r = watch_signals(keeper);
	if (r == 0)
		r = wire_reader_new(&keeper->reader);
	if (r == 0)
		r = wire_writer_new(SERVER_QUEUE_MAX, &keeper->writer);
	return r;
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
	kept_free(&keeper->kept);
	keeper_memory_free(keeper);
	fd_close(keeper->signal_fd);
}

int keeper_run(const struct options *line, const struct options *options,
	const struct config *config)
{
	static struct keeper keeper;
	int r;

	keeper.line = *line;
	keeper.options = *options;
	keeper.began_at = loop_now();
	keeper.config = *config;
	keeper.server_sock = keeper.signal_fd = -1;
	r = door_open(options->socket, options->mode, &keeper.door);
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
		r = prepare(&keeper);
	if (r == 0)
		r = keeper_fork_server(&keeper);
	for (uint32_t i = 0; i < config->n_pools && r == 0; i++)
		r = keeper_pool_add(&keeper, &config->pools[i]);
	if (r < 0) {
		fprintf(stderr, "tarnd: %s\n", tarn_fail_message());
		keeper.status = 1;
	} else {
		log_info("start", log_text("socket", options->socket),
			log_u64("budget", keeper.budget));
		serve(&keeper);
	}
	clean_up(&keeper);
	return keeper.status;
}
