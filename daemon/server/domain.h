/* SPDX-License-Identifier: MIT */
/*
 * An access domain: the users that may see its pool, and everything in it.
 * There is one for each uid, and one for each pool that has a name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/loop/closer.h"
#include "daemon/loop/deadline.h"
#include "daemon/loop/fd_store.h"
#include "daemon/loop/worker.h"
#include "daemon/messages.h"
#include "daemon/server/account/account.h"
#include "daemon/server/channel/channel.h"
#include "daemon/server/load/load.h"
#include "daemon/server/memory/segments.h"
#include "daemon/server/storage/cache.h"
#include "daemon/server/storage/memory_queue.h"
#include "daemon/server/storage/storage.h"
#include "shm/table.h"

struct arrival;
struct client;
struct publish;
struct server;

struct domain {
	struct server *server;
	struct domain *next;
	uint32_t number;
	struct pool_spec spec;
	struct table table;
	struct table_writer *writer;
	int table_fd; /* O_RDONLY, for clients */
	struct pool pool;
	struct growth growth;
	struct storages storages;
	struct file_cache cache;
	struct name_accounts names; /* of this domain: whose they are */
	/* Set only for a user's own domain: account/account.c. */
	struct account account;
	struct client *clients;
	struct loading loading;
	struct publish *publishes; /* that wait, the oldest first */
	struct channels channels;
	struct closer *closer;
	struct deadline closer_timer;
	/* For which its closer has had no room yet: send/store_fd.c */
	struct fd_store unclosed;
	struct worker *worker;
	/* A long message that is being read: client/arrival.c */
	struct arrival *arrival;
	uint64_t last_arrival; /* of that client */
	bool arrival_waits;    /* another one, of another client */
	/* to the keeper, since a client was there */
	bool reported_empty;
};

/* account/find_domain.c */
struct domain *domain_find(struct server *server, uint32_t number);
/* That of a user's own memory; NULL: there is none. */
struct domain *domain_of_user(struct server *server, uint32_t uid);

/* domain.c */
int domain_come(struct server *server, const struct msg_domain *from,
	struct wire_message *m);
/* Tells the keeper, once, that nothing is left under it: then another user may
 * get it. */
void domain_poll(struct domain *domain);
/* Drops clients and loaders, then the domain, when those of all domains have
 * gone. */
void domain_leave(struct domain *domain);
void domain_free(struct domain *domain);

/* client/pool_access.c: which users may use which pool */
#define POOL_READ 4u
#define POOL_WRITE 2u
/* From now on it belongs to the pool of that name: -EACCES. */
int client_enter(struct client *client, const char *name, size_t size);
/* Sets may_write by the domain that it is under. */
void client_judge(struct client *client);
/* Before any change of a pool: -EPERM with a sentence. */
int client_check_write(const struct client *client);
