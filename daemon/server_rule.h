/* SPDX-License-Identifier: MIT */
/*
 * An access rule: who may see what lies under it, and all that lies there. One
 * for each uid, and one for each pool that has a name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/alloc.h"
#include "daemon/closer.h"
#include "daemon/internal.h"
#include "daemon/server_cache.h"
#include "daemon/server_quota.h"
#include "daemon/server_segments.h"
#include "daemon/server_storage.h"
#include "daemon/worker.h"
#include "shm/lease.h"
#include "shm/table.h"

struct client;
struct load;
struct loader;
struct publish;
struct server;
struct server_channel;

struct rule {
	struct server *server;
	struct rule *next;
	uint32_t number;
	struct pool_spec spec;
	/* The account of its user, if it is one's own: server_quota.c. */
	struct quota quota;
	uint64_t used[QUOTA_KINDS];
	struct name_accounts names; /* of this rule: whose they are */
	struct table table;
	struct table_writer *writer;
	struct alloc *alloc;
	/* Of segments that nobody can write any more: server_frozen.c. */
	struct alloc *frozen;
	uint64_t frozen_seen; /* bytes used there when it was last looked at */
	struct storage_info *infos;
	uint32_t n_infos;
	struct rule_counts counts;
	struct storage_list lists[STORAGE_KINDS];
	struct file_cache cache;
	struct lease_batch batch;
	uint32_t nothing; /* the storage of all that is empty, if cached */
	uint64_t nothing_generation;
	int table_fd; /* O_RDONLY, for clients; -1 until it is sealed */
	struct segment *segments; /* by the table's number */
	uint32_t n_segments;
	struct msg_grow asked; /* of the keeper, if growing */
	uint64_t coming_until; /* then it is asked again; 0: not */
	uint64_t own_until;    /* publications wait for what leaves; 0: none */
	uint32_t n_found; /* of those that a dead server had in the table */
	struct shrink shrink;
	struct client *clients;
	struct load *loads;
	struct publish *publishes; /* that wait, the oldest first */
	struct loader *loaders;
	struct server_channel *channels;
	uint32_t n_channels;
	uint64_t channel_words; /* of all of them, that a pass may read */
	bool channels_left;     /* somebody may have left one, or died */
	uint64_t next_channels; /* they are not looked at before */
	uint64_t channels_over; /* then some lose their names; 0: none */
	struct closer *closer;
	struct worker *worker;
	bool memory_freed;      /* loads that wait may look again */
	uint64_t next_reap;     /* not before, unless memory is needed */
	uint64_t next_check;    /* of its user: none before; loop_now() */
	uint32_t n_connected;   /* clients of its user, in whatever pool */
	uint32_t n_publish_fds; /* that his publications have brought */
	uint32_t n_half_fds;    /* of what he has half said: server_spare.c */
	uint64_t round, spent;  /* of the server's time: server_share.c */
	bool growing;           /* the keeper was asked for memory */
	bool loader_wanted;     /* the keeper was asked for a loader */
};

/* server_rules.c */
struct rule *rule_find(struct server *server, uint32_t number);
int rule_come(struct server *server, const struct msg_rule *from,
	struct wire_message *m);
/* Its region is sealed: who came before that is served from now on. */
int rule_ready(struct server *server, const struct msg_rule *from,
	struct wire_message *m);
/* Its clients and loaders go; then, when those of all rules have gone, it. */
void rule_leave(struct rule *rule);
void rule_free(struct rule *rule);

/* server_pool.c: who may use which pool */
#define POOL_READ 4u
#define POOL_WRITE 2u
struct rule *rule_of_user(struct server *server, uint32_t uid);
/* From now on it belongs to the pool of that name: -EACCES. */
int client_enter(struct client *client, const char *name, size_t size);
/* Sets may_write by the rule that it is under. */
void client_judge(struct client *client);
/* Before whatever changes a pool: -EPERM with a sentence. */
int client_check_write(const struct client *client);
