/* SPDX-License-Identifier: MIT */
/*
 * One client: its messages, its replies, its end.
 *
 * What it does wrong costs it the connection or gets it a sentence; nobody
 * else notices. Replies go through a bounded queue, so that a client which
 * does not read fills its own queue and is dropped.
 */
#include "daemon/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <unistd.h>

#include <tarn/store.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "daemon/log.h"
#include "shm/segment.h"

static void on_client(void *arg, unsigned ready);

static void close_for(void *arg, int fd)
{
	closer_close(arg, fd);
}

void client_join(struct client *client, struct rule *rule)
{
	client->rule = rule;
	client->here = &rule->clients;
	client->next = rule->clients;
	if (client->next)
		client->next->here = &client->next;
	rule->clients = client;
}

void client_leave(struct client *client)
{
	*client->here = client->next;
	if (client->next)
		client->next->here = client->here;
}

int client_new(struct rule *rule, const struct msg_client *from, int sock,
	int lease_fd)
{
	struct client *client = calloc(1, sizeof(*client));
	int r = client ? 0 : tarn_fail(ENOMEM, "out of memory");

	if (r < 0) {
		/* The keeper has the socket too: the peer waits until that is
		 * told. Not in a take-over, which begins again. */
		if (rule->server->serving) {
			shutdown(sock, SHUT_RDWR);
			server_tell_keeper(rule->server, D_CLIENT_GONE, from,
				sizeof(*from), NULL, 0);
		}
		fd_close(sock);
		fd_close(lease_fd);
		return r;
	}
	client->home = rule_of_user(rule->server, from->uid);
	if (!client->home)
		client->home = rule;
	client->number = from->number;
	client->uid = from->uid;
	client->gid = from->gid;
	client->pid = from->pid;
	client->version = from->version;
	client->seen = from->flags & CLIENT_SEEN;
	client->sock = sock;
	client->pid_fd = -1;
	client->lease_fd = lease_fd;
	client->came_at = client->heard_at = loop_now();
	client_join(client, rule);
	rule->server->n_clients++;
	share_join(client);
	client_judge(client);
	r = leases_open(client);
	if (r == 0)
		r = wire_reader_new_beside(
			rule->server->reader, &client->reader);
	if (r == 0)
		r = wire_writer_new(CLIENT_QUEUE_MAX, &client->writer);
	if (r == 0) {
		/* One batch of segments, which is as much as it asks for
		 * before it reads. */
		wire_writer_limit_fds(client->writer, WIRE_FDS_MAX);
		/* A client's descriptors are never closed in this thread. */
		wire_reader_set_close(
			client->reader, close_for, client->home->closer);
		r = loop_watch(rule->server->loop, sock, 0, on_client, client,
			&client->watch);
	}
	if (r == 0) {
		if (!(from->flags & CLIENT_CHILD))
			process_watch(client);
		client_listen(client);
	} else if (rule->server->serving || r == -EPROTO) {
		/* EPROTO: it wrote rubbish where its leases are, which
		 * concerns nobody else. */
		client_drop(client, tarn_fail_message());
		return rule->server->serving ? r : 0;
	}
	return r;
}

/* Not before its rule's region can be handed out, and everything is known. */
void client_listen(struct client *client)
{
	if (client->rule->table_fd >= 0 && client->rule->server->serving)
		loop_change(client->watch, LOOP_READ);
}

void client_free(struct client *client)
{
	struct rule *rule = client->rule;
	struct msg_client gone = {.number = client->number};

	client_leave(client);
	share_leave(client);
	load_orphan(client);
	publish_orphan(client);
	loop_unwatch(client->watch);
	/* The keeper holds a copy of the socket; the peer shall see the end
	 * now. */
	shutdown(client->sock, SHUT_RDWR);
	fd_close(client->sock);
	process_unwatch(client);
	cache_hear_last(client);
	leases_close(client);
	fd_close(client->lease_fd);
	quota_return(client->home, QUOTA_REQUESTS, client->held);
	wire_reader_free(client->reader);
	wire_writer_free(client->writer);
	rule->server->n_clients--;
	rule->server->n_left_behind -= client->left_behind;
	free(client);
	server_tell_keeper(
		rule->server, D_CLIENT_GONE, &gone, sizeof(gone), NULL, 0);
	reap_unnamed(rule);
}

void client_drop(struct client *client, const char *why)
{
	struct server *server = client->rule->server;

	if (why)
		log_warning("client_dropped", log_i64("pid", client->pid),
			log_u64("uid", client->uid), log_text("why", why));
	client_free(client);
	server_look_around(server);
}

void client_reply(struct client *client, uint16_t type, uint32_t serial,
	const void *body, size_t size, const int *fds, int n_fds)
{
	int r;

	if (!client || client->gone)
		return;
	r = wire_push(client->writer, type, serial, body, size, fds, n_fds);
	if (r == 0)
		r = wire_flush(client->writer, client->sock);
	/* Dropped by its own next event: whoever replies may still use it. */
	if (r < 0) {
		client->gone = true;
		shutdown(client->sock, SHUT_RDWR);
		return;
	}
	loop_change(client->watch, r == 1 ? LOOP_READ : LOOP_READ | LOOP_WRITE);
}

void client_refuse(struct client *client, uint32_t serial, int error)
{
	const char *text = tarn_fail_message();
	size_t n = strlen(text);
	union {
		struct msg_error head;
		char space[sizeof(struct msg_error) + TARN_MESSAGE_MAX];
	} body = {.head = {.error = error < 0 ? -error : error}};

	memcpy(body.head.text, text, n);
	client_reply(client, WIRE_ERROR, serial, &body, sizeof(body.head) + n,
		NULL, 0);
}

/* ---- requests ------------------------------------------------------- */

/* Descriptors on their way count against what its whole user may have in
 * flight, so they are sent to who reads them only. What lies unread in the
 * socket is in bytes of kernel memory, some thousand a message. */
#define UNREAD_MAX 16384

static int check_reads(const struct client *client)
{
	int unread = 0;

	if (ioctl(client->sock, SIOCOUTQ, &unread) == 0 && unread > UNREAD_MAX)
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
		process_unwatch(client);
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

static int remove_name(struct client *client, const struct wire_message *m)
{
	int r = storage_remove_name(
		client->rule, (const char *)m->body, m->size);

	/* The server that was asked first may have done it. */
	if (r == -ENOENT && m->again)
		r = 0;
	if (r == 0)
		client_reply(client, WIRE_DONE, m->serial, NULL, 0, NULL, 0);
	return r;
}

/* What a client of another protocol cannot mean is nonsense. */
static int check_version(const struct client *client, uint16_t type)
{
	bool newer = type == WIRE_REPORT || type == WIRE_CHECK;

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

static uint32_t largest_body(uint16_t type)
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
	case WIRE_STATUS:
	case WIRE_CHECK:
	case WIRE_STOP:
	case WIRE_LEASES:
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
		return m->size == 0;
	default:
		return m->size == largest_body(m->type);
	}
}

static bool changes_pool(uint16_t type)
{
	return type == WIRE_LOAD || type == WIRE_REMOVE || type == WIRE_PUBLISH;
}

static int take_request(struct client *client, struct wire_message *m)
{
	const struct msg_released *released;
	int r;

	/* Perhaps the rest of something that the last server has begun to
	 * read. */
	if (client->resuming && m->type != WIRE_RESUME &&
		m->type != WIRE_RELEASED)
		return 0;
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
	if (r < 0)
		return r;
	switch (m->type) {
	case WIRE_HELLO:
		return hello(client, m);
	case WIRE_SEGMENTS:
		return segments(client, m);
	case WIRE_LOAD:
		load_start(client, m);
		return 0;
	case WIRE_PUBLISH:
		publish_start(client, m);
		return 0;
	case WIRE_STORAGE:
		return storage_fd(client, m);
	case WIRE_CANCEL:
		load_cancel(client, ((struct msg_cancel *)m->body)->serial);
		return 0;
	case WIRE_REMOVE:
		return remove_name(client, m);
	case WIRE_RELEASED:
		released = (const struct msg_released *)m->body;
		storage_released_by_client(
			client->rule, released->index, released->generation);
		return 0;
	case WIRE_STATUS:
		report_status(client, m->serial);
		return 0;
	case WIRE_REPORT:
		return report_send(client, m->serial);
	case WIRE_CHECK:
		return check_send(client, m->serial);
	case WIRE_LEASES:
		r = check_reads(client);
		return r < 0 ? r : leases_more(client, m->serial);
	case WIRE_STOP:
		return stop(client, m);
	case WIRE_RESUME:
		return client_resumes(client, m);
	default:
		return tarn_fail(
			EPROTO, "message %u is not for a daemon", m->type);
	}
}

static void give_fds_to_closer(struct client *client, struct wire_message *m)
{
	for (int i = 0; i < m->n_fds; i++)
		closer_close(client->home->closer, wire_take_fd(m, i));
}

/* One message an event, so that nobody keeps the server to himself. */
static int hear(struct client *client)
{
	struct wire_message m = {0};
	int r = wire_receive(client->reader, client->sock, largest_body, &m);

	/* To end the connection would end its leases, and free what its
	 * process is reading: what it says waits until there is memory. */
	if (r == -ENOBUFS)
		return -EAGAIN;
	if (r == 1) {
		client->heard_at = loop_now();
		r = take_request(client, &m);
		if (r < 0)
			client_refuse(client, m.serial, r);
		/* Nonsense ends the connection, a refusal does not. */
		if (r != -EPROTO)
			r = 0;
	} else if (r < 0 && r != -EAGAIN && r != -EPIPE) {
		/* No frame of ours, so no serial: it answers everything. */
		client_refuse(client, 0, r);
	}
	give_fds_to_closer(client, &m);
	wire_message_clear(&m);
	return r;
}

/* Too much that is half said or unread, with what his user's other
 * connections have of it: this one goes. */
static int hoards(struct client *client)
{
	int r = quota_messages(client);

	if (r < 0)
		client_refuse(client, 0, r);
	return r;
}

/* Of one user; with so few that more users than one may have them. */
static unsigned unclosed_max(const struct server *server)
{
	return MIN(1024u, server->loads_max);
}

/* Files that block when they are closed are only forgotten with the process:
 * there is an end to how many one user may leave us with. */
static int check_closes(const struct client *client, bool *ret_wait)
{
	unsigned max = unclosed_max(client->rule->server);

	if (!closer_is_stuck(client->home->closer, max, ret_wait))
		return 0;
	return tarn_fail(EPROTO,
		"%u descriptors that uid %u has sent cannot be closed, since "
		"their file system does not answer",
		max, client->uid);
}

static void on_client(void *arg, unsigned ready)
{
	struct client *client = arg;
	struct server *server = client->rule->server;
	uint64_t began;
	bool wait;
	int r;

	if (client->gone)
		return client_drop(client,
			ready & LOOP_HANGUP ? NULL
					    : "it does not read its replies");
	if (share_is_spent(client))
		return;
	r = check_closes(client, &wait);
	if (r < 0)
		return client_drop(client, tarn_fail_message());
	if (wait)
		return;
	began = loop_now();
	if (ready & LOOP_WRITE)
		r = wire_flush(client->writer, client->sock);
	if (r == 1)
		loop_change(client->watch, LOOP_READ);
	if (r >= 0 && ready & (LOOP_READ | LOOP_HANGUP))
		r = hear(client);
	if (r >= 0 || r == -EAGAIN)
		r = hoards(client);
	share_spend(client, began);
	if (r == -EPIPE || r == -ECONNRESET)
		return client_drop(client, NULL);
	if (r < 0 && r != -EAGAIN)
		return client_drop(client, tarn_fail_message());
	server_look_around(server);
}
