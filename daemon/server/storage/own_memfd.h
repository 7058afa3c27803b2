/* SPDX-License-Identifier: MIT */
/* Storages with a descriptor of their own, and descriptors that outlive the
 * server. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/messages.h"
#include "shm/table.h"

struct client;
struct domain;
struct server;

/* storage/own_memfd.c: storages with a descriptor of their own */
/* Are there descriptors for one more? */
bool own_has_room(const struct server *server);
uint64_t own_memory(const struct server *server); /* of all of them */
/* The sentence for one more of that size. */
int own_no_room(const struct server *server, uint64_t size);
/* An entry that is FILLING, and its descriptor, which is kept. Takes fd, also
 * when it fails. */
int own_add(struct domain *domain, const struct table_storage *entry, int fd,
	uint32_t *ret_index, uint64_t *ret_generation);
/* It is free now. */
void own_drop(struct domain *domain, uint32_t index, uint64_t generation);
/* Borrowed; -1: it has none, or is gone. */
int own_fd(const struct domain *domain, uint32_t index, uint64_t generation);
int own_send(struct client *client, const struct wire_message *m);

/* send/store_fd.c: descriptors that must outlive the server */
/* Takes fd, also when it fails, and gives the keeper a copy: to be called
 * before a table leads to it. */
int server_store_fd(
	struct server *server, const struct msg_fd_key *key, int fd);
/* Borrowed; -1: there is none. */
int server_stored_fd(const struct server *server, const struct msg_fd_key *key);
/* Closes fd, which was to be kept under that key. Never blocks. */
void server_close_fd(
	struct server *server, const struct msg_fd_key *key, int fd);
/* After a turn: what there was no room for, as much as there is room for now. */
void server_close_rest(struct domain *domain);
void server_drop_fd(struct server *server, const struct msg_fd_key *key);
/* D_STORED_FD: what the last server had kept. */
int server_restore_fd(struct server *server, struct wire_message *m);
