/* SPDX-License-Identifier: MIT */
/* Building the bodies of messages, field by field. */
#include "lib/store/message_body.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "shm/table.h"
#include "shm/messages.h"

void message_body_put(struct message_body *body, const void *p, size_t size)
{
	if (body->failed || size == 0)
		return;
	if (size > body->room - body->size) {
		size_t room = MAX(body->room * 2, body->size + size + 256);
		unsigned char *bigger = realloc(body->p, room);

		if (!bigger) {
			body->failed = true;
			return;
		}
		body->p = bigger;
		body->room = room;
	}
	memcpy(body->p + body->size, p, size);
	body->size += size;
}

void message_body_pad(struct message_body *body)
{
	static const char zero[8];

	message_body_put(body, zero, -body->size & 7);
}

int message_body_put_name(struct message_body *body, const char *name,
	size_t name_size, uint32_t source, uint64_t base,
	const struct tarn_layout *layout)
{
	struct msg_name message = {
		.name_size = (uint16_t)name_size,
		.dtype = (uint8_t)layout->dtype,
		.ndim = (uint8_t)layout->ndim,
		.storage = source,
		.base = base,
		.offset = layout->offset,
	};
	int r = name_check(name, name_size);

	if (r < 0)
		return r;
	message_body_put(body, &message, sizeof(message));
	message_body_put(
		body, layout->shape, layout->ndim * sizeof(layout->shape[0]));
	message_body_put(
		body, layout->stride, layout->ndim * sizeof(layout->stride[0]));
	message_body_put(body, name, name_size);
	message_body_pad(body);
	return 0;
}
