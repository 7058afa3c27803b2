/* SPDX-License-Identifier: MIT */
/*
 * Messages to the keeper.
 *
 * The server never waits for an answer. It waits until a message has left its
 * own queue only where it builds on the next server's knowing it.
 */
#include "daemon/server/server.h"

#include <poll.h>
#include <unistd.h>

#include "base/fail.h"
#include "daemon/loop/log.h"

/* Picked: longer than a fork of the keeper's takes on a busy machine. */
#define SENT_NS 10000000000ull

/* Does the caller learn that the message could not be sent? All others are sent
 * once, and the keeper waits for them, or counts by them. */
static bool may_fail(uint16_t type)
{
	switch (type) {
	case D_GROW:
	case D_DOMAIN_EMPTY:
	case D_LOADER:
	case D_LOADER_KILL:
	case D_DRAIN_ACCEPTS:
	case D_BYE:
	case D_STORE_FD:
	case D_CLIENT_DOMAIN:
	case D_CLIENT_SPEAKS:
		return true;
	default:
		return false;
	}
}

/* Does its sender build on it that the next server will know it: a name of
 * memory that is kept, a client that was welcomed, its pool? */
static bool is_built_on(uint16_t type)
{
	return type == D_STORE_FD || type == D_CLIENT_DOMAIN ||
	       type == D_CLIENT_SPEAKS;
}

/* A message in the socket outlives this server; one in the queue does not. So
 * the server waits until the queue is empty, before it commits anything or
 * answers. The keeper reads it soon: nothing it does waits for the server. If
 * it does not, the server ends before the commit, and the keeper sends the next
 * one what it has. */
static void wait_until_sent(struct server *server)
{
	uint64_t until = loop_now() + SENT_NS;
	struct pollfd p = {.fd = server->start.sock, .events = POLLOUT};
	int r;

	while ((r = wire_flush(server->writer, p.fd)) == 0 ||
		wire_is_short(r)) {
		if (loop_now() >= until) {
			log_error("keeper_unresponsive",
				log_text("error",
					"it took nothing for ten seconds"));
			_exit(1);
		}
		/* A socket with room would be reported without end. */
		if (r == 0)
			poll(&p, 1, 100);
		else
			usleep(1000);
	}
}

/* The end of the keeper is noticed where its messages are read. */
int server_send_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	const struct wire_out *out =
		WIRE_OUT_FDS(type, 0, body, size, fds, n_fds);
	int r;

	if (wire_try(server->writer, server->start.sock, out) == 1)
		return 0;
	r = wire_push(server->writer, out);
	if (r < 0) {
		log_error("keeper_unresponsive", log_u64("type", type),
			log_text("error", tarn_fail_message()));
		/* The keeper sends the next server what it has. */
		if (!may_fail(type))
			_exit(1);
		return r;
	}
	/* The keeper sends the next server the state of all else. */
	if (is_built_on(type))
		wait_until_sent(server);
	else
		wire_flush(server->writer, server->start.sock);
	fd_reserve_watch(server);
	return 0;
}
