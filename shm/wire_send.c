/* SPDX-License-Identifier: MIT */
/* Sending messages, one datagram each, for senders that may block. */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fail.h"
#include "base/fd.h"
#include "shm/wire_internal.h"

int frame_check(const struct wire_out *out)
{
	if (out->size > WIRE_MESSAGE_MAX)
		return tarn_fail(EMSGSIZE,
			"a message of %zu bytes is longer than the %u allowed",
			out->size, WIRE_MESSAGE_MAX);
	if (out->n_fds < 0 || out->n_fds > WIRE_FDS_MAX)
		return tarn_fail(EINVAL,
			"%d descriptors do not fit into one message; %d do",
			out->n_fds, WIRE_FDS_MAX);
	return 0;
}

int wire_out_prepare(struct wire_out *out)
{
	int r = frame_check(out);

	if (r < 0 || out->is_long || out->size <= WIRE_INLINE_MAX)
		return r;
	r = wire_body_put(out->body, out->size, &out->long_fd);
	out->is_long = r == 0;
	return r;
}

void wire_out_done(struct wire_out *out)
{
	if (out->is_long)
		fd_close(out->long_fd);
	out->is_long = false;
}

/* Puts all descriptors of the message into a control message. */
static void put_fds(
	struct msghdr *msg, struct cmsghdr *control, const struct wire_out *out)
{
	size_t size = sizeof(int) * (size_t)out->n_fds;

	if (size)
		memcpy(CMSG_DATA(control), out->fds, size);
	if (out->is_long) {
		memcpy(CMSG_DATA(control) + size, &out->long_fd, sizeof(int));
		size += sizeof(int);
	}
	if (!size)
		return;
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(size);
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(size);
}

/* A datagram: the header, with these WIRE_* flags, and size bytes of a body. */
static int send_datagram(int fd, const struct wire_out *out, uint32_t kind,
	const void *body, size_t size, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * (WIRE_FDS_MAX + 1))];
		struct cmsghdr align;
	} control = {.bytes = ""};
	struct wire_header header = {
		.magic = WIRE_MAGIC,
		.type = out->type,
		.flags = kind | (out->again ? WIRE_AGAIN : 0),
		.serial = out->serial,
		.size = (uint32_t)out->size,
	};
	struct iovec iov[2] = {
		{&header, sizeof(header)},
		{(void *)body, size},
	};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = size ? 2 : 1};
	ssize_t n;

	put_fds(&msg, &control.align, out);
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
		"sending a message of %zu bytes and %d descriptors: %s",
		out->size, out->n_fds, tarn_errno_text(errno));
}

int frame_send(int fd, const struct wire_out *out, int flags)
{
	return send_datagram(fd, out, out->is_long ? WIRE_LONG : 0, out->body,
		out->is_long ? 0 : out->size, flags);
}

int frame_send_part(int fd, const struct wire_out *out, size_t at, int flags)
{
	return send_datagram(fd, out, WIRE_PART,
		(const unsigned char *)out->body + at, part_size(out->size, at),
		flags);
}

int wire_send(int fd, const struct wire_out *out)
{
	struct wire_out once = *out;
	int r = wire_out_prepare(&once);

	while (r == 0 && (r = frame_send(fd, &once, 0)) == -EAGAIN) {
		struct pollfd wait = {.fd = fd, .events = POLLOUT};

		poll(&wait, 1, -1);
		r = 0;
	}
	if (!out->is_long)
		wire_out_done(&once);
	return r;
}
