/* SPDX-License-Identifier: MIT */
/*
 * A server without a process: one rule, three clients, and channels that are
 * mapped twice, as the server has them and as who takes part. What has to go
 * well bails out if it does not.
 */
#pragma once

#include "daemon/server_channel_impl.h"
#include "shm/lease.h"
#include "shm/ring_words.h"

#define KIT_PAGE 4096u

/* A client: its lease memfd, as it has it and as the server. */
struct side {
	int fd;
	struct lease_page *page, *mapped;
	struct client client;
};

extern struct rule kit_rule;
extern struct side kit_sides[3]; /* numbered from 1 */

void kit_begin(void);
void kit_end(void);
/* As client_free does. */
void kit_end_client(struct side *side);

uint64_t kit_generation(uint32_t index);
enum storage_state kit_state(uint32_t index);
/* One that has no name, and is to be let go of when somebody has it. */
uint32_t kit_storage(void);

/* What a user of the channel has, beside the server. */
struct user {
	struct channel_map map;
	struct ring ring;
	uint32_t index;
	uint64_t generation;
	int fd;
};

/* Its memory, and the storage that it is to the server. */
int kit_channel_fd(const struct channel_geometry *g, uint64_t *ret_size);
uint32_t kit_channel_storage(uint64_t size, uint64_t *ret_generation);
/* Both, and a user; or why the server does not have it. */
int kit_try_channel(const struct channel_geometry *g, struct user *user);
/* Of two tensors a slot. */
void kit_channel(
	enum ring_mode mode, uint32_t slots, uint32_t flags, struct user *user);
/* Another who maps the same. */
struct user kit_another(const struct user *of);
void kit_drop_user(struct user *user);
void kit_join(struct user *user, unsigned kinds, uint32_t owner);

/* The server's turn: channels are looked at if somebody has left; and the same,
 * where they are. */
void kit_turn(void);
void kit_look(void);
/* And again when who waited for what is over has had the time to find it. */
void kit_look_later(void);
