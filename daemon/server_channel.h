/* SPDX-License-Identifier: MIT */
/* Channels, as the rest of the server knows them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/descriptor.h>

struct client;
struct lease_batch;
struct rule;

/* server_channel.c: rings between processes */
/* The storage is a channel that is published now; fd is borrowed. -EPROTO: it
 * makes no sense; -ENOSPC: there are too many. */
int channel_open(
	struct rule *rule, uint32_t index, uint64_t generation, int fd);
/* It was published before. -ENOMEM. */
int channel_rebuild(
	struct rule *rule, uint32_t index, uint64_t generation, int fd);
/* Its storage is free, if it was one. */
void channel_drop(struct rule *rule, uint32_t index, uint64_t generation);
void channels_free(struct rule *rule);
/* Which of the batch do items keep? Before other places are searched. */
void channels_search(const struct rule *rule, struct lease_batch *batch);
bool channel_is(const struct rule *rule, uint32_t index, uint64_t generation);
/* Is it a channel that is closed, with nothing in it for whoever comes? Another
 * may take its name. */
bool channel_gives_way(
	const struct rule *rule, uint32_t index, uint64_t generation);
/* "open", "closed", or "closed, 3 items not received" */
void channel_describe(const struct rule *rule, uint32_t index,
	uint64_t generation, char *ret, size_t size);
/* Before d's name is taken by something else: -EBUSY, if it is an open
 * channel's, since its users would be left with nobody to meet, or if there are
 * items in it that only who finds it by its name can receive. */
int channel_check_taken(const struct rule *rule, const char *verb,
	const char *name, size_t size, const struct tarn_descriptor *d);
void channel_named(struct rule *rule, uint32_t index, uint64_t generation,
	const char *name, size_t size);
/* WIRE_CHANNEL */
void channel_who(struct client *client, uint32_t serial);

/* server_channel_look.c: what the dead held in them */
/* Where channels_left was set, after a turn of the loop or before, if it is not
 * too soon after a long look: then *ret_at is when to look again. */
void channels_in_turn(struct rule *rule, uint64_t *ret_at);
