/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that are reserved for the keeper's messages.
 *
 * A message that a process receives when it has no descriptor left arrives
 * without those that it carried, and is not sent again: the server would wait
 * for ever for the memory, the loader or the client that it brought. Clients
 * can take all descriptors for a while, with what they publish.
 *
 * So the server reserves as many as a message may bring. It gives them up for
 * one message, and takes them again after it; as long as it cannot, the next
 * one waits in the socket. But the work that has them may wait for just that
 * message. So this goes on only for a while. Then the server ends, and with it
 * everything that it was sent: the keeper sends the next server the whole
 * state.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

/* Picked: a worker and a closer are done by then. */
#define NO_FDS_NS 3000000000ull
#define LOOK_NS 10000000ull

bool fd_reserve_take(struct server *server)
{
	while (server->fd_reserve.n < FD_RESERVE) {
		int fd = fd_dup(server->start.sock);

		if (fd < 0)
			break;
		server->fd_reserve.fds[server->fd_reserve.n++] = fd;
	}
	if (server->fd_reserve.n == FD_RESERVE)
		server->fd_reserve.lacking_since = 0;
	else if (!server->fd_reserve.lacking_since)
		server->fd_reserve.lacking_since = loop_now();
	return !server->fd_reserve.lacking_since;
}

void fd_reserve_give(struct server *server)
{
	while (server->fd_reserve.n)
		fd_close(server->fd_reserve.fds[--server->fd_reserve.n]);
}

void fd_reserve_watch(struct server *server)
{
	unsigned want = server->fd_reserve.lacking_since ? 0 : LOOP_READ;

	if (!wire_writer_empty(server->writer))
		want |= LOOP_WRITE;
	if (server->keeper_watch)
		loop_change(server->keeper_watch, want);
}

/* ---- between turns --------------------------------------------------- */

void fd_reserve_poll(struct server *server)
{
	uint64_t now = loop_now();

	if (!server->fd_reserve.lacking_since)
		return;
	if (fd_reserve_take(server)) {
		fd_reserve_watch(server);
		return;
	}
	/* The state that the keeper sends only takes more. */
	if (!server->serving ||
		now - server->fd_reserve.lacking_since >= NO_FDS_NS) {
		log_error("out_of_descriptors",
			log_u64("clients", server->n_clients),
			log_u64("loads",
				server->admissions.all.n[ADMISSION_LOADS]),
			log_u64("publications", server->n_publishes));
		_exit(1);
	}
	deadline_set(loop_deadlines(server->loop), &server->fd_reserve.timer,
		now + LOOK_NS);
}
