/* SPDX-License-Identifier: MIT */
/*
 * The server's life as the keeper sees it: forked, sent the whole state,
 * reaped, forked again.
 *
 * The first server and the tenth begin alike. Each inherits the segments as
 * they are mapped here. Then the keeper sends it the rest, in an order in which
 * each message needs only those before it: domains, segments, loaders that may
 * still write, the memfds that the last server gave the keeper, and clients.
 * For the first server all of these are empty or new.
 *
 * The last messages of a dead server are still in the socket and count; its
 * requests do not, since no server waits for the answers. Messages that were on
 * their way to it are part of the state that the next one gets.
 *
 * The first death is answered at once. A server that keeps dying is started
 * again after a pause that doubles from death to death, up to a second: long
 * enough that a crash loop does not eat a processor, short enough that a client
 * that waits for an answer still gets one. The memory stays meanwhile, and
 * clients that have mapped it go on reading.
 */
#include "daemon/keeper/keeper.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/keeper/listener.h"
#include "daemon/loop/log.h"

#define SERVER_QUEUE_MAX (64u << 20) /* the server reads, or is stuck */
#define REPLAY_MS 10000 /* a server reads ten thousand messages meanwhile */

/* A server that has lived so long does not die of what the last one did. */
#define STEADY_NS 10000000000ull /* picked */
/* Before the second restart in a row, and before the tenth: clients give up
 * after CONNECTION_TIMEOUT_MS, ten times as long. */
#define PAUSE_FIRST_NS 10000000ull
#define PAUSE_MAX_NS 1000000000ull
#define RETRY_NS 1000000000ull /* when it could not be forked */

uint64_t keeper_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void keeper_call_in(struct keeper *keeper, struct deadline *deadline,
	uint64_t ns, void (*fn)(void *keeper))
{
	deadline_call(
		&keeper->deadlines, deadline, keeper_now() + ns, fn, keeper);
}

int keeper_flush(struct keeper *keeper)
{
	int r = wire_flush(keeper->server.writer, keeper->server.sock);

	if (r == 1)
		keeper->server.told = true;
	if (!wire_is_short(r))
		return r;
	/* A socket that is ready and takes nothing would keep us busy. */
	usleep(1000);
	return 0;
}

int keeper_send(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	const struct wire_out *out =
		WIRE_OUT_FDS(type, 0, body, size, fds, n_fds);
	int r;

	/* The next server gets the whole state. */
	if (keeper->server.sock < 0)
		return 0;
	if (wire_try(keeper->server.writer, keeper->server.sock, out) == 1)
		return 0;
	r = wire_push(keeper->server.writer, out);
	/* The queue will be sent: to report a failure here would be to forget
	 * a message that the server is about to receive. */
	if (r >= 0)
		keeper_flush(keeper);
	return r;
}

/* The server would wait for ever for the lost message, or serve from a state
 * that is out of date: the next server gets the whole state. */
static void kill_unresponsive(
	const struct keeper *keeper, const char *event, uint16_t type)
{
	log_error(event, log_u64("type", type),
		log_text("error", tarn_fail_message()));
	if (keeper->server.pid > 0)
		kill(keeper->server.pid, SIGKILL);
}

void keeper_insist(
	struct keeper *keeper, uint16_t type, const void *body, size_t size)
{
	if (keeper_send(keeper, type, body, size, NULL, 0) < 0)
		kill_unresponsive(keeper, "server_unresponsive", type);
}

void keeper_terminate_server(struct keeper *keeper)
{
	const struct wire_out *out = WIRE_OUT(D_TERMINATE, 0, NULL, 0);

	if (keeper->server.sock < 0 ||
		wire_try(NULL, keeper->server.sock, out) != 1)
		keeper_insist(keeper, D_TERMINATE, NULL, 0);
}

/* ---- telling a new one ------------------------------------------------ */

static uint64_t replay_end(void)
{
	return keeper_now() + REPLAY_MS * 1000000ull;
}

/* Waits, unlike everything else here: each descriptor would be duplicated for
 * the queue, and there are as many as this process may have. It waits for all
 * messages together as long as for one, if none can be sent: where the kernel
 * refuses descriptors for long, as others leave theirs unread, the rest is
 * queued, and sent when they are read; meanwhile the keeper takes signals. */
void keeper_replay(struct keeper *keeper, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	struct pollfd p = {.fd = keeper->server.sock, .events = POLLOUT};
	int r = keeper_send(keeper, type, body, size, fds, n_fds);

	while (keeper->server.sock >= 0 &&
		!wire_writer_empty(keeper->server.writer)) {
		if (keeper_now() > keeper->server.replay_until || r < 0)
			break;
		poll(&p, 1, 100);
		r = keeper_flush(keeper);
		if (r == -EPIPE)
			return;
	}
	if (keeper->server.sock >= 0 &&
		wire_writer_empty(keeper->server.writer))
		keeper->server.replay_until = replay_end();
	/* Half of the state would be worse than none: the server would take
	 * memory of which it is not told for free. */
	if (r < 0)
		kill_unresponsive(keeper, "replay_failed", type);
}

static void replay_all(struct keeper *keeper)
{
	struct keeper_client *client = NULL;

	keeper->server.replay_until = replay_end();
	keeper_domains_replay(keeper);
	keeper_segments_replay(keeper);
	keeper_loaders_replay(keeper);
	keeper_fds_replay(keeper);
	while ((client = keeper_client_next(keeper, client))) {
		keeper_replay(keeper, D_CLIENT, &client->who,
			sizeof(client->who),
			(int[]) {client->socket, client->lease_fd}, 2);
		client->who.flags |= CLIENT_SEEN;
	}
	keeper_replay(keeper, D_TAKEN_OVER, NULL, 0, NULL, 0);
	if (keeper->draining || keeper->stopping)
		keeper_replay(keeper, D_TERMINATE, NULL, 0, NULL, 0);
	keeper->server.told = wire_writer_empty(keeper->server.writer);
}

int keeper_server_start(struct keeper *keeper)
{
	int r;

	keeper->server.began_at = keeper_now();
	keeper->server.told = false;
	keeper->server.writer = wire_writer_free(keeper->server.writer);
	r = wire_writer_new(SERVER_QUEUE_MAX, &keeper->server.writer);
	if (r >= 0)
		r = keeper_fork_server(keeper);
	if (r >= 0)
		replay_all(keeper);
	return r;
}

/* ---- burying one ------------------------------------------------------ */

static void begin_again(void *keeper)
{
	keeper_server_begin(keeper);
}

void keeper_server_begin(struct keeper *keeper)
{
	deadline_set(&keeper->deadlines, &keeper->server.resume_at, 0);
	/* Segments that were populated while there was no server. */
	keeper_memory_finish(keeper);
	/* It may have been shut because the last one wanted to end. */
	if (keeper->unbound && !keeper->draining &&
		listener_rebind(keeper->listener) < 0)
		log_error("listener_failed",
			log_text("error", tarn_fail_message()));
	keeper->unbound = 0;
	if (keeper_server_start(keeper) >= 0)
		return;
	log_error("restart_failed", log_text("error", tarn_fail_message()));
	keeper_call_in(
		keeper, &keeper->server.resume_at, RETRY_NS, begin_again);
}

/* Before the next server is started; the pause after that one's death is
 * twice as long, unless it lives for a while. */
static uint64_t next_pause(struct keeper *keeper)
{
	uint64_t pause = keeper->server.pause;

	if (keeper_now() - keeper->server.began_at >= STEADY_NS)
		pause = 0;
	keeper->server.pause =
		pause ? MIN(2 * pause, PAUSE_MAX_NS) : PAUSE_FIRST_NS;
	return pause;
}

static void log_death(const struct keeper *keeper, pid_t pid, int status)
{
	log_error("server_died", log_i64("pid", pid),
		log_i64("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0),
		log_i64("status", WIFEXITED(status) ? WEXITSTATUS(status) : 0),
		log_u64("restarts", keeper->server.restarts));
}

void keeper_server_gone(struct keeper *keeper)
{
	keeper->server.sock = fd_close(keeper->server.sock);
}

void keeper_server_died(struct keeper *keeper, int status)
{
	pid_t pid = keeper->server.pid;
	uint64_t pause;

	keeper->server.pid = 0;
	keeper_server_gone(keeper);
	if (keeper->upgrade.waiting) {
		keeper->server.ended++;
		keeper->server.ended_last = true;
		return keeper_upgrade_go_on(keeper);
	}
	pause = next_pause(keeper);
	keeper->server.restarts++;
	keeper->server.ended_last = false;
	log_death(keeper, pid, status);
	keeper_memory_finish(keeper);
	if (!pause)
		return keeper_server_begin(keeper);
	keeper_call_in(keeper, &keeper->server.resume_at, pause, begin_again);
	log_error("pause", log_u64("ms", pause / 1000000u),
		log_text("text",
			"the server keeps dying; the memory is kept, and the "
			"next server is started after this pause"));
}

void keeper_server_resume(struct keeper *keeper)
{
	keeper->server.pause = 0;
	if (!keeper->server.pid)
		keeper_server_begin(keeper);
}
