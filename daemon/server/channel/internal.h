/* SPDX-License-Identifier: MIT */
/* Channels, as the server has them. */
#pragma once

#include "daemon/server/server.h"
#include "shm/channel.h"

struct server_channel {
	struct server_channel *next;  /* of the domain */
	struct storage_holder holder; /* with its storage */
	struct channel_map map;       /* memory NULL: it was damaged */
	struct ring ring;
	char *name;    /* that it was published under; NULL: not known */
	uint64_t over; /* when that was seen; 0: not yet */
	bool ended;    /* names that are not known lead to it */
};

static inline bool channel_is_ephemeral(const struct server_channel *c)
{
	return c->map.memory && c->map.geometry.flags & CHANNEL_EPHEMERAL;
}

/* The number of a connection in rings. The keeper counts connections in 64
 * bits: the same number would come again after four thousand million others. */
static inline uint32_t channel_owner(const struct client *client)
{
	return (uint32_t)client->number;
}

/* NULL: it is none. */
struct server_channel *channel_find(
	const struct domain *domain, uint32_t index, uint64_t generation);

/* ---- channel/ended.c ------------------------------------------- */

/* No client needs its name any more. */
bool channel_has_ended(struct domain *domain, struct server_channel *c);
/* Removes its name, if that is known: a server before this one published the
 * others. Sets *ret_left if it has one still. */
int channel_remove_name(
	struct domain *domain, struct server_channel *c, bool *ret_left);
/* The names of all such channels, in one walk along all names. */
int channels_remove_ended(struct domain *domain);
