/* SPDX-License-Identifier: MIT */
/* Channels, as the server has them. */
#pragma once

#include "daemon/server.h"
#include "shm/channel.h"

struct server_channel {
	struct server_channel *next; /* of the rule */
	uint32_t index;              /* its storage */
	uint64_t generation;
	struct channel_map map; /* memory NULL: it was damaged */
	struct ring ring;
	char *name;    /* that it was published under; NULL: not known */
	uint64_t over; /* when that was seen; 0: not yet */
};

static inline bool channel_is_ephemeral(const struct server_channel *c)
{
	return c->map.memory && c->map.geometry.flags & CHANNEL_EPHEMERAL;
}

/* What a connection is called in rings. The keeper counts connections in 64
 * bits: one of the same name would come after four thousand million others. */
static inline uint32_t channel_owner(const struct client *client)
{
	return (uint32_t)client->number;
}

/* NULL: it is none. */
struct server_channel *channel_find(
	const struct rule *rule, uint32_t index, uint64_t generation);
