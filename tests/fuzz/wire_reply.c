/* SPDX-License-Identifier: MIT */
/*
 * A server's reply must be a message of a known type, of the size that its
 * type and fields have, with a sentence if it is an error.
 */
#include "tests/fuzz/wire_reply.h"

#include <string.h>

#include "tests/kit/tap.h"

static void judge_published(const struct wire_message *m)
{
	const struct msg_published *p = (const void *)m->body;

	if (m->size < sizeof(*p) ||
		m->size != sizeof(*p) +
				   p->n_sources * sizeof(struct msg_stored) +
				   p->n_names * sizeof(uint64_t))
		bail("published, in a reply of %u bytes", m->size);
}

static void judge_segments(const struct wire_message *m)
{
	const struct msg_segments *s = (const void *)m->body;
	const uint64_t *serials = (const void *)(s + 1);

	if (m->size < sizeof(*s) || s->count != (uint32_t)m->n_fds ||
		m->size != sizeof(*s) + s->count * sizeof(*serials))
		bail("segments, in a reply of %u bytes and %d descriptors",
			m->size, m->n_fds);
	for (uint32_t i = 0; i < s->count; i++)
		if (!serials[i])
			bail("segment %u of no serial", s->first + i);
}

static void judge_channel(const struct wire_message *m)
{
	const struct msg_channel *channel = (const void *)m->body;

	if (m->size != sizeof(*channel))
		bail("a channel, in a reply of %u bytes", m->size);
	if (!channel->owner || channel->pad)
		bail("a channel's owner %u, %u", channel->owner, channel->pad);
}

void reply_judge(const struct wire_message *m)
{
	const struct msg_error *error = (const void *)m->body;

	if (m->type < WIRE_WELCOME || m->type > WIRE_CHANNEL_IS)
		bail("a reply of type %u", m->type);
	if (m->type == WIRE_PUBLISHED)
		judge_published(m);
	if (m->type == WIRE_SEGMENT_FDS)
		judge_segments(m);
	if (m->type == WIRE_LOADED && m->size != sizeof(struct msg_loaded))
		bail("loaded, in a reply of %u bytes", m->size);
	if (m->type == WIRE_CHANNEL_IS)
		judge_channel(m);
	if (m->type == WIRE_CHECKED &&
		((const struct msg_checked *)m->body)->n_faults)
		bail("faults: %s",
			(const char *)m->body + sizeof(struct msg_checked));
	if (m->type == WIRE_ERROR &&
		(m->size <= sizeof(*error) || error->error <= 0 ||
			memchr(error->text, 0, m->size - sizeof(*error))))
		bail("an error without a sentence");
}
