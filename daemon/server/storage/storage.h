/* SPDX-License-Identifier: MIT */
/*
 * Storages: what holds each of them, what it is counted as, and when it is
 * free.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/quota_limits.h"
#include "daemon/loop/deadline.h"
#include "shm/lease.h"
#include "shm/table_writer.h"

struct client;
struct load;
struct memory_wait;
struct domain;
struct server;

/* The kind as which a storage is counted. */
enum storage_kind {
	KIND_FREE,
	KIND_FILLING,     /* a load is under way */
	KIND_NAMED,       /* names lead to it; replicas and their like */
	KIND_CACHED,      /* no name: kept for loads of the same file */
	KIND_UNNAMED,     /* only leases hold it, as far as is known */
	KIND_LET_GO,      /* it may be that nothing does: see collect() */
	KIND_QUARANTINED, /* a dead loader's ring may still write it */
	STORAGE_KINDS
};

struct storage_sum {
	uint64_t n;
	uint64_t bytes;  /* their sizes */
	uint64_t memory; /* what was taken for them, whole pages */
};

/* Lists and sums of a domain's storages, kept by storage_recount. */
struct domain_counts {
	struct storage_sum kinds[STORAGE_KINDS]; /* KIND_FREE: nothing */
	struct storage_sum created;              /* of all kinds: by clients */
	struct storage_sum own; /* of all kinds: not in the pool */
	uint64_t n_device;      /* of these: in memory of devices */
	uint64_t device;        /* bytes of that, which count nowhere else */
	uint64_t n_evicted;     /* since the server began */
	uint64_t bytes_evicted;
};

/* The storages of a kind, the one used longest ago first; index + 1, 0 is
 * none. */
struct storage_list {
	uint32_t first, last;
};

/* The server's private record of a storage. */
struct storage_info {
	uint32_t names;    /* names that lead to it */
	uint32_t flags;    /* LOADED_*: how it was read */
	uint64_t last_use; /* or when it became what it is: loop_now() */
	uint64_t free_at; /* storages.looks when it was cached and not leased */
	struct load *filling;
	uint32_t before, after; /* in the list of its kind: index + 1 */
	uint32_t same;          /* in its chain of the cache: index + 1 */
	uint32_t holder;        /* uid + 1 of the user charged; 0: the owner */
	uint32_t needs;         /* loads that copy its bytes; patches over it */
	uint32_t needed_by;     /* uid of the last load */
	uint32_t over;          /* the newest patch over it: index + 1 */
	uint32_t newer, older;  /* of a patch, over the same: index + 1 */
	uint8_t kind;           /* enum storage_kind: where it is counted */
	bool cached;            /* kept for loads of the same file */
	bool findable;          /* in a chain of the cache */
	bool let_go;            /* leases on it are to be looked for */
	bool in_old_segment;    /* it lies in a read-only segment */
	bool replica; /* kept as long as the storage that it is of is live */
};

/*
 * Something in whose bytes storages may lie, as in the items of a channel: a
 * part of what is known of it. Its owner sets the two functions.
 */
struct storage_holder {
	/* Which of the batch does it hold? */
	void (*search)(
		const struct storage_holder *holder, struct lease_batch *batch);
	/* Its own storage is free, and it has left the domain. */
	void (*freed)(struct storage_holder *holder, struct domain *domain);
	uint32_t index; /* its own storage */
	uint64_t generation;
	struct storage_holder *next; /* of the domain */
};

/* The storages of a domain. */
struct storages {
	struct storage_info *infos; /* by the table's index */
	uint32_t n_infos;
	struct domain_counts counts;
	struct storage_list lists[STORAGE_KINDS];
	struct storage_holder *holders;
	struct lease_batch batch;
	uint64_t looks;               /* searches for what may be evicted */
	struct deadline next_collect; /* not before */
	struct deadline next_evict;   /* no search for room before */
};

/* storage/collect.c: from now on it is searched; or no more. */
void storage_holder_join(struct domain *domain, struct storage_holder *holder);
void storage_holder_leave(struct domain *domain, struct storage_holder *holder);

/* storage/storage.c: who holds what */
struct storage_info *storage_info(struct domain *domain, uint32_t index);
/* Room for what is known of storages up to index. */
int storage_reserve(struct domain *domain, uint32_t index);
int storage_new(struct domain *domain, const struct table_storage *entry,
	enum storage_state state, uint32_t *ret_index,
	uint64_t *ret_generation);
/* The one way to another state; STORAGE_FREE begins the next generation. */
void storage_set(
	struct domain *domain, uint32_t index, enum storage_state state);
/* That publisher has published so many more names for it; it may have been
 * released before. */
void storage_name(struct domain *domain, uint32_t index, uint32_t names,
	uint32_t publisher);
/* One name fewer leads to it. */
void storage_unname(struct domain *domain, uint32_t index, uint64_t generation,
	uint32_t publisher);
/* The same, for table_commit; domain: a struct domain. */
void storage_displaced(void *domain, const struct tarn_descriptor *descriptor,
	uint32_t publisher);
/* Commits the transaction that does a request of the client's, with its
 * completion. The caller queues the answer before the event ends. */
void storage_commit(struct client *client);
/* To be freed after this turn of the loop, if no name, no cache and no lease
 * holds it. */
void storage_release(struct domain *domain, uint32_t index);
void storage_released_by_client(
	struct domain *domain, uint32_t index, uint64_t generation);
int storage_remove_name(struct domain *domain, const char *name, size_t size);
/* Neither names nor files nor replicas hold it, and something needs its bytes. */
bool storage_is_needed_only(const struct storage_info *info);
/* A load copies from it, or a patch is over it: it is not freed before that
 * ends. uid: the user that pays once nothing else holds it. */
void storage_need(struct domain *domain, uint32_t index, uint32_t uid);
void storage_need_end(struct domain *domain, uint32_t index);

/* storage/replicas.c: bytes that are kept once more, on other nodes */
/* A replica that is live now, of a storage that is: kept as long as that. */
void replica_join(struct domain *domain, uint32_t index);
/* Those on that node, or on all (-1), are released. */
void replicas_drop(struct domain *domain, uint32_t of, int node);
/* The same for a client, which may name one of them, or what is gone. */
void replicas_drop_asked(
	struct domain *domain, uint32_t index, uint64_t generation, int node);
/* Is the storage still live that such an entry is of? */
bool replica_is_of(
	const struct domain *domain, const struct table_storage *entry);
/* False: there is none on that node. */
bool replica_find(
	const struct domain *domain, uint32_t of, int node, uint32_t *ret);
/* After another server, when all names and files are counted. */
void replicas_rebuild(struct domain *domain);

/* storage/patches.c: bytes of a storage, but for some pages */
/* An entry that is a patch is there, or was just freed. */
void patch_join(struct domain *domain, uint32_t index);
void patch_leave(struct domain *domain, uint32_t index);
/* The user that pays for what names and files hold no more, and a load or a patch
 * needs. */
uint32_t patch_payer(const struct domain *domain, uint32_t index);
/* Another user may pay for it now: that one pays for what it is over, too, if only
 * patches need that. */
void patch_paid(struct domain *domain, uint32_t index);
/* How many patches lie over each other there; TABLE_PATCHES_MAX: or more. */
unsigned patches_below(const struct domain *domain, uint32_t index);
/* After another server, before the storages are looked at. */
void patches_rebuild(struct domain *domain);
/* When all names and files are counted. */
void patches_rebuild_payers(struct domain *domain);

/* Quarantined until the pipe of its loader ends. */
void storage_quarantine(struct domain *domain, uint32_t index);
/* That pipe has ended: what it may have written is free. */
void storage_end_quarantine(struct domain *domain, uint32_t loader_id);

/* storage/kinds.c: storages by what holds them */
/* After its state, its names, its flags or info->cached have changed. Its
 * size never does. */
void storage_recount(struct domain *domain, uint32_t index);
/* Its present kind, by what holds it. */
enum storage_kind storage_kind(const struct domain *domain, uint32_t index);
/* It was used just now: the last of its kind to go. */
void storage_used(struct domain *domain, uint32_t index);
/* Storages that are KIND_CACHED, each once, were used at such times: they take
 * their places among the others. Changes the order of uses. */
struct storage_use {
	uint32_t index;
	uint64_t at; /* loop_now() */
};
void storages_used(struct domain *domain, struct storage_use *uses, uint32_t n);
/* The one used longest ago, and the next; UINT32_MAX: there is none. */
uint32_t storage_first(const struct domain *domain, enum storage_kind kind);
uint32_t storage_after(const struct domain *domain, uint32_t index);
uint64_t storage_count_all(const struct domain *domain);

/* storage/fit_quota.c: what a user may have in tables */
/* May the user have so much more of each kind (want[QUOTA_KINDS])? As
 * quota_check; but files of that user go, which are only kept, until all of it
 * fits. Where it cannot, nothing goes. user: account/account.h. MEMORY_LATER:
 * wait is queued, and called back when it is worth asking again; NULL: it may
 * not wait. */
int storage_fit_quota(
	struct domain *user, const uint64_t *want, struct memory_wait *wait);
/* The same for a request that begins to wait: beside all that its user's other
 * requests wait for. */
int storage_fit_awaited(
	struct domain *user, const uint64_t *want, struct memory_wait *wait);
/* What such an entry takes, added to that; too much is UINT64_MAX. */
void storage_add_wanted(const struct table_storage *entry, uint64_t *want);
/* Before an entry is made; storage_new asks. */
int storage_check_quota(struct domain *domain,
	const struct table_storage *entry, struct memory_wait *wait);

/* storage/collect.c: memory that no client holds */
/* Frees released storages without a lease. True: memory came back. */
bool collect(struct domain *domain);
/* The same under all domains, or only that one, as a part of a search for room.
 * Code that checks whether something fits into the budget or a quota calls this
 * first: the next pass of the loop may come much later. */
bool collect_all(struct server *server, struct domain *only);
/* When the next pass may be made for a request that waits; 0: now. After a long
 * one others have their turn first. */
uint64_t collect_at(const struct domain *domain);
/* The same, and the pass counts. */
bool collect_counted(struct domain *domain);
/* The same after a turn of the loop, if it is not too soon after a long one. */
bool collect_in_turn(struct domain *domain);
/* When room may be searched for under all domains, or only that one; 0: now.
 * What has been spent on it since then counts. */
uint64_t evict_at(const struct server *server, const struct domain *only);
void evict_spent(struct domain *domain, uint64_t began);
/* A client left: storages that only leases hold may have no holder now. */
void collect_unnamed(struct domain *domain);
/* Which of n storages are leased at this moment: one pass over all pages. As
 * none is marked FREEING, it is only a guess at what collect() would find. */
void collect_find_leased(struct domain *domain, const uint32_t *indices,
	uint32_t n, bool *ret_leased);
/* Which of n storages does this client hold, at this moment? One pass over its
 * pages. Without memory: none. */
void client_find_held(struct client *client, const uint32_t *indices,
	const uint64_t *generations, uint32_t n, bool *ret_held);

/* rebuild.c: after another server */
/* A name that the table has, when it is taken over: counts it. -ENOMEM. */
int rebuild_name(void *domain, const struct tarn_descriptor *descriptor,
	uint32_t publisher);
/* The keeper has sent everything: makes the server's books from the tables. The
 * server must end if this fails. */
int server_rebuild(struct server *server);
