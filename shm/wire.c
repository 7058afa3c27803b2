/* SPDX-License-Identifier: MIT */
/*
 * Frames come in, messages go out; and the sender that may block.
 *
 * The idea: a frame is received whole into private memory, its descriptors
 * are owned from the first moment, and only then is anything in it looked at.
 * Whatever is refused gives all of them back in one place.
 */
#include "shm/wire.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/fd.h"
#include "shm/wire_frame.h"

struct wire_reader {
	/* A message of which some frames have come; active says so. */
	struct wire_message partial;
	size_t room; /* bytes behind partial.body */
	bool active;
	/* It is counted and not kept: ENOMEM, there was no memory for it, or
	 * EMFILE, its descriptors could not all be had; 0: it is kept. */
	int lost;
	size_t reserve; /* room that a frame finds before it is taken */
	wire_close_fn close;
	void *close_arg;
	unsigned char *frame; /* one frame; nothing stays in it */
	unsigned char own[];  /* it, unless it is another reader's */
};

/* More than the WIRE_FDS_MAX that are allowed, so that the excess is seen,
 * with room for the credentials that a socket may have asked for. */
#define FDS_SEEN (WIRE_FDS_MAX + 16)

struct frame {
	struct wire_header header;
	const unsigned char *body;
	int32_t pid;
	int fds[FDS_SEEN];
	int n_fds;
	bool lacks_fds; /* others did not come */
};

static void close_plainly(void *arg, int fd)
{
	fd_close(fd);
}

static void close_all(const struct wire_reader *reader, int *fds, int *n_fds)
{
	for (int i = 0; i < *n_fds; i++)
		reader->close(reader->close_arg, fds[i]);
	*n_fds = 0;
}

void wire_message_clear(struct wire_message *message)
{
	for (int i = 0; i < message->n_fds; i++)
		fd_close(message->fds[i]);
	free(message->body);
	memset(message, 0, sizeof(*message));
}

int wire_take_fd(struct wire_message *message, int i)
{
	if (i < 0 || i >= message->n_fds)
		return -1;
	return fd_steal(&message->fds[i]);
}

static struct wire_reader *reader_new(size_t own)
{
	struct wire_reader *reader = calloc(1, sizeof(*reader) + own);

	if (!reader) {
		tarn_fail(ENOMEM, "no memory for a message reader");
		return NULL;
	}
	reader->close = close_plainly;
	reader->frame = reader->own;
	/* One's own sentences fit, and a client's small requests. */
	reader->reserve = own ? WIRE_RESERVE : 256;
	return reader;
}

int wire_reader_new(struct wire_reader **ret)
{
	struct wire_reader *reader = reader_new(WIRE_FRAME_MAX);

	if (!reader)
		return -ENOMEM;
	*ret = reader;
	return 0;
}

int wire_reader_new_beside(
	const struct wire_reader *other, struct wire_reader **ret)
{
	struct wire_reader *reader = reader_new(0);

	if (!reader)
		return -ENOMEM;
	reader->frame = other->frame;
	*ret = reader;
	return 0;
}

void wire_reader_set_close(
	struct wire_reader *reader, wire_close_fn fn, void *arg)
{
	reader->close = fn;
	reader->close_arg = arg;
}

size_t wire_reader_held(const struct wire_reader *reader)
{
	return reader->active ? reader->room : 0;
}

uint32_t wire_reader_held_fds(const struct wire_reader *reader)
{
	return reader->active ? (uint32_t)reader->partial.n_fds : 0;
}

static void reader_reset(struct wire_reader *reader)
{
	close_all(reader, reader->partial.fds, &reader->partial.n_fds);
	wire_message_clear(&reader->partial);
	reader->room = 0;
	reader->active = false;
	reader->lost = 0;
}

struct wire_reader *wire_reader_free(struct wire_reader *reader)
{
	if (reader)
		reader_reset(reader);
	free(reader);
	return NULL;
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
				reader->close(reader->close_arg, fd);
		}
	}
}

/* One frame and its descriptors, unchecked but for its size. */
static int frame_receive(
	struct wire_reader *reader, int fd, struct frame *frame)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * FDS_SEEN)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {reader->frame, WIRE_FRAME_MAX};
	struct msghdr msg;
	ssize_t n;

	do {
		msg = (struct msghdr) {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes),
		};
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -EAGAIN;
	/* The kernel was short: the frame lies there still, as without a
	 * reserve of ours. */
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
			"a frame is longer than the %u bytes allowed",
			WIRE_FRAME_MAX);
	if (frame->n_fds > WIRE_FDS_MAX)
		return tarn_fail(ETOOMANYREFS,
			"a frame carries more than %d descriptors",
			WIRE_FDS_MAX);
	/* There was room for more than are allowed, so it is this process that
	 * may have no more. All else of the frame is there. */
	frame->lacks_fds = msg.msg_flags & MSG_CTRUNC;
	if ((size_t)n < sizeof(frame->header))
		return tarn_fail(EPROTO,
			"a frame of %zd bytes is shorter than its header of "
			"%zu",
			n, sizeof(frame->header));
	memcpy(&frame->header, reader->frame, sizeof(frame->header));
	frame->body = reader->frame + sizeof(frame->header);
	if (frame->header.size != (size_t)n - sizeof(frame->header))
		return tarn_fail(EPROTO,
			"a frame says %u bytes of body and has %zu",
			frame->header.size, (size_t)n - sizeof(frame->header));
	return 0;
}

static int frame_check(const struct wire_reader *reader,
	const struct frame *frame, uint32_t (*limit)(uint16_t type))
{
	const struct wire_header *h = &frame->header;
	const struct wire_message *partial = &reader->partial;
	uint64_t most, total = h->size;

	if (h->magic != WIRE_MAGIC)
		return tarn_fail(EPROTO,
			"a frame begins with 0x%04x instead of 0x%04x: the "
			"peer does not speak tarn",
			h->magic, WIRE_MAGIC);
	if (h->flags & ~(WIRE_MORE | WIRE_AGAIN))
		return tarn_fail(
			EPROTO, "a frame has unknown flags 0x%x", h->flags);
	if (h->flags & WIRE_MORE && h->size == 0)
		return tarn_fail(EPROTO, "an empty frame promises more");
	if (reader->active) {
		if (h->type != partial->type || h->serial != partial->serial)
			return tarn_fail(EPROTO,
				"a frame of message %u.%u came before message "
				"%u.%u was whole",
				h->type, h->serial, partial->type,
				partial->serial);
		if (frame->n_fds)
			return tarn_fail(EPROTO,
				"%d descriptors came with a later frame of "
				"message %u.%u",
				frame->n_fds, h->type, h->serial);
		total += partial->size;
	}
	most = limit ? limit(h->type) : WIRE_MESSAGE_MAX;
	if (most == 0 && limit)
		return tarn_fail(EPROTO,
			"a message of type %u is not expected here", h->type);
	most = MIN(most, WIRE_MESSAGE_MAX);
	if (total > most)
		return tarn_fail(EMSGSIZE,
			"a message of type %u has at least %llu bytes; %llu "
			"are allowed",
			h->type, (unsigned long long)total,
			(unsigned long long)most);
	return 0;
}

/* Room first: a frame that was taken from the socket and cannot be kept would
 * be lost. */
static int reserve(struct wire_reader *reader)
{
	struct wire_message *partial = &reader->partial;

	if (partial->body || reader->lost)
		return 0;
	partial->body = malloc(reader->reserve);
	if (!partial->body)
		return tarn_fail(ENOBUFS, "no memory to receive a message");
	reader->room = reader->reserve;
	return 0;
}

static bool make_room(struct wire_reader *reader, size_t need)
{
	/* Twice as much each time, so that copying stays linear. */
	size_t room = MAX(need, reader->room * 2);
	unsigned char *body;

	if (reader->lost)
		return false;
	if (reader->partial.body && need <= reader->room)
		return true;
	body = realloc(reader->partial.body, MAX(room, 1u));
	if (!body)
		return false;
	reader->partial.body = body;
	reader->room = room;
	return true;
}

/* Frames keep their borders, so what follows this message is found whatever
 * becomes of it: its frames are passed over, up to its last. */
static void lose(struct wire_reader *reader, int why)
{
	struct wire_message *partial = &reader->partial;

	close_all(reader, partial->fds, &partial->n_fds);
	free(partial->body);
	partial->body = NULL;
	reader->room = 0;
	reader->lost = why;
}

static void frame_append(struct wire_reader *reader, const struct frame *frame)
{
	struct wire_message *partial = &reader->partial;
	size_t need = (size_t)partial->size + frame->header.size;

	if (!reader->active) {
		partial->type = frame->header.type;
		partial->serial = frame->header.serial;
		partial->again = frame->header.flags & WIRE_AGAIN;
		partial->pid = frame->pid;
		memcpy(partial->fds, frame->fds,
			sizeof(int) * (size_t)frame->n_fds);
		partial->n_fds = frame->n_fds;
		reader->active = true;
	}
	if (frame->lacks_fds)
		lose(reader, EMFILE);
	if (make_room(reader, need))
		memcpy(partial->body + partial->size, frame->body,
			frame->header.size);
	else if (!reader->lost)
		lose(reader, ENOMEM);
	partial->size = (uint32_t)need;
}

/* The last frame has come. */
static int hand_over(struct wire_reader *reader, struct wire_message *ret)
{
	int r = 1;

	*ret = reader->partial;
	if (reader->lost == EMFILE)
		r = tarn_fail(EMFILE,
			"the descriptors that came with a message are more "
			"than this process may still open (ulimit -n)");
	else if (reader->lost)
		r = tarn_fail(ENOMEM, "no memory for a message of %u bytes",
			ret->size);
	if (reader->lost)
		ret->size = 0;
	memset(&reader->partial, 0, sizeof(reader->partial));
	reader->room = 0;
	reader->active = false;
	reader->lost = 0;
	return r;
}

int wire_receive(struct wire_reader *reader, int fd,
	uint32_t (*limit)(uint16_t type), struct wire_message *ret)
{
	struct frame frame = {.n_fds = 0};
	int r = reserve(reader);

	if (r < 0)
		return r;
	r = frame_receive(reader, fd, &frame);
	if (r == -EAGAIN || r == -ENOBUFS)
		return r; /* nothing was taken; a message half here goes on */
	if (r >= 0)
		r = frame_check(reader, &frame, limit);
	if (r < 0) {
		close_all(reader, frame.fds, &frame.n_fds);
		reader_reset(reader);
		return r;
	}
	frame_append(reader, &frame);
	return frame.header.flags & WIRE_MORE ? 0 : hand_over(reader, ret);
}

int frame_send(int fd, const struct wire_header *header, const void *body,
	const int *fds, int n_fds, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * WIRE_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov[2] = {
		{(void *)header, sizeof(*header)},
		{(void *)body, header->size},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t n;

	if (n_fds > 0) {
		size_t size = sizeof(int) * (size_t)n_fds;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(size);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.align), fds, size);
	}
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL | flags);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return -EAGAIN;
	if (errno == EPIPE || errno == ECONNRESET)
		return tarn_fail(EPIPE, "the peer is gone");
	return tarn_fail(errno,
		"sending a frame of %u bytes and %d descriptors: %s",
		header->size, n_fds, tarn_errno_text(errno));
}

int frame_check_message(size_t size, int n_fds)
{
	if (size > WIRE_MESSAGE_MAX)
		return tarn_fail(EMSGSIZE,
			"a message of %zu bytes is longer than the %u allowed",
			size, WIRE_MESSAGE_MAX);
	if (n_fds < 0 || n_fds > WIRE_FDS_MAX)
		return tarn_fail(EINVAL,
			"%d descriptors do not fit into one message; %d do",
			n_fds, WIRE_FDS_MAX);
	return 0;
}

int wire_send(int fd, uint16_t type, uint32_t serial, const void *body,
	size_t size, const int *fds, int n_fds)
{
	const unsigned char *p = size ? body : (const void *)"";
	int r = frame_check_message(size, n_fds);

	if (r < 0)
		return r;
	do {
		struct wire_header header = frame_header(type, serial, size);

		r = frame_send(fd, &header, p, fds, n_fds, 0);
		if (r == -EAGAIN) {
			struct pollfd wait = {.fd = fd, .events = POLLOUT};

			poll(&wait, 1, -1);
			continue;
		}
		if (r < 0)
			return r;
		p += header.size;
		size -= header.size;
		n_fds = 0;
	} while (size > 0 || r == -EAGAIN);
	return 0;
}
