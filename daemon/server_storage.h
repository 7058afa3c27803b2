/* SPDX-License-Identifier: MIT */
/*
 * Storages: what holds each of them, what it is counted as, and when it is
 * free.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shm/table.h"

struct client;
struct load;
struct rule;
struct server;

/* What a storage is counted as: one of these. */
enum storage_kind {
	KIND_FREE,
	KIND_FILLING,	  /* a load is under way */
	KIND_NAMED,	  /* names lead to it */
	KIND_CACHED,	  /* no name: kept for whoever proves the same file */
	KIND_UNNAMED,	  /* only leases hold it, as far as is known */
	KIND_LET_GO,	  /* it may be that nothing does: see reap() */
	KIND_QUARANTINED, /* a dead loader's ring may still write it */
	STORAGE_KINDS
};

struct storage_sum {
	uint64_t n;
	uint64_t bytes;	 /* their sizes */
	uint64_t memory; /* what was taken for them, whole pages */
};

/* What a rule's storages are, kept up to date by storage_recount. */
struct rule_counts {
	struct storage_sum kinds[STORAGE_KINDS]; /* KIND_FREE: nothing */
	struct storage_sum created; /* of all kinds: by clients */
	struct storage_sum own;	    /* of all kinds: not in the pool */
	uint64_t n_evicted;	    /* since the server began */
	uint64_t bytes_evicted;
};

/* The storages of a kind, the one used longest ago first; index + 1, 0 is
 * none. */
struct storage_list {
	uint32_t first, last;
};

/* What the server knows of a storage beyond the table's entry. */
struct storage_info {
	uint32_t names;	   /* names that lead to it */
	uint32_t flags;	   /* LOADED_*: how it was read */
	uint64_t last_use; /* or when it became what it is: loop_now() */
	struct load *filling;
	uint32_t before, after; /* in the list of its kind: index + 1 */
	uint32_t same;		/* in its chain of the cache: index + 1 */
	uint32_t holder;	/* uid + 1 of who is charged; 0: the owner */
	uint8_t kind;		/* enum storage_kind: where it is counted */
	bool cached;		/* kept for whoever proves the same file */
	bool findable;		/* in a chain of the cache */
	bool let_go;		/* leases on it are to be looked for */
	bool frozen;		/* it lies where nobody writes any more */
};

/* server_storage.c: who holds what */
struct storage_info *storage_info(struct rule *rule, uint32_t index);
/* Room for what is known of storages up to index. */
int storage_reserve(struct rule *rule, uint32_t index);
int storage_new(struct rule *rule, const struct table_storage *entry,
	enum storage_state state, uint32_t *ret_index, uint64_t *ret_generation);
/* The one way to another state; STORAGE_FREE begins the next generation. */
void storage_set(struct rule *rule, uint32_t index, enum storage_state state);
/* So many names more of that publisher's lead to it; it may have been let go of
 * before. */
void storage_name(struct rule *rule, uint32_t index, uint32_t names,
	uint32_t publisher);
/* One name fewer leads to it. */
void storage_unname(struct rule *rule, uint32_t index, uint64_t generation,
	uint32_t publisher);
/* The same, for table_commit; rule: a struct rule. */
void storage_displaced(void *rule, const struct tarn_descriptor *descriptor,
	uint32_t publisher);
/* To be freed after this turn of the loop, if no name, no cache and no lease
 * holds it. */
void storage_release(struct rule *rule, uint32_t index);
void storage_released_by_client(struct rule *rule, uint32_t index,
	uint64_t generation);
int storage_remove_name(struct rule *rule, const char *name, size_t size);

/* Nobody's until the pipe of its filler ends. */
void storage_quarantine(struct rule *rule, uint32_t index);
/* That pipe has ended: what it may have written is free. */
void storage_end_quarantine(struct rule *rule, uint32_t filler);

/* server_count.c: storages by what holds them */
/* After its state, its names, its flags or info->cached have changed. Its
 * size never does. */
/* What is taken for it, in whole pages. */
uint64_t storage_memory(const struct table_storage *entry);
void storage_recount(struct rule *rule, uint32_t index);
/* What it is now, by what holds it. */
enum storage_kind storage_kind(const struct rule *rule, uint32_t index);
/* It was used just now: the last of its kind to go. */
void storage_used(struct rule *rule, uint32_t index);
/* Storages that are KIND_CACHED, each once, were used at such times: they take
 * their places among the others. Changes the order of uses. */
struct storage_use {
	uint32_t index;
	uint64_t at; /* loop_now() */
};
void storages_used(struct rule *rule, struct storage_use *uses, uint32_t n);
/* The one used longest ago, and the next; UINT32_MAX: there is none. */
uint32_t storage_first(const struct rule *rule, enum storage_kind kind);
uint32_t storage_after(const struct rule *rule, uint32_t index);
uint64_t storage_count_all(const struct rule *rule);

/* server_reap.c: what nobody holds goes back */
/* Frees what was let go of and is not leased. True: memory came back. */
bool reap(struct rule *rule);
/* The same after a turn of the loop, if it is not too soon after a long one:
 * then *ret_at is when to look again. */
bool reap_in_turn(struct rule *rule, uint64_t *ret_at);
/* A client left: what only leases hold may be held by nobody now. */
void reap_unnamed(struct rule *rule);
/* Which of n storages are leased at this moment: one pass over all pages. As
 * none is marked FREEING, it is only a guess at what reap() would find. */
void reap_find_leased(struct rule *rule, const uint32_t *indices, uint32_t n,
	bool *ret_leased);
/* Which of n storages does this client hold, at this moment? One pass over its
 * pages. Without memory: none. */
void client_find_held(struct client *client, const uint32_t *indices,
	const uint64_t *generations, uint32_t n, bool *ret_held);

/* server_rebuild.c: after another server */
/* A name that the table has, when it is taken over: counts it. -ENOMEM. */
int rebuild_name(void *rule, const struct tarn_descriptor *descriptor,
	uint32_t publisher);
/* Everything was told: makes its own books from the tables. Must not be
 * survived when it fails. */
int server_rebuild(struct server *server);
