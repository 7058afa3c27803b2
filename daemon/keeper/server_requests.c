/* SPDX-License-Identifier: MIT */
/*
 * What the server asks of the keeper: each message is checked for its size, and
 * given to the file that does it.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"

/* Picked: descriptors and memory of other processes come back meanwhile, and
 * clients wait ten times as long for an answer. */
#define LAST_NS 1000000000ull
#define LAST_NAP_US 10000

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
		{D_DOMAIN_FAILED, sizeof(struct msg_domain)},
		{D_DOMAIN_EMPTY, sizeof(struct msg_domain)},
		{D_GROW, sizeof(struct msg_grow)},
		{D_SEGMENT_MAPPED, sizeof(struct msg_segment)},
		{D_DROP_SEGMENT, sizeof(struct msg_segment)},
		{D_LOADER, sizeof(struct msg_loader)},
		{D_DRAIN_ACCEPTS, sizeof(struct msg_drain)},
		{D_CLIENT_GONE, sizeof(struct msg_client)},
		{D_STORE_FD, sizeof(struct msg_fd_key)},
		{D_DROP_FD, sizeof(struct msg_fd_key)},
		{D_CLIENT_DOMAIN, sizeof(struct msg_client)},
		{D_LOADER_GONE, sizeof(struct msg_loader)},
		{D_LOADER_KILL, sizeof(struct msg_loader)},
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
	case D_DOMAIN_FAILED:
		return keeper_domain_failed(
			keeper, (struct msg_domain *)m->body);
	case D_DOMAIN_EMPTY:
		return keeper_domain_empty(
			keeper, (struct msg_domain *)m->body);
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
	case D_LOADER_KILL:
		keeper_loader_kill(
			keeper, ((struct msg_loader *)m->body)->number);
		return 0;
	case D_STOPPED:
		keeper->stopping = 1;
		return 0;
	case D_CLIENT_SPEAKS:
		client_speaks(keeper, (struct msg_client *)m->body);
		return 0;
	case D_DRAIN_ACCEPTS:
		keeper_drain_accepts(keeper, (struct msg_drain *)m->body);
		return 0;
	case D_CLIENT_GONE:
		keeper_client_forget(
			keeper, ((struct msg_client *)m->body)->number);
		return 0;
	case D_STORE_FD:
		return keeper_store_fd(keeper, m);
	case D_DROP_FD:
		keeper_forget_fd(keeper, (struct msg_fd_key *)m->body);
		return 0;
	case D_CLIENT_DOMAIN:
		return keeper_client_move(keeper, (struct msg_client *)m->body);
	default:
		keeper->finished = 1;
		return 0;
	}
}

/* ---- receiving ------------------------------------------------------- */

/* poll would tell of what lies in the socket without end. */
static void pause_reading(struct keeper *keeper)
{
	deadline_set(&keeper->deadlines, &keeper->server.read_at,
		keeper_now() + KEEPER_AGAIN_US * 1000ull);
}

static bool is_free_place(struct keeper *keeper)
{
	int fd = fd_dup(keeper->server.sock);
	bool yes = fd >= 0 && fd_store_make_room(&keeper->fd_store, fd) >= 0;

	fd_close(fd);
	return yes;
}

/* Could a descriptor that comes now be received, and kept? */
static bool is_place(struct keeper *keeper)
{
	return is_free_place(keeper) ||
	       (keeper_reserve_give(keeper) && is_free_place(keeper));
}

/* A message that comes when this process can open nothing more arrives without
 * the descriptor that it brought, and is not sent again: so it stays in the
 * socket until there is a place. */
static bool has_place(struct keeper *keeper)
{
	bool yes = is_place(keeper);

	if (!yes)
		pause_reading(keeper);
	return yes;
}

/* A transient shortage does not end the server: only the request that met it
 * fails. */
static int judge(struct keeper *keeper, const struct wire_message *m, int r)
{
	if (r >= 0 || r == -EPROTO || r == -EPIPE)
		return r;
	if (keeper_may_log(keeper, DOMAINS_MAX))
		log_error("message_failed", log_u64("type", m->type),
			log_text("error", tarn_fail_message()));
	return 0;
}

/* What wire_receive returned; 1: there may be more; or an error. */
static int take_received(struct keeper *keeper, struct wire_message *m, int r)
{
	if (r == 1)
		r = judge(keeper, m, take_message(keeper, m));
	else if (wire_is_short(r))
		r = judge(keeper, m, r);
	wire_message_clear(m);
	return r < 0 ? r : 1;
}

/* 1: there may be more; 0: there is none, for now; or an error. */
static int receive_one(struct keeper *keeper)
{
	struct wire_message m = {0};
	int r = wire_receive(keeper->server.sock, NULL, &m);

	/* Without memory it lies there still. */
	if (r == -ENOBUFS)
		pause_reading(keeper);
	if (r == -EAGAIN || r == -ENOBUFS)
		return 0;
	return take_received(keeper, &m, r);
}

int keeper_receive_server(struct keeper *keeper)
{
	int r = 1;

	while (r == 1 && has_place(keeper))
		r = receive_one(keeper);
	keeper_reserve_take(keeper);
	return MIN(r, 0);
}

/* ---- of a dead server ------------------------------------------------- */

/* As wire_receive; until then what lacks a descriptor or memory is tried
 * again, and stays in the socket. */
static int receive_until(
	struct keeper *keeper, uint64_t until, struct wire_message *m)
{
	for (;;) {
		bool waits = keeper_now() < until;
		bool lacks = waits &&
			     wire_next_header(keeper->server.sock).type ==
				     D_STORE_FD &&
			     !is_place(keeper);
		int r = lacks ? -ENOBUFS
			      : wire_receive(keeper->server.sock, NULL, m);

		if (!waits || r != -ENOBUFS)
			return r;
		usleep(LAST_NAP_US);
	}
}

/*
 * There will be no other time for them: the next server cannot begin before
 * their end, and does not say them again. So what lacks something is waited for
 * here. The wait is one for all of them, and has an end: without a server
 * nothing is answered. After it, messages that need nothing still count.
 */
void keeper_receive_last(struct keeper *keeper)
{
	uint64_t until = keeper_now() + LAST_NS;
	unsigned lost = 0;
	int r = 1;

	if (keeper->server.sock < 0)
		return;
	while (r == 1) {
		struct wire_message m = {0};

		r = receive_until(keeper, until, &m);
		lost += r == -EMFILE;
		if (r != -EAGAIN && r != -ENOBUFS)
			r = take_received(keeper, &m, r);
	}
	if (lost || r == -ENOBUFS)
		log_error("last_messages_lost", log_u64("descriptors", lost),
			log_u64("unread", r == -ENOBUFS),
			log_text("text",
				"a dead server had sent more than this process "
				"had descriptors or memory for: tensors of "
				"which the memory did not come are lost"));
}
