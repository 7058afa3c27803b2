/* SPDX-License-Identifier: MIT */
/*
 * Queues of messages for senders that must not block.
 *
 * The idea: push copies everything, so that the caller keeps nothing alive. A
 * peer that does not read fills its own queue and no other. A long body is laid
 * into a memfd only when it is sent, so that the queue keeps no descriptor for
 * it; or it is sent in parts, each when the socket takes it.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "base/file_limit.h"
#include "shm/wire_internal.h"

/* Of one flush. Picked: a quarter of a MiB, which is sent in 50 us, and more
 * than a socket takes by default. */
#define PARTS_MAX 4

struct queued {
	struct queued *next;
	struct wire_out out; /* owns body and fds */
	int fds[WIRE_FDS_MAX];
	unsigned char body[];
};

struct wire_writer {
	struct queued *first;
	struct queued **end;
	size_t bytes; /* of headers and bodies queued */
	size_t limit;
	bool in_parts;
	size_t sent;         /* of the first body, in parts */
	wire_close_fn close; /* NULL: fd_close */
	void *close_arg;
};

int wire_writer_new(size_t limit, struct wire_writer **ret)
{
	struct wire_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return tarn_fail(ENOMEM, "no memory for a message queue");
	writer->end = &writer->first;
	writer->limit = limit;
	*ret = writer;
	return 0;
}

void wire_writer_set_close(
	struct wire_writer *writer, wire_close_fn fn, void *arg)
{
	writer->close = fn;
	writer->close_arg = arg;
}

static void queued_free(const struct wire_writer *writer, struct queued *q)
{
	for (int i = 0; i < q->out.n_fds; i++)
		if (writer->close)
			writer->close(writer->close_arg, q->fds[i]);
		else
			fd_close(q->fds[i]);
	free(q);
}

void wire_writer_in_parts(struct wire_writer *writer)
{
	writer->in_parts = true;
}

static bool goes_in_parts(
	const struct wire_writer *writer, const struct wire_out *out)
{
	return writer->in_parts && out->size > WIRE_INLINE_MAX;
}

static size_t room_of(const struct wire_out *out)
{
	return out->size + sizeof(struct wire_header);
}

/* Removes the first message from the queue. */
static void drop_first(struct wire_writer *writer)
{
	struct queued *q = writer->first;

	writer->first = q->next;
	if (!writer->first)
		writer->end = &writer->first;
	writer->bytes -= room_of(&q->out);
	writer->sent = 0;
	queued_free(writer, q);
}

struct wire_writer *wire_writer_free(struct wire_writer *writer)
{
	while (writer && writer->first)
		drop_first(writer);
	free(writer);
	return NULL;
}

/* Copies the body, and duplicates the descriptors. */
static int fill(struct queued *q, const struct wire_out *out)
{
	q->out = *out;
	q->out.is_long = false;
	q->out.body = q->body;
	q->out.fds = q->fds;
	q->out.n_fds = 0;
	if (out->size)
		memcpy(q->body, out->body, out->size);
	for (int i = 0; i < out->n_fds; i++) {
		int copy = fd_dup(out->fds[i]);

		if (copy < 0)
			return tarn_fail(-copy,
				"duplicating descriptor %d for a message: %s",
				out->fds[i], tarn_errno_text(copy));
		q->fds[q->out.n_fds++] = copy;
	}
	return 0;
}

/* Before anything is copied: a refused sender may try again many times. */
static int check_room(
	const struct wire_writer *writer, const struct wire_out *out)
{
	size_t room = room_of(out);
	int r = frame_check(out);

	if (r < 0)
		return r;
	if (goes_in_parts(writer, out) && out->n_fds)
		return tarn_fail(EINVAL,
			"a message of %zu bytes, which goes in parts, has "
			"descriptors",
			out->size);
	if (room > writer->limit || writer->bytes > writer->limit - room)
		return tarn_fail(ENOBUFS,
			"%zu bytes are queued for a peer that does not "
			"read; %zu are allowed",
			writer->bytes + room, writer->limit);
	return out->size > WIRE_INLINE_MAX && !writer->in_parts
		       ? file_limit_check(out->size)
		       : 0;
}

int wire_push(struct wire_writer *writer, const struct wire_out *out)
{
	struct queued *q;
	int r = check_room(writer, out);

	if (r < 0)
		return r;
	q = malloc(sizeof(*q) + out->size);
	if (!q)
		return tarn_fail(ENOMEM, "no memory for a message of %zu bytes",
			out->size);
	q->next = NULL;
	r = fill(q, out);
	if (r < 0) {
		queued_free(writer, q);
		return r;
	}
	*writer->end = q;
	writer->end = &q->next;
	writer->bytes += room_of(out);
	return 0;
}

bool wire_is_short(int r)
{
	return r == -ETOOMANYREFS || r == -ENOBUFS || r == -ENOMEM ||
	       r == -EMFILE || r == -ENFILE;
}

/* An error of the socket counts: it is the sender's to tell. */
static bool has_room(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) != 0;
}

/* Sends a message that was not prepared. 0; -EAGAIN; or another error. A long
 * body is not put into a memfd for a full socket, since the caller may try that
 * often. */
static int send_once(const struct wire_out *out, int fd)
{
	struct wire_out once = *out;
	int r;

	if (out->size > WIRE_INLINE_MAX && !has_room(fd))
		return -EAGAIN;
	r = wire_out_prepare(&once);
	if (r == 0)
		r = frame_send(fd, &once, MSG_DONTWAIT);
	wire_out_done(&once);
	return r;
}

/* The next part; with the last one it leaves the queue. */
static int send_part(struct wire_writer *writer, int fd)
{
	const struct wire_out *out = &writer->first->out;
	int r = frame_send_part(fd, out, writer->sent, MSG_DONTWAIT);

	if (r < 0)
		return r;
	writer->sent += part_size(out->size, writer->sent);
	if (writer->sent == out->size)
		drop_first(writer);
	return 0;
}

static int send_first(struct wire_writer *writer, int fd, unsigned *parts_left)
{
	const struct wire_out *out = &writer->first->out;
	int r;

	if (goes_in_parts(writer, out))
		return (*parts_left)-- ? send_part(writer, fd) : -EAGAIN;
	r = send_once(out, fd);
	if (r == 0)
		drop_first(writer);
	return r;
}

int wire_flush(struct wire_writer *writer, int fd)
{
	unsigned parts_left = PARTS_MAX;
	int r = 0;

	while (writer->first && r == 0)
		r = send_first(writer, fd, &parts_left);
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

int wire_try(
	const struct wire_writer *writer, int fd, const struct wire_out *out)
{
	int r;

	if (!wire_writer_empty(writer) ||
		(writer && goes_in_parts(writer, out)))
		return 0;
	r = frame_check(out);
	if (r == 0)
		r = out->is_long ? frame_send(fd, out, MSG_DONTWAIT)
				 : send_once(out, fd);
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

bool wire_writer_empty(const struct wire_writer *writer)
{
	return !writer || !writer->first;
}

size_t wire_writer_held(const struct wire_writer *writer)
{
	return writer->bytes;
}
