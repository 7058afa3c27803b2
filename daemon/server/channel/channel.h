/* SPDX-License-Identifier: MIT */
/* Channels, as the rest of the server knows them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/descriptor.h>

#include "daemon/loop/deadline.h"

struct client;
struct domain;
struct server_channel;

/* The channels of a domain. */
struct channels {
	struct server_channel *first;
	uint32_t n;
	uint64_t words;            /* of all of them, that a pass may read */
	bool left;                 /* somebody may have left one, or died */
	struct deadline next_look; /* they are not looked at before */
	struct deadline over;      /* then some lose their names */
};

/* channel/channel.c: rings between processes */
/* The storage is a channel that is published now; fd is borrowed. -EPROTO: it
 * makes no sense; -ENOSPC: there are too many. It is known until its storage is
 * free. */
int channel_open(
	struct domain *domain, uint32_t index, uint64_t generation, int fd);
/* It was published before. -ENOMEM. */
int channel_rebuild(
	struct domain *domain, uint32_t index, uint64_t generation, int fd);
void channels_free(struct domain *domain);
/* The number of channels without participants. */
uint32_t channels_idle(const struct domain *domain);
bool channel_is(
	const struct domain *domain, uint32_t index, uint64_t generation);
/* Is it a channel that is closed, with no items left to be received? Another
 * may take its name. */
bool channel_gives_way(
	const struct domain *domain, uint32_t index, uint64_t generation);
/* "open", "closed", or "closed, 3 items not received" */
void channel_describe(const struct domain *domain, uint32_t index,
	uint64_t generation, char *ret, size_t size);
/* Before something else takes d's name: -EBUSY, if it is an open channel's,
 * since its users could not meet new ones any more, or if there are items in it
 * that can be received only by finding it by its name. */
int channel_check_taken(const struct domain *domain, const char *verb,
	const char *name, size_t size, const struct tarn_descriptor *d);
void channel_named(struct domain *domain, uint32_t index, uint64_t generation,
	const char *name, size_t size);
/* WIRE_CHANNEL */
void channel_who(struct client *client, uint32_t serial);

/* channel/reap_dead.c: what the dead held in them */
/* Where channels_left was set, after a turn of the loop or before, if it is not
 * too soon after a long look: then *ret_at is when to look again. */
void channels_in_turn(struct domain *domain);
