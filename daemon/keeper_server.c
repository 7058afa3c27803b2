/* SPDX-License-Identifier: MIT */
/*
 * The server's life as the keeper sees it: begun, told everything, buried,
 * begun again.
 *
 * The idea: the first server and the tenth begin alike. Each inherits the
 * tables and segments as they are mapped here, and is then told, in an order
 * in which each message needs only those before it, what else there is: rules,
 * segments, loaders that may still write, what the last one had kept, and
 * clients. For the first, all of these are empty or new.
 *
 * What the dead one had said last still lies in the socket and counts; what it
 * had asked for does not, since nobody waits for it any more. What was on its
 * way to it is part of what the next one is told.
 *
 * One that dies again and again would do so for ever: after a few deaths in a
 * row none is forked for a while. The memory stays, and those who have mapped
 * it go on reading.
 */
#include "daemon/keeper.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/door.h"
#include "daemon/log.h"

#define SERVER_QUEUE_MAX (64u << 20) /* the server reads, or is stuck */
#define REPLAY_MS 10000 /* a server reads ten thousand messages meanwhile */

/* Deaths in a row that are too many: picked, as the pause after them. */
#define DEATHS_NS 10000000000ull
#define PAUSE_NS 60000000000ull
#define RETRY_NS 1000000000ull /* when it could not be forked */

uint64_t keeper_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int keeper_flush(struct keeper *keeper)
{
	int r = wire_flush(keeper->writer, keeper->server_sock);

	if (!wire_is_short(r))
		return r;
	/* A socket that is ready and takes nothing would keep us busy. */
	usleep(1000);
	return 0;
}

int keeper_tell(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	int r;

	/* The next one is told all that there is. */
	if (keeper->server_sock < 0)
		return 0;
	if (wire_try(keeper->writer, keeper->server_sock, type, 0, body, size,
		    fds, n_fds))
		return 0;
	r = wire_push(keeper->writer, type, 0, body, size, fds, n_fds);
	/* What is queued will be sent: to say that it failed would be to
	 * forget what the server is about to hear of. */
	if (r >= 0)
		keeper_flush(keeper);
	return r;
}

/* It would wait for ever for what it does not hear, or serve by what is no
 * more: the next one is told all that there is. */
static void end_deaf(
	const struct keeper *keeper, const char *event, uint16_t type)
{
	log_error(event, log_u64("type", type),
		log_text("error", tarn_fail_message()));
	if (keeper->server_pid > 0)
		kill(keeper->server_pid, SIGKILL);
}

void keeper_insist(
	struct keeper *keeper, uint16_t type, const void *body, size_t size)
{
	if (keeper_tell(keeper, type, body, size, NULL, 0) < 0)
		end_deaf(keeper, "server_deaf", type);
}

/* ---- telling a new one ------------------------------------------------ */

/* Waits, unlike everything else here: each descriptor would be duplicated for
 * the queue, and there are as many as this process may have. */
void keeper_replay(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	struct pollfd p = {.fd = keeper->server_sock, .events = POLLOUT};
	uint64_t until = keeper_now() + REPLAY_MS * 1000000ull;
	int r = keeper_tell(keeper, type, body, size, fds, n_fds);

	while (keeper->server_sock >= 0 && !wire_writer_empty(keeper->writer)) {
		if (keeper_now() > until || r < 0)
			break;
		poll(&p, 1, 100);
		r = keeper_flush(keeper);
		if (r == -EPIPE)
			return;
	}
	/* Half of it would be worse than nothing: it would take what it does
	 * not hear of for free. */
	if (r < 0)
		end_deaf(keeper, "replay_failed", type);
}

static void replay_all(struct keeper *keeper)
{
	struct keeper_client *client = NULL;

	keeper_rules_tell(keeper);
	keeper_segments_tell(keeper);
	keeper_loaders_tell(keeper);
	keeper_kept_tell(keeper);
	while ((client = keeper_client_next(keeper, client))) {
		keeper_replay(keeper, D_CLIENT, &client->who,
			sizeof(client->who),
			(int[]) {client->socket, client->lease_fd}, 2);
		client->who.flags |= CLIENT_SEEN;
	}
	keeper_replay(keeper, D_TAKEN_OVER, NULL, 0, NULL, 0);
	if (keeper->draining || keeper->stopping)
		keeper_replay(keeper, D_TERMINATE, NULL, 0, NULL, 0);
}

int keeper_server_start(struct keeper *keeper)
{
	int r;

	keeper->reader = wire_reader_free(keeper->reader);
	keeper->writer = wire_writer_free(keeper->writer);
	r = wire_reader_new(&keeper->reader);
	if (r >= 0)
		r = wire_writer_new(SERVER_QUEUE_MAX, &keeper->writer);
	if (r >= 0)
		r = keeper_rules_settle(keeper);
	if (r >= 0)
		r = keeper_fork_server(keeper);
	if (r >= 0)
		replay_all(keeper);
	return r;
}

/* ---- burying one ------------------------------------------------------ */

void keeper_server_begin(struct keeper *keeper)
{
	keeper->resume_at = 0;
	/* What was populated while there was none. */
	keeper_memory_settle(keeper);
	/* It may have been shut because the last one wanted to end. */
	if (keeper->shut && !keeper->draining && door_reopen(keeper->door) < 0)
		log_error(
			"door_failed", log_text("error", tarn_fail_message()));
	keeper->shut = 0;
	if (keeper_server_start(keeper) >= 0)
		return;
	log_error("restart_failed", log_text("error", tarn_fail_message()));
	keeper->resume_at = keeper_now() + RETRY_NS;
}

/* The oldest of the last few was not long ago. */
static bool dies_often(struct keeper *keeper)
{
	uint64_t *deaths = keeper->deaths, now = keeper_now();
	bool often = deaths[0] && now - deaths[0] < DEATHS_NS;

	memmove(deaths, deaths + 1, sizeof(keeper->deaths) - sizeof(*deaths));
	deaths[ARRAY_SIZE(keeper->deaths) - 1] = now;
	return often;
}

static void say_how(const struct keeper *keeper, pid_t pid, int status)
{
	log_error("server_died", log_i64("pid", pid),
		log_i64("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0),
		log_i64("status", WIFEXITED(status) ? WEXITSTATUS(status) : 0),
		log_u64("restarts", keeper->restarts));
}

void keeper_server_gone(struct keeper *keeper)
{
	keeper->server_sock = fd_close(keeper->server_sock);
}

void keeper_server_died(struct keeper *keeper, int status)
{
	pid_t pid = keeper->server_pid;

	keeper->server_pid = 0;
	keeper_server_gone(keeper);
	keeper->restarts++;
	keeper->ended_last = false;
	say_how(keeper, pid, status);
	keeper_memory_settle(keeper);
	if (!dies_often(keeper))
		return keeper_server_begin(keeper);
	keeper->resume_at = keeper_now() + PAUSE_NS;
	log_error("pause", log_u64("deaths", ARRAY_SIZE(keeper->deaths) + 1),
		log_u64("seconds", PAUSE_NS / 1000000000u),
		log_text("text",
			"the server dies again and again; the memory is kept, "
			"SIGHUP makes it try again at once"));
}

void keeper_server_resume(struct keeper *keeper)
{
	memset(keeper->deaths, 0, sizeof(keeper->deaths));
	if (!keeper->server_pid)
		keeper_server_begin(keeper);
}
