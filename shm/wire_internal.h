/* SPDX-License-Identifier: MIT */
/* Shared by the files about messages: one outgoing datagram, and long bodies in
 * both directions. */
#pragma once

#include "shm/wire.h"

/* Can the message be sent at all? -EMSGSIZE, -EINVAL. */
int frame_check(const struct wire_out *out);

/* One sendmsg of a prepared message, flags on top of MSG_NOSIGNAL. 0; -EAGAIN
 * without a sentence; -EPIPE or another error with one. */
int frame_send(int fd, const struct wire_out *out, int flags);

/* The same, of the part that begins at byte at of a body that was not laid into
 * a memfd. */
int frame_send_part(int fd, const struct wire_out *out, size_t at, int flags);
/* How many bytes the part of such a body has that begins there. */
static inline size_t part_size(size_t size, size_t at)
{
	return size - at < WIRE_INLINE_MAX ? size - at : WIRE_INLINE_MAX;
}

/* wire_part.c: a datagram with WIRE_PART, of a message that may come in parts
 * and is within its limit. 1: it was the last, and *ret is the message; 0: more
 * are to come; -EPROTO; -ENOMEM with the last, of which *ret has type and
 * serial. */
int part_take(struct wire_partial *partial, const struct wire_header *header,
	const void *bytes, size_t size, struct wire_message *ret);

/* wire_body.c: a memfd with these bytes, sealed. */
int wire_body_put(const void *bytes, size_t size, int *ret_fd);
/* Reads the bytes of a memfd from a peer into private memory. -EPROTO: it is
 * something else, or of another size; -ENOMEM. */
int wire_body_check(int fd, uint32_t size);
