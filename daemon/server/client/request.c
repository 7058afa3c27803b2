/* SPDX-License-Identifier: MIT */
/*
 * Requests of a client: each message is checked and answered.
 *
 * Length, version, order and rights are checked here, before the message goes
 * to its handler. -EPROTO: an invalid message, which ends the connection; any
 * other error is a refusal.
 */
#include "daemon/server/server.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/loop/log.h"
#include "shm/segment.h"

/* Descriptors are sent only to a client that reads; how many may be unread of a
 * user's is in send/in_flight.c. The unread contents of the socket are
 * counted in bytes of kernel memory, some thousand a message. */
#define UNREAD_MAX 16384

/* A client with long answers to other threads may have had no time to read: an
 * answer behind those asks it to try again, when it has read them. A client
 * that never reads fills its socket with such answers, and then the server does
 * not read from it. */
static int check_reads(const struct client *client)
{
	int unread = 0;

	if (ioctl(client->sock, SIOCOUTQ, &unread) < 0 || unread <= UNREAD_MAX)
		return 0;
	return tarn_fail(EAGAIN,
		"descriptors are sent to a client that has read what it was "
		"sent before; ask again");
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
	const struct server_start *start = &client->domain->server->start;
	struct msg_welcome body = {
		.version = client->version,
		.instance = start->instance,
		.keeper_pid = start->keeper_pid,
		.server_pid = getpid(),
	};
	int fds[2] = {client->domain->table_fd, client->lease_fd};

	client->welcome = true;
	client_reply(client, WIRE_OUT_FDS(WIRE_WELCOME, serial, &body,
				     sizeof(body), fds, 2));
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
	/* The parent connected, and may end before the child. */
	if (hello->flags & HELLO_CHILD) {
		speaks.flags = CLIENT_CHILD;
		process_expect(client);
	}
	/* Before it can ask for anything: the next server must know how to
	 * speak to it. */
	r = server_send_keeper(client->domain->server, D_CLIENT_SPEAKS, &speaks,
		sizeof(speaks), NULL, 0);
	if (r == 0)
		welcome(client, m->serial);
	return r;
}

static int check_writable(const struct client *client)
{
	const struct pool_spec *spec = &client->domain->spec;

	if (!(spec->flags & POOL_REGISTER))
		return tarn_fail(EPERM,
			"the segments of this pool are sealed against writing; "
			"a pool with register = yes (tarnd.conf) has others");
	if (client->uid != geteuid())
		return tarn_fail(EPERM,
			"only clients of uid %u, as which this daemon runs, "
			"get segments for writing to register them, not uid "
			"%u; copy the tensor to the device",
			geteuid(), client->uid);
	return 0;
}

/* One segment, as a client gets it that is about to register it. */
static int segment_writable(struct client *client, const struct wire_message *m)
{
	const struct msg_segments *want = (const struct msg_segments *)m->body;
	const struct domain *domain = client->domain;
	struct {
		struct msg_segments head;
		uint64_t serial;
	} reply = {.head.first = want->first};
	_cleanup_fd_ int fd = -1;
	int r = check_writable(client);

	if (r == 0 && want->count && in_flight_room(client) &&
		want->first < domain->pool.n_segments &&
		domain->pool.segments[want->first].fd >= 0) {
		r = segment_reopen_as(
			domain->pool.segments[want->first].fd, O_RDWR, &fd);
		reply.head.count = 1;
		reply.serial =
			table_segment_serial(&domain->table, want->first);
	}
	if (r < 0)
		return r;
	client_reply(client,
		WIRE_OUT_FDS(WIRE_SEGMENT_FDS, m->serial, &reply,
			reply.head.count ? sizeof(reply) : sizeof(reply.head),
			&fd, reply.head.count));
	return 0;
}

static int segments(struct client *client, const struct wire_message *m)
{
	const struct msg_segments *want = (const struct msg_segments *)m->body;
	const struct domain *domain = client->domain;
	struct {
		struct msg_segments head;
		uint64_t serials[WIRE_FDS_MAX];
	} reply = {.head.first = want->first};
	int fds[WIRE_FDS_MAX], r = check_reads(client);
	uint32_t n = 0, room = MIN(in_flight_room(client), WIRE_FDS_MAX);

	if (r < 0)
		return r;
	if (want->flags & SEGMENTS_WRITABLE)
		return segment_writable(client, m);
	/* Up to one that was dropped after it was asked for. */
	for (uint64_t i = want->first;
		i < domain->pool.n_segments && n < want->count && n < room &&
		domain->pool.segments[i].fd >= 0;
		i++) {
		reply.serials[n] =
			table_segment_serial(&domain->table, (uint32_t)i);
		fds[n++] = domain->pool.segments[i].fd;
	}
	reply.head.count = (uint16_t)n;
	client_reply(client,
		WIRE_OUT_FDS(WIRE_SEGMENT_FDS, m->serial, &reply,
			sizeof(reply.head) + n * sizeof(reply.serials[0]), fds,
			(int)n));
	return 0;
}

static int storage_fd(struct client *client, const struct wire_message *m)
{
	int r = check_reads(client);

	return r < 0 ? r : own_send(client, m);
}

static int stop(struct client *client, const struct wire_message *m)
{
	if (client->uid != 0 && client->uid != geteuid())
		return tarn_fail(EPERM,
			"only uid %u or root may stop this "
			"daemon, not uid %u",
			geteuid(), client->uid);
	log_info("stop", log_i64("pid", client->pid));
	client->domain->server->drain.draining = true;
	/* Before the answer: it ends now, even if this server dies first. */
	server_send_keeper(client->domain->server, D_STOPPED, NULL, 0, NULL, 0);
	client_reply(client, WIRE_OUT(WIRE_DONE, m->serial, NULL, 0));
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
		return TARN_NAME_MAX;
	case WIRE_RELEASED:
		return sizeof(struct msg_released);
	case WIRE_RESUME:
		return sizeof(struct msg_restarted);
	case WIRE_REPORT:
		return sizeof(struct msg_report);
	case WIRE_STORAGE:
		return sizeof(struct msg_storage);
	case WIRE_DROP_REPLICAS:
		return sizeof(struct msg_drop_replicas);
	case WIRE_PING:
	case WIRE_CHECK:
	case WIRE_STOP:
	case WIRE_LEASES:
	case WIRE_CHANNEL:
	case WIRE_RESENT:
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
	case WIRE_PING:
	case WIRE_CHECK:
	case WIRE_STOP:
	case WIRE_LEASES:
	case WIRE_CHANNEL:
	case WIRE_RESENT:
		return m->size == 0;
	default:
		return m->size == request_largest(m->type);
	}
}

static bool changes_pool(uint16_t type)
{
	return type == WIRE_LOAD || type == WIRE_REMOVE ||
	       type == WIRE_PUBLISH || type == WIRE_DROP_REPLICAS;
}

/* A request that was done is answered, whatever rights its client has now. */
static int check_change(
	const struct client *client, const struct wire_message *m)
{
	int r = m->again && completion_find(client, m->serial, NULL)
			? 0
			: client_check_write(client);

	return r == 0 && client->turned_away && !m->again
		       ? in_flight_refusal(client)
		       : r;
}

/* May this client ask this now? */
static int check(const struct client *client, const struct wire_message *m)
{
	if (!whole(m))
		return tarn_fail(
			EPROTO, "message %u has %u bytes", m->type, m->size);
	if (!client->welcome && m->type != WIRE_HELLO)
		return tarn_fail(EPROTO, "message %u before a hello", m->type);
	return changes_pool(m->type) ? check_change(client, m) : 0;
}

static int released(struct client *client, const struct wire_message *m)
{
	const struct msg_released *body = (const struct msg_released *)m->body;

	storage_released_by_client(
		client->domain, body->index, body->generation);
	return 0;
}

static int leases(struct client *client, const struct wire_message *m)
{
	int r = check_reads(client);

	return r < 0 ? r : leases_more(client, m->serial);
}

static int drop_replicas(struct client *client, const struct wire_message *m)
{
	const struct msg_drop_replicas *body =
		(const struct msg_drop_replicas *)m->body;

	replicas_drop_asked(
		client->domain, body->index, body->generation, body->node);
	client_reply(client, WIRE_OUT(WIRE_DONE, m->serial, NULL, 0));
	return 0;
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
	case WIRE_PING:
		client_reply(client, WIRE_OUT(WIRE_PONG, m->serial, NULL, 0));
		break;
	case WIRE_CHANNEL:
		channel_who(client, m->serial);
		break;
	case WIRE_RESENT:
		completions_resent(client);
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

	process_receive(client, m);
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
		return check_take(client, m->serial);
	case WIRE_LEASES:
		return leases(client, m);
	case WIRE_DROP_REPLICAS:
		return drop_replicas(client, m);
	case WIRE_STOP:
		return stop(client, m);
	case WIRE_RESUME:
		return client_resumes(client, m);
	default:
		return answer(client, m);
	}
}
