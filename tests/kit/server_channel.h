/* SPDX-License-Identifier: MIT */
/*
 * A server without a process: one domain, three clients, and channels that are
 * mapped twice, as the server and as a participant map them. A call that must
 * succeed bails out if it fails.
 */
#pragma once

#include "daemon/server/channel/internal.h"
#include "shm/lease.h"
#include "shm/ring_internal.h"

#define KIT_PAGE 4096u

/* A client: its lease memfd, as it has it and as the server. */
struct side {
	int fd;
	struct lease_page *page, *mapped;
	struct client client;
};

extern struct domain kit_server_domain;
extern struct side kit_server_sides[3]; /* numbered from 1 */

void kit_server_begin(void);
void kit_server_end(void);
/* As client_free does. */
void kit_server_end_client(struct side *side);

uint64_t kit_server_generation(uint32_t index);
enum storage_state kit_server_state(uint32_t index);
/* One that has no name, and is to be let go of when somebody has it. */
uint32_t kit_server_storage(void);

/* What a user of the channel has, beside the server. */
struct user {
	struct channel_map map;
	struct ring ring;
	uint32_t index;
	uint64_t generation;
	int fd;
};

/* Its memory, and the storage that it is to the server. */
int kit_server_channel_fd(const struct channel_geometry *g, uint64_t *ret_size);
uint32_t kit_server_channel_storage(uint64_t size, uint64_t *ret_generation);
/* Both, and a user; or why the server does not have it. */
int kit_server_try_channel(const struct channel_geometry *g, struct user *user);
/* Of two tensors a slot. */
void kit_server_channel(
	enum ring_mode mode, uint32_t slots, uint32_t flags, struct user *user);
/* Another who maps the same. */
struct user kit_server_another(const struct user *of);
void kit_server_drop_user(struct user *user);
void kit_server_join(struct user *user, unsigned kinds, uint32_t owner);

/* The server's turn: channels are looked at if somebody has left; and the same,
 * where they are. */
void kit_server_turn(void);
void kit_server_look(void);
/* And again when who waited for what is over has had the time to find it. */
void kit_server_look_later(void);
