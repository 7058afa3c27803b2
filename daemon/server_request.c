/* SPDX-License-Identifier: MIT */
/*
 * What a client asks: each message, judged and answered.
 *
 * Length, version, order and rights are judged here, before whoever knows what
 * is asked sees the message. -EPROTO: nonsense, which ends the connection; all
 * else is a refusal.
 */
#include "daemon/server.h"

#include <sys/ioctl.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "daemon/log.h"

/* Descriptors on their way count against what its whole user may have in
 * flight, so they are sent to who reads them only. What lies unread in the
 * socket is in bytes of kernel memory, some thousand a message. */
#define UNREAD_MAX 16384
/* A client whose other threads are answered at length may have had no time to
 * read: it is told so, behind all that, and asks again when it has. Picked:
 * more than it has threads. */
#define UNREAD_TIMES 1000

static int check_reads(struct client *client)
{
	int unread = 0;

	if (ioctl(client->sock, SIOCOUTQ, &unread) < 0 || unread <= UNREAD_MAX)
		client->n_unread = 0;
	else if (client->n_unread++ < UNREAD_TIMES)
		return tarn_fail(EAGAIN,
			"descriptors are sent to who has read what he was sent "
			"before; ask again");
	else
		return tarn_fail(EPROTO,
			"it asks for descriptors and does not read them");
	return 0;
}

static int check_hello(
	const struct client *client, const struct msg_hello *h, bool again)
{
	if (h->version < PROTOCOL_OLDEST || h->version_min > PROTOCOL_VERSION)
		return tarn_fail(EPROTO,
			"the client speaks protocol %u to %u, this daemon %u "
			"to %u; use the same tarn on both sides",
			h->version_min, h->version, PROTOCOL_OLDEST,
			PROTOCOL_VERSION);
	if (client->welcome && !again)
		return tarn_fail(EPROTO, "a second hello");
	return 0;
}

static void welcome(struct client *client, uint32_t serial)
{
	const struct server_start *start = &client->rule->server->start;
	struct msg_welcome body = {
		.version = client->version,
		.flags = client->version > 1
				 ? WELCOME_SINCE | WELCOME_LOAD_SINCE
				 : 0,
		.instance = start->instance,
		.keeper_pid = start->keeper_pid,
		.server_pid = getpid(),
	};
	int fds[2] = {client->rule->table_fd, client->lease_fd};

	client->welcome = true;
	client_reply(client, WIRE_WELCOME, serial, &body, sizeof(body), fds, 2);
}

static int hello(struct client *client, const struct wire_message *m)
{
	const struct msg_hello *hello = (const struct msg_hello *)m->body;
	struct msg_client speaks = {.number = client->number};
	size_t pool_size = m->size - sizeof(*hello);
	int r = check_hello(client, hello, m->again);

	/* Each brings two descriptors. */
	if (r == 0)
		r = check_reads(client);
	if (r == 0 && pool_size && !client->welcome)
		r = client_enter(client, (const char *)(hello + 1), pool_size);
	if (r < 0)
		return r;
	client->version = MIN(hello->version, PROTOCOL_VERSION);
	speaks.version = client->version;
	/* Who connected is the parent, who may end before it. */
	if (hello->flags & HELLO_CHILD && client->version > 1) {
		speaks.flags = CLIENT_CHILD;
		process_expect(client);
	}
	/* Before it can ask for anything: the next server must know how to
	 * speak to it. */
	r = server_tell_keeper(client->rule->server, D_CLIENT_SPEAKS, &speaks,
		sizeof(speaks), NULL, 0);
	if (r == 0)
		welcome(client, m->serial);
	return r;
}

static int segments(struct client *client, const struct wire_message *m)
{
	const struct msg_segments *want = (const struct msg_segments *)m->body;
	const struct rule *rule = client->rule;
	struct msg_segments reply = {.first = want->first};
	int fds[WIRE_FDS_MAX], r = check_reads(client);

	if (r < 0)
		return r;
	/* Up to one that was dropped after it was asked for. */
	for (uint64_t i = want->first;
		i < rule->n_segments && reply.count < want->count &&
		reply.count < WIRE_FDS_MAX && rule->segments[i].fd >= 0;
		i++)
		fds[reply.count++] = rule->segments[i].fd;
	client_reply(client, WIRE_SEGMENT_FDS, m->serial, &reply, sizeof(reply),
		fds, (int)reply.count);
	return 0;
}

static int storage_fd(struct client *client, const struct wire_message *m)
{
	int r = check_reads(client);

	return r < 0 ? r : own_send(client, m);
}

/* What a client of another protocol cannot mean is nonsense. */
static int check_version(const struct client *client, uint16_t type)
{
	bool newer = type == WIRE_REPORT || type == WIRE_CHECK ||
		     type == WIRE_CHANNEL;

	if (!newer || client->version >= 2)
		return 0;
	return tarn_fail(EPROTO,
		"message %u is of protocol 2, and this connection speaks %u",
		type, client->version);
}

static int stop(struct client *client, const struct wire_message *m)
{
	if (client->uid != 0 && client->uid != geteuid())
		return tarn_fail(EPERM,
			"only uid %u or root may stop this "
			"daemon, not uid %u",
			geteuid(), client->uid);
	log_info("stop", log_i64("pid", client->pid));
	client->rule->server->draining = true;
	/* Before the answer: it ends now, even if this server dies first. */
	server_tell_keeper(client->rule->server, D_STOPPED, NULL, 0, NULL, 0);
	client_reply(client, WIRE_DONE, m->serial, NULL, 0, NULL, 0);
	return 0;
}

uint32_t request_largest(uint16_t type)
{
	switch (type) {
	case WIRE_HELLO:
		return sizeof(struct msg_hello) + WIRE_POOL_MAX;
	case WIRE_SEGMENTS:
	case WIRE_CANCEL:
		return sizeof(struct msg_segments);
	case WIRE_LOAD:
	case WIRE_PUBLISH:
		return WIRE_MESSAGE_MAX;
	case WIRE_REMOVE:
		return TARN_NAME_MAX + REMOVE_SINCE_SIZE;
	case WIRE_RELEASED:
		return sizeof(struct msg_released);
	case WIRE_RESUME:
		return sizeof(struct msg_restarted);
	case WIRE_REPORT:
		return sizeof(struct msg_report);
	case WIRE_STORAGE:
		return sizeof(struct msg_storage);
	case WIRE_STATUS:
	case WIRE_CHECK:
	case WIRE_STOP:
	case WIRE_LEASES:
	case WIRE_CHANNEL:
		return 1;
	default:
		return 0;
	}
}

/* Is the body as large as its type says? */
static bool whole(const struct wire_message *m)
{
	switch (m->type) {
	case WIRE_HELLO:
		return m->size >= sizeof(struct msg_hello);
	case WIRE_LOAD:
		return m->size >= sizeof(struct msg_load);
	case WIRE_PUBLISH:
		return m->size >= sizeof(struct msg_publish);
	case WIRE_REMOVE:
		return m->size > 0;
	case WIRE_STATUS:
	case WIRE_CHECK:
	case WIRE_STOP:
	case WIRE_LEASES:
	case WIRE_CHANNEL:
		return m->size == 0;
	default:
		return m->size == request_largest(m->type);
	}
}

static bool changes_pool(uint16_t type)
{
	return type == WIRE_LOAD || type == WIRE_REMOVE || type == WIRE_PUBLISH;
}

/* May this client ask this now? */
static int check(const struct client *client, const struct wire_message *m)
{
	int r;

	if (!whole(m))
		return tarn_fail(
			EPROTO, "message %u has %u bytes", m->type, m->size);
	if (!client->welcome && m->type != WIRE_HELLO)
		return tarn_fail(EPROTO, "message %u before a hello", m->type);
	r = check_version(client, m->type);
	if (r == 0 && client->left_behind && m->type != WIRE_RELEASED)
		r = client_left_behind(client);
	if (r == 0 && changes_pool(m->type))
		r = client_check_write(client);
	return r;
}

static int released(struct client *client, const struct wire_message *m)
{
	const struct msg_released *body = (const struct msg_released *)m->body;

	storage_released_by_client(client->rule, body->index, body->generation);
	return 0;
}

static int leases(struct client *client, const struct wire_message *m)
{
	int r = check_reads(client);

	return r < 0 ? r : leases_more(client, m->serial);
}

/* Those that say themselves what became of them. */
static int answer(struct client *client, struct wire_message *m)
{
	switch (m->type) {
	case WIRE_LOAD:
		load_start(client, m);
		break;
	case WIRE_PUBLISH:
		publish_start(client, m);
		break;
	case WIRE_CANCEL:
		load_cancel(client, ((struct msg_cancel *)m->body)->serial);
		break;
	case WIRE_STATUS:
		report_status(client, m->serial);
		break;
	case WIRE_CHANNEL:
		channel_who(client, m->serial);
		break;
	default:
		return tarn_fail(
			EPROTO, "message %u is not for a daemon", m->type);
	}
	return 0;
}

int request_take(struct client *client, struct wire_message *m)
{
	int r;

	process_hear(client, m);
	/* Perhaps the rest of something that the last server has begun to
	 * read. */
	if (client->resuming && m->type != WIRE_RESUME &&
		m->type != WIRE_RELEASED)
		return 0;
	r = check(client, m);
	if (r < 0)
		return r;
	switch (m->type) {
	case WIRE_HELLO:
		return hello(client, m);
	case WIRE_SEGMENTS:
		return segments(client, m);
	case WIRE_STORAGE:
		return storage_fd(client, m);
	case WIRE_REMOVE:
		return remove_take(client, m);
	case WIRE_RELEASED:
		return released(client, m);
	case WIRE_REPORT:
		return report_send(client, m->serial);
	case WIRE_CHECK:
		return check_send(client, m->serial);
	case WIRE_LEASES:
		return leases(client, m);
	case WIRE_STOP:
		return stop(client, m);
	case WIRE_RESUME:
		return client_resumes(client, m);
	default:
		return answer(client, m);
	}
}
