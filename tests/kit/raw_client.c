/* SPDX-License-Identifier: MIT */
/* See raw_client.h. */
#include "tests/kit/raw_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "tests/kit/tap.h"

/* ---- the connection ---------------------------------------------------- */

void raw_connect(struct raw *raw, const char *socket_path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*raw = (struct raw) {.table = -1, .lease = -1};
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	raw->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (raw->fd < 0 ||
		connect(raw->fd, (struct sockaddr *)&address, sizeof(address)))
		bail("connect %s: %m", socket_path);
}

void raw_open_pool(struct raw *raw, const char *socket_path, const char *pool)
{
	struct {
		struct msg_hello head;
		char pool[WIRE_POOL_MAX + 1];
	} hello = {.pool = ""};
	size_t n = (size_t)snprintf(
		hello.pool, sizeof(hello.pool), "%s", pool ? pool : "");

	hello.head.version = PROTOCOL_VERSION;
	hello.head.version_min = PROTOCOL_OLDEST;
	raw_connect(raw, socket_path);
	if (raw_send(raw, WIRE_HELLO, &hello, sizeof(hello.head) + n, NULL, 0) <
			0 ||
		raw_receive(raw, RAW_PATIENCE_MS) != WIRE_WELCOME ||
		raw->n_fds != 2)
		bail("no welcome at %s: %s", socket_path, raw->text);
	raw->table = raw->fds[0];
	raw->lease = raw->fds[1];
	raw->n_fds = 0;
}

void raw_open(struct raw *raw, const char *socket_path)
{
	raw_open_pool(raw, socket_path, NULL);
}

static void drop_fds(struct raw *raw)
{
	while (raw->n_fds)
		fd_close(raw->fds[--raw->n_fds]);
}

void raw_close(struct raw *raw)
{
	drop_fds(raw);
	wire_partial_clear(&raw->partial);
	raw->fd = fd_close(raw->fd);
	raw->table = fd_close(raw->table);
	raw->lease = fd_close(raw->lease);
}

long raw_frame(struct raw *raw, const void *bytes, size_t size, const int *fds,
	int n_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 253)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)bytes, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		size_t room = sizeof(int) * (size_t)n_fds;

		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(room);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(room);
		memcpy(CMSG_DATA(&control.align), fds, room);
	}
	return sendmsg(raw->fd, &msg, MSG_NOSIGNAL);
}

int raw_send(struct raw *raw, uint16_t type, const void *body, size_t size,
	const int *fds, int n_fds)
{
	struct wire_out out =
		*WIRE_OUT_FDS(type, raw->serial, body, size, fds, n_fds);

	out.again = raw->again;
	if (!raw->again)
		out.serial = ++raw->serial;
	return wire_send(raw->fd, &out);
}

/* ---- replies ----------------------------------------------------------- */

static void keep(void *to, size_t room, const struct wire_message *m)
{
	memset(to, 0, room);
	memcpy(to, m->body, MIN(room, (size_t)m->size));
}

static void keep_error(struct raw *raw, const struct wire_message *m)
{
	struct msg_error head;
	int n = (int)m->size - (int)sizeof(head);

	keep(&head, sizeof(head), m);
	raw->error = head.error;
	snprintf(raw->text, sizeof(raw->text), "%.*s", MAX(n, 0),
		(const char *)m->body + sizeof(head));
}

static void take(struct raw *raw, struct wire_message *m)
{
	if (m->type == WIRE_WELCOME)
		keep(&raw->welcome, sizeof(raw->welcome), m);
	else if (m->type == WIRE_LOADING)
		keep(&raw->loading, sizeof(raw->loading), m);
	else if (m->type == WIRE_LOADED)
		keep(&raw->loaded, sizeof(raw->loaded), m);
	else if (m->type == WIRE_RESTARTED)
		keep(&raw->restarted, sizeof(raw->restarted), m);
	else if (m->type == WIRE_PUBLISHED)
		keep(&raw->published, sizeof(raw->published), m);
	else if (m->type == WIRE_CHECKED)
		keep(&raw->checked, sizeof(raw->checked), m);
	else if (m->type == WIRE_ERROR)
		keep_error(raw, m);
	if (m->n_fds)
		drop_fds(raw);
	while (raw->n_fds < m->n_fds) {
		raw->fds[raw->n_fds] = wire_take_fd(m, raw->n_fds);
		raw->n_fds++;
	}
}

static int receive_one(struct raw *raw, int patience_ms)
{
	struct pollfd wait = {.fd = raw->fd, .events = POLLIN};
	const struct wire_reader reader = {.partial = &raw->partial};
	struct wire_message m = {0};
	int r, type;

	if (poll(&wait, 1, patience_ms) != 1)
		return -1;
	r = wire_receive(raw->fd, &reader, &m);
	if (r < 0)
		return 0;
	type = m.type;
	raw->answered = m.serial;
	take(raw, &m);
	wire_message_clear(&m);
	return type;
}

static bool is_notice(struct raw *raw, int type)
{
	bool held = type == WIRE_PONG && raw->answered == 0;

	raw->n_held += held;
	return held ||
	       (type == WIRE_LOADING && raw->loading.phase == LOADING_MEMORY);
}

int raw_receive(struct raw *raw, int patience_ms)
{
	int type;

	do
		type = receive_one(raw, patience_ms);
	while (is_notice(raw, type));
	return type;
}

int raw_answer(struct raw *raw)
{
	int type;

	do
		type = raw_receive(raw, RAW_PATIENCE_MS);
	while (type == WIRE_LOADING);
	return type;
}

bool raw_is_closed(struct raw *raw)
{
	int type;

	do
		type = raw_receive(raw, RAW_PATIENCE_MS);
	while (type > 0);
	return type == 0;
}

/* ---- a load ------------------------------------------------------------ */

void order_range(struct order *order, uint64_t file_offset, uint64_t size,
	uint64_t storage_offset)
{
	order->head.n_ranges++;
	order->ranges[order->n_ranges++] = (struct msg_range) {
		.file_offset = file_offset,
		.size = size,
		.storage_offset = storage_offset,
	};
}

static void put(struct order *order, const void *bytes, size_t size)
{
	order->names = realloc(order->names, order->names_size + size + 1);
	if (!order->names)
		bail("out of memory");
	if (size)
		memcpy(order->names + order->names_size, bytes, size);
	order->names_size += size;
}

void order_name(struct order *order, const char *name, size_t name_size,
	uint8_t dtype, uint8_t ndim, const int64_t *shape,
	const int64_t *stride, uint64_t base, int64_t offset)
{
	static const char zeros[8];
	struct msg_name head = {
		.name_size = (uint16_t)name_size,
		.dtype = dtype,
		.ndim = ndim,
		.base = base,
		.offset = offset,
	};

	put(order, &head, sizeof(head));
	put(order, shape, 8ul * ndim);
	put(order, stride, 8ul * ndim);
	put(order, name, name_size);
	put(order, zeros, -name_size & 7);
	order->head.n_names++;
}

void order_bytes(struct order *order, const char *name, int64_t size)
{
	order_name(order, name, strlen(name), 5 /* U8 */, 1, &size,
		(int64_t[]) {1}, 0, 0);
}

int order_send(struct order *order, struct raw *raw, int fd, int direct)
{
	size_t ranges = order->n_ranges * sizeof(order->ranges[0]);
	size_t label = strlen(order->label), at = 0;
	int fds[2] = {fd, direct}, n = (fd >= 0) + (fd >= 0 && direct >= 0), r;
	unsigned char *body = malloc(
		sizeof(order->head) + ranges + order->names_size + label);

	if (!body)
		bail("out of memory");
	if (!order->head.label_size)
		order->head.label_size = (uint32_t)label;
	memcpy(body, &order->head, sizeof(order->head));
	at += sizeof(order->head);
	memcpy(body + at, order->ranges, ranges);
	at += ranges;
	if (order->names_size)
		memcpy(body + at, order->names, order->names_size);
	at += order->names_size;
	memcpy(body + at, order->label, label);
	at += label;
	r = raw_send(raw, WIRE_LOAD, body, at, fds, n);
	free(body);
	free(order->names);
	*order = (struct order) {0};
	return r;
}

int order_load(struct order *order, struct raw *raw, int fd, int direct)
{
	return order_send(order, raw, fd, direct) < 0 ? 0 : raw_answer(raw);
}
