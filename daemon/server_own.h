/* SPDX-License-Identifier: MIT */
/* Storages with a memfd of their own, and descriptors that outlive the server. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/internal.h"
#include "shm/table.h"

struct client;
struct rule;
struct server;

/* server_own.c: storages with a memfd of their own */
/* Are there descriptors for one more? */
bool own_has_room(const struct server *server);
uint64_t own_memory(const struct server *server); /* of all of them */
/* For one more: 1; 0: wait, as for memory; -ENOSPC. */
int own_find_room(struct rule *rule, uint64_t size, bool may_wait);
/* An entry that is FILLING, and its descriptor, which is kept. Takes fd. */
int own_add(struct rule *rule, const struct table_storage *entry, int fd,
	uint32_t *ret_index, uint64_t *ret_generation);
/* It is free now. */
void own_drop(struct rule *rule, uint32_t index, uint64_t generation);
int own_send(struct client *client, const struct wire_message *m);
/* It is a channel: as the two of server_channel.c. */
int own_open_channel(struct rule *rule, uint32_t index, uint64_t generation);
int own_rebuild_channel(struct rule *rule, uint32_t index);

/* server_kept.c: descriptors that must outlive the server */
/* Takes fd, also when it fails, and gives the keeper a copy: to be called
 * before a table leads to it. */
int server_keep(struct server *server, const struct msg_keep *key, int fd);
/* Borrowed; -1: there is none. */
int server_kept(const struct server *server, const struct msg_keep *key);
void server_forget(struct server *server, const struct msg_keep *key);
/* D_KEPT: what the last server had kept. */
int server_take_kept(struct server *server, struct wire_message *m);
