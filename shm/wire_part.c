/* SPDX-License-Identifier: MIT */
/*
 * Messages that come in parts, a datagram each.
 *
 * The first part has the size of the whole message, and the size of every part
 * follows from that and from the parts before it. So there is nothing to put in
 * order: a datagram is the next part, or wrong.
 *
 * A server may die between two parts. The next server sends something else to
 * each client before it answers (shm/messages.h, "Resuming"), which ends what is
 * half here; so the parts of two servers are never joined.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "shm/wire_internal.h"

void wire_partial_clear(struct wire_partial *partial)
{
	free(partial->body);
	*partial = (struct wire_partial) {0};
}

static bool is_next(
	const struct wire_partial *partial, const struct wire_header *header)
{
	return partial->got && partial->type == header->type &&
	       partial->serial == header->serial &&
	       partial->size == header->size;
}

/* Without memory the rest must be received all the same. */
static void begin(
	struct wire_partial *partial, const struct wire_header *header)
{
	wire_partial_clear(partial);
	*partial = (struct wire_partial) {
		.body = malloc(header->size),
		.type = header->type,
		.serial = header->serial,
		.size = header->size,
	};
}

/* It is whole. */
static int finish(struct wire_partial *partial, struct wire_message *ret)
{
	bool lost = !partial->body;

	*ret = (struct wire_message) {
		.type = partial->type,
		.serial = partial->serial,
		.size = lost ? 0 : partial->size,
		.body = partial->body,
	};
	*partial = (struct wire_partial) {0};
	return lost ? tarn_fail(ENOMEM, "no memory for a message in parts") : 1;
}

int part_take(struct wire_partial *partial, const struct wire_header *header,
	const void *bytes, size_t size, struct wire_message *ret)
{
	/* Else a peer that only ever begins would hold the receiver. */
	if (partial->got && !is_next(partial, header))
		return tarn_fail(EPROTO,
			"a message in parts was followed by another one after "
			"%u of its %u bytes",
			partial->got, partial->size);
	if (!partial->got)
		begin(partial, header);
	if (size != part_size(partial->size, partial->got))
		return tarn_fail(EPROTO,
			"a part of a message has %zu bytes instead of %zu: %u "
			"of %u have come before",
			size, part_size(partial->size, partial->got),
			partial->got, partial->size);
	if (partial->body)
		memcpy(partial->body + partial->got, bytes, size);
	partial->got += (uint32_t)size;
	return partial->got < partial->size ? 0 : finish(partial, ret);
}
