/* SPDX-License-Identifier: MIT */
/*
 * The clients' end of the sockets: frames as the test has made them, and what
 * every client does with what it receives.
 */
#include "tests/fuzz/wire_peer.h"

#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "tests/fuzz/wire_keeper.h"
#include "tests/fuzz/wire_reply.h"
#include "tests/fuzz/wire_server.h"
#include "tests/kit/tap.h"

struct peer peers[PEERS];

void peer_send(struct peer *peer, const void *frame, size_t size,
	const int *fds, int n_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)frame, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t fds_size = sizeof(int) * (size_t)n_fds;

	if (peer->sock < 0)
		return;
	if (n_fds > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fds_size);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(fds_size);
		memcpy(CMSG_DATA(&control.align), fds, fds_size);
	}
	/* A socket that is full loses it; the server has enough then. */
	(void)!sendmsg(peer->sock, &msg, MSG_NOSIGNAL);
}

void peer_hang_up(struct peer *peer)
{
	peer->sock = fd_close(peer->sock);
	peer->page = lease_unmap(peer->page);
	wire_partial_clear(&peer->partial);
}

void peer_send_released(struct peer *peer, uint64_t lease)
{
	struct {
		struct wire_header head;
		struct msg_released body;
	} release = {
		.head = {WIRE_MAGIC, WIRE_RELEASED, 0, 0, sizeof(release.body)},
		.body = {.index = lease_index(lease),
			.generation = lease >> TABLE_INDEX_BITS}};

	peer_send(peer, &release, sizeof(release), NULL, 0);
}

const struct table *peer_table(const struct peer *peer)
{
	uint64_t number = (uint64_t)(peer - peers) + 1;

	for (const struct domain *domain = server.domains; domain;
		domain = domain->next)
		for (const struct client *c = domain->clients; c; c = c->next)
			if (c->number == number && peer->sock >= 0)
				return c->welcome ? &domain->table : NULL;
	return NULL;
}

static void resume(struct peer *peer, const struct wire_message *m)
{
	struct {
		struct wire_header head;
		struct msg_restarted body;
	} frame = {.head = {WIRE_MAGIC, WIRE_RESUME, 0, 1, sizeof(frame.body)}};

	memcpy(&frame.body, m->body, MIN(m->size, sizeof(frame.body)));
	peer_send(peer, &frame, sizeof(frame), NULL, 0);
}

bool peer_receive(struct peer *peer)
{
	const struct wire_reader reader = {.partial = &peer->partial};
	struct wire_message m = {0};
	int r;

	if (peer->sock < 0)
		return false;
	r = wire_receive(peer->sock, &reader, &m);
	if (r == -EAGAIN)
		return false;
	if (r == -EPIPE)
		peer_hang_up(peer);
	else if (r < 0)
		bail("a reply: %s", tarn_fail_message());
	if (r == 1)
		reply_judge(&m);
	if (r == 1 && m.type == WIRE_RESTARTED)
		resume(peer, &m);
	wire_message_clear(&m);
	return true;
}

void peer_begin(uint32_t i)
{
	struct peer *peer = &peers[i];
	int sock, lease;

	*peer = (struct peer) {0};
	make_pair(&sock, &peer->sock);
	must(lease_create(&lease), "a lease page");
	must(lease_map(lease, &peer->page), "a lease page");
	keeper_make_client(i + 1, sock, lease);
}
