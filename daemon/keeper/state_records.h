/* SPDX-License-Identifier: MIT */
/* The records of a keeper's state, as they lie in its memfd. */
#pragma once

#include <stdint.h>

#include "daemon/keeper/state.h"

#define STATE_MAGIC 0x65746174736e7274ull /* "trnstate" */
#define STATE_VERSION 4u

enum list { DOMAINS, SEGMENTS, CLIENTS, LOADERS, STORED_FDS, LISTS };

struct list_head {
	uint32_t n;
	uint32_t size; /* of one record */
};

struct state_head {
	uint64_t magic;
	uint32_t version;
	uint32_t size; /* of this, with the settings */
	struct list_head lists[LISTS];
	uint64_t instance;
	uint64_t budget;
	uint64_t reach;
	uint64_t began_at;
	uint64_t next_client;
	uint32_t next_segment;
	uint32_t last_loader;
	uint32_t restarts;
	uint32_t ended;
	uint32_t upgrades;
	uint32_t lanes; /* of each pool; of older programs 0: one */
	struct keeper_rest rest;
	/* struct keeper_settings, behind this and before the lists: where, from
	 * the beginning of the head. Of another version it is not read. */
	uint32_t settings_at;
	uint32_t settings_size;
	uint32_t settings_version;
	uint32_t settings_pad;
};

struct state_domain {
	struct pool_spec spec;
	uint64_t pool_end;
	uint64_t allocated;
	int32_t fds[2]; /* as in keeper_domain */
};

struct state_segment {
	uint32_t domain;
	uint32_t number;
	uint64_t offset;
	uint64_t size;
	int32_t fd;
	uint32_t place; /* of older programs not known */
	uint64_t huge;
};

struct state_client {
	struct msg_client who;
	uint32_t user;
	int32_t socket;
	int32_t lease_fd;
	uint32_t pad;
};

struct state_loader {
	struct msg_loader who;
	int32_t pipe_fd;
	uint32_t pad;
};

struct state_stored_fd {
	struct msg_fd_key key;
	int32_t fd;
	uint32_t pad;
};

static const uint32_t state_sizes[LISTS] = {
	[DOMAINS] = sizeof(struct state_domain),
	[SEGMENTS] = sizeof(struct state_segment),
	[CLIENTS] = sizeof(struct state_client),
	[LOADERS] = sizeof(struct state_loader),
	[STORED_FDS] = sizeof(struct state_stored_fd),
};
