/* SPDX-License-Identifier: MIT */
/*
 * Messages to the keeper.
 *
 * The server never waits for an answer. It waits until a message has left its
 * own queue only where it builds on the next server's knowing it.
 */
#include "daemon/server/server.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/loop/log.h"

/* Picked: longer than a fork of the keeper's takes on a busy machine. */
#define SENT_NS 10000000000ull
/* Picked: others that use up what this user may have in flight are soon read, or
 * do not read at all. Then no message waits for a second. */
#define SHORT_NS 20000000ull
#define AGAIN_NS 1000000000ull

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
		if (r == -ETOOMANYREFS)
			in_flight_refuse_one(server);
		/* A socket with room would be reported without end. */
		if (r == 0)
			poll(&p, 1, 100);
		else
			usleep(1000);
	}
}

/*
 * 1: it was sent; 0: it goes into the queue. -ETOOMANYREFS: the kernel refuses
 * descriptors, which it may do for as long as others leave theirs unread. In the
 * queue the message would keep all clients waiting, and then cost the server's
 * life; so only what it is for is refused, and the client asks again.
 */
static int try_fds(struct server *server, const struct wire_out *out)
{
	uint64_t now = loop_now(), *gave_up_at = &server->in_flight.gave_up_at;
	bool waits = now - *gave_up_at >= AGAIN_NS;
	int r;

	for (;;) {
		r = wire_flush(server->writer, server->start.sock);
		if (r == 1)
			r = wire_try(server->writer, server->start.sock, out);
		if (r != -ETOOMANYREFS)
			return MAX(r, 0);
		in_flight_refuse_one(server);
		if (!waits || loop_now() - now >= SHORT_NS) {
			*gave_up_at = waits ? loop_now() : *gave_up_at;
			return tarn_fail(ETOOMANYREFS,
				"the daemon's user has as many descriptors in "
				"flight as the kernel allows: other processes "
				"do not read those that were sent to them; try "
				"again when they have");
		}
		usleep(1000);
	}
}

/* The end of the keeper is noticed where its messages are read. */
int server_send_keeper(struct server *server, uint16_t type, const void *body,
	size_t size, const int *fds, int n_fds)
{
	const struct wire_out *out =
		WIRE_OUT_FDS(type, 0, body, size, fds, n_fds);
	int r = n_fds ? try_fds(server, out)
		      : wire_try(server->writer, server->start.sock, out);

	if (r == 1 || r == -ETOOMANYREFS)
		return MIN(r, 0);
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
