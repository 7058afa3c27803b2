/* SPDX-License-Identifier: MIT */
/* What wire.c and wire_queue.c share: one frame on its way out. */
#pragma once

#include "shm/wire.h"

#define FRAME_BODY_MAX (WIRE_FRAME_MAX - sizeof(struct wire_header))

/* The header of the next frame of a message of which left bytes remain. */
static inline struct wire_header frame_header(uint16_t type, uint32_t serial,
	size_t left)
{
	bool more = left > FRAME_BODY_MAX;

	return (struct wire_header){
		.magic = WIRE_MAGIC,
		.type = type,
		.flags = more ? WIRE_MORE : 0,
		.serial = serial,
		.size = (uint32_t)(more ? FRAME_BODY_MAX : left),
	};
}

/* sendmsg once, flags on top of MSG_NOSIGNAL. 0; -EAGAIN without a sentence;
 * -EPIPE or another error with one. */
int frame_send(int fd, const struct wire_header *header, const void *body,
	const int *fds, int n_fds, int flags);

/* The size and the number of descriptors can be sent at all. */
int frame_check_message(size_t size, int n_fds);
