/* SPDX-License-Identifier: MIT */
/*
 * Receiving messages, one datagram each.
 *
 * Memory for the longest datagram is allocated before one is received, so that
 * no received message is lost for lack of memory. A datagram is received whole
 * into private memory, and its descriptors are owned from the first moment;
 * only then is its content examined. One place closes all descriptors of a
 * refused message.
 */
#include "shm/wire.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/wire_internal.h"

/* The most that the kernel lets one message carry (SCM_MAX_FD). The kernel
 * would close those without room in this process, and a descriptor of the
 * sender's choice can make close() hang. */
#define FDS_SEEN 253

/* Picked: copying so many bytes costs less than allocating the longest. */
#define COPIED 4096u

struct frame {
	struct wire_header header;
	unsigned char *body; /* WIRE_INLINE_MAX bytes */
	size_t size;         /* of the datagram after its header */
	int32_t pid;
	int fds[FDS_SEEN];
	int n_fds;
	bool lacks_fds; /* some descriptors did not arrive */
};

static void refuse_fd(const struct wire_reader *reader, int fd)
{
	if (reader->close)
		reader->close(reader->arg, fd);
	else
		fd_close(fd);
}

void wire_message_clear(struct wire_message *message)
{
	for (int i = 0; i < message->n_fds; i++)
		fd_close(message->fds[i]);
	if (message->is_long)
		fd_close(message->long_fd);
	free(message->body);
	memset(message, 0, sizeof(*message));
}

void wire_message_close(
	const struct wire_reader *reader, struct wire_message *message)
{
	for (int i = 0; i < message->n_fds; i++)
		refuse_fd(reader, wire_take_fd(message, i));
	refuse_fd(reader, wire_take_long(message));
	wire_message_clear(message);
}

int wire_take_fd(struct wire_message *message, int i)
{
	if (i < 0 || i >= message->n_fds)
		return -1;
	return fd_steal(&message->fds[i]);
}

int wire_take_long(struct wire_message *message)
{
	if (!message->is_long)
		return -1;
	message->is_long = false;
	return message->long_fd;
}

static void collect_sender(const struct cmsghdr *c, struct frame *frame)
{
	struct ucred sender;

	memcpy(&sender, CMSG_DATA(c), sizeof(sender));
	frame->pid = sender.pid;
}

static void collect(const struct wire_reader *reader, struct msghdr *msg,
	struct frame *frame)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n;

		if (c->cmsg_level == SOL_SOCKET &&
			c->cmsg_type == SCM_CREDENTIALS &&
			c->cmsg_len == CMSG_LEN(sizeof(struct ucred)))
			collect_sender(c, frame);
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (frame->n_fds < FDS_SEEN)
				frame->fds[frame->n_fds++] = fd;
			else
				refuse_fd(reader, fd);
		}
	}
}

/*
 * A peer that ended before it had read everything resets the connection, which
 * the kernel reports once, and before the messages that the peer had sent: those
 * count, and end as they would have without it.
 */
static bool is_first_reset(bool *reset)
{
	bool first = errno == ECONNRESET && !*reset;

	*reset |= first;
	return first;
}

/* One datagram and its descriptors; only the size is checked. */
static int frame_receive(
	const struct wire_reader *reader, int fd, struct frame *frame)
{
	union {
		/* The credentials come only where the socket asks for them. */
		char bytes[CMSG_SPACE(sizeof(int) * FDS_SEEN) +
			   CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov[2] = {
		{&frame->header, sizeof(frame->header)},
		{frame->body, WIRE_INLINE_MAX},
	};
	bool reset = false;
	struct msghdr msg;
	ssize_t n;

	do {
		msg = (struct msghdr) {
			.msg_iov = iov,
			.msg_iovlen = 2,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes),
		};
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || is_first_reset(&reset)));
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -EAGAIN;
	/* The kernel was short of memory: the datagram is still queued. */
	if (n < 0 && (errno == ENOMEM || errno == ENOBUFS))
		return tarn_fail(ENOBUFS, "receiving a message: %s",
			tarn_errno_text(errno));
	if (n < 0 && errno == ECONNRESET)
		return tarn_fail(EPIPE, "the peer is gone");
	if (n < 0)
		return tarn_fail(errno, "receiving a message: %s",
			tarn_errno_text(errno));
	collect(reader, &msg, frame);
	if (n == 0)
		return tarn_fail(EPIPE, "the peer has closed the connection");
	if (msg.msg_flags & MSG_TRUNC)
		return tarn_fail(EMSGSIZE,
			"a message is longer than the %u bytes allowed in the "
			"socket",
			WIRE_FRAME_MAX);
	if ((size_t)n < sizeof(frame->header))
		return tarn_fail(EPROTO,
			"a message of %zd bytes is shorter than its header of "
			"%zu",
			n, sizeof(frame->header));
	frame->size = (size_t)n - sizeof(frame->header);
	/* The buffer has room for more descriptors than a message may carry, so
	 * it is this process that may not open more. All else of the message is
	 * there. */
	frame->lacks_fds = msg.msg_flags & MSG_CTRUNC;
	return 0;
}

static int check_limit(
	const struct wire_reader *reader, const struct wire_header *h)
{
	uint32_t most =
		reader->limit ? reader->limit(h->type) : WIRE_MESSAGE_MAX;

	if (most == 0)
		return tarn_fail(EPROTO,
			"a message of type %u is not expected here", h->type);
	most = MIN(most, WIRE_MESSAGE_MAX);
	if (h->size > most)
		return tarn_fail(EMSGSIZE,
			"a message of type %u has %u bytes; %u are allowed",
			h->type, h->size, most);
	return 0;
}

/* As part_take() needs it. */
static int part_is_sound(
	const struct wire_reader *reader, const struct frame *frame)
{
	const struct wire_header *h = &frame->header;

	if (!reader->partial)
		return tarn_fail(EPROTO,
			"a message of type %u comes in parts, which is not "
			"expected here",
			h->type);
	if (h->flags & WIRE_LONG || h->size <= WIRE_INLINE_MAX ||
		frame->n_fds || frame->lacks_fds)
		return tarn_fail(EPROTO,
			"a message of %u bytes comes in parts, with flags 0x%x "
			"and %d descriptors",
			h->size, h->flags, frame->n_fds);
	return check_limit(reader, h);
}

static int frame_is_sound(
	const struct wire_reader *reader, const struct frame *frame)
{
	const struct wire_header *h = &frame->header;
	bool is_long = h->flags & WIRE_LONG;

	if (h->magic != WIRE_MAGIC)
		return tarn_fail(EPROTO,
			"a message begins with 0x%04x instead of 0x%04x: the "
			"peer does not speak tarn",
			h->magic, WIRE_MAGIC);
	if (h->flags & ~(WIRE_LONG | WIRE_AGAIN | WIRE_PART))
		return tarn_fail(
			EPROTO, "a message has unknown flags 0x%x", h->flags);
	if (h->flags & WIRE_PART)
		return part_is_sound(reader, frame);
	if (frame->size != (is_long ? 0 : h->size))
		return tarn_fail(EPROTO,
			"a message announces a body of %u bytes and has %zu%s",
			h->size, frame->size,
			is_long ? " besides its memfd" : "");
	if (frame->n_fds > WIRE_FDS_MAX + is_long)
		return tarn_fail(ETOOMANYREFS,
			"a message carries more than %d descriptors",
			WIRE_FDS_MAX);
	if (is_long && (!h->size || (!frame->n_fds && !frame->lacks_fds)))
		return tarn_fail(EPROTO,
			"a message announces a body of %u bytes in a memfd, "
			"and has %d descriptors",
			h->size, frame->n_fds);
	return check_limit(reader, h);
}

/* Takes the last descriptor, which is the body. */
static int take_long(const struct wire_reader *reader, struct frame *frame,
	struct wire_message *m)
{
	uint32_t size = frame->header.size;
	int r = reader->admit ? reader->admit(reader->arg, size, m->again) : 0;
	int fd = frame->fds[--frame->n_fds];

	if (r == 0)
		r = wire_body_check(fd, size);
	m->size = m->unread = size;
	m->long_fd = fd;
	m->is_long = r == 0 && reader->leaves_long;
	if (m->is_long)
		return 0;
	if (r == 0)
		r = wire_read_on(m, size);
	refuse_fd(reader, fd);
	return MIN(r, 0);
}

static int take_body(const struct wire_reader *reader, struct frame *frame,
	struct wire_message *m)
{
	unsigned char *body;

	if (frame->lacks_fds)
		return tarn_fail(EMFILE,
			"the descriptors that came with a message are more "
			"than this process may still open (ulimit -n)");
	if (frame->header.flags & WIRE_LONG)
		return take_long(reader, frame, m);
	m->size = frame->header.size;
	/* Without memory for a copy the message gets the buffer itself. */
	body = reader->spare && frame->size <= COPIED
		       ? malloc(MAX(frame->size, 1u))
		       : NULL;
	if (body) {
		memcpy(body, frame->body, frame->size);
		m->body = body;
		return 0;
	}
	/* Shrinking does not fail in practice; if it does, the buffer stays as
	 * large as it is. */
	body = realloc(frame->body, MAX(frame->size, 1u));
	m->body = body ? body : frame->body;
	frame->body = NULL;
	return 0;
}

static int take(const struct wire_reader *reader, struct frame *frame,
	struct wire_message *ret)
{
	struct wire_message m = {
		.type = frame->header.type,
		.serial = frame->header.serial,
		.again = frame->header.flags & WIRE_AGAIN,
		.pid = frame->pid,
	};
	int r = take_body(reader, frame, &m);

	if (r < 0) {
		free(m.body);
		m.body = NULL;
		m.size = m.unread = 0;
	} else {
		m.n_fds = frame->n_fds;
		memcpy(m.fds, frame->fds, sizeof(int) * (size_t)m.n_fds);
		frame->n_fds = 0;
	}
	*ret = m;
	return r;
}

/* 1: *ret has a message; 0: parts of it have come; or an error. */
static int receive_one(const struct wire_reader *reader, int fd,
	struct frame *frame, struct wire_message *ret)
{
	int r = frame_receive(reader, fd, frame);

	if (r == 0)
		r = frame_is_sound(reader, frame);
	if (r < 0)
		return r;
	if (frame->header.flags & WIRE_PART)
		return part_take(reader->partial, &frame->header, frame->body,
			frame->size, ret);
	/* Of a sender that is dead. */
	if (reader->partial)
		wire_partial_clear(reader->partial);
	r = take(reader, frame, ret);
	return r < 0 ? r : 1;
}

static unsigned char *take_spare(const struct wire_reader *reader)
{
	unsigned char *body = reader->spare ? *reader->spare : NULL;

	if (!body)
		return malloc(WIRE_INLINE_MAX);
	*reader->spare = NULL;
	return body;
}

static void keep_spare(const struct wire_reader *reader, unsigned char *body)
{
	if (reader->spare && !*reader->spare)
		*reader->spare = body;
	else
		free(body);
}

int wire_receive(
	int fd, const struct wire_reader *reader, struct wire_message *ret)
{
	static const struct wire_reader everything;
	struct frame frame;
	int r;

	reader = reader ? reader : &everything;
	/* All but the descriptors that have not come. */
	memset(&frame, 0, offsetof(struct frame, fds));
	frame.n_fds = 0;
	frame.lacks_fds = false;
	frame.body = take_spare(reader);
	if (!frame.body)
		return tarn_fail(ENOBUFS, "no memory to receive a message");
	do
		r = receive_one(reader, fd, &frame, ret);
	while (r == 0);
	for (int i = 0; i < frame.n_fds; i++)
		refuse_fd(reader, frame.fds[i]);
	keep_spare(reader, frame.body);
	return r;
}

struct wire_header wire_next_header(int fd)
{
	struct wire_header h = {0};
	bool reset = false;
	ssize_t n;

	do
		n = recv(fd, &h, sizeof(h), MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && is_first_reset(&reset));
	if (n < (ssize_t)sizeof(h))
		h = (struct wire_header) {0};
	return h;
}
