/* SPDX-License-Identifier: MIT */
/* Loaded files that are kept: how they are found, and which goes first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct client;
struct file_identity;
struct domain;
struct table_storage;

/* Loaded files by what file it was: chains of index + 1. */
struct file_cache {
	uint32_t *buckets;
	uint32_t n_buckets; /* a power of two, or 0 */
	uint32_t n;         /* storages in all chains */
};

/* storage/cache.c: loaded files */
/* Keeps a storage until memory is needed or time has passed. If its entry names
 * a file, clients that prove that file find it. */
void cache_keep(struct domain *domain, uint32_t index);
/* Keeps it no longer, and releases it. */
void cache_drop(struct domain *domain, uint32_t index);
/* Is it that generation still, and kept? */
bool cache_has(
	const struct domain *domain, uint32_t index, uint64_t generation);
/* One of the same version of a file, header, offset and size. */
bool cache_find(const struct domain *domain, const struct table_storage *like,
	uint32_t *ret);
/* This is the version of the file that there is now. Others that are kept can
 * no longer be asked for: they go, at once or with their last holder. */
void cache_drop_versions(
	struct domain *domain, const struct file_identity *file);
/* The same for what is kept of the bytes of a storage, which was read anew. */
void cache_replace(struct domain *domain, uint32_t by);
void cache_free(struct domain *domain);

/* load/uncached.c: what is loaded and not kept */
/* Freed with its last holder, once the clients that were answered have
 * leases. */
void uncached_add(struct domain *domain, uint32_t index, uint64_t generation);
void uncached_free(struct domain *domain);

/* storage/cache_evict.c: which loaded file goes */
#define OWNER_ANY UINT32_MAX /* no user's */
/* Victims are wanted until one of both is reached. */
struct evict_limit {
	uint64_t n, bytes; /* of memory */
};
/* The least recently used one without a holder, of that uid's, or of all;
 * UINT32_MAX: there is none. One search finds it and those behind it: as many
 * as that, where as many are free. */
uint32_t cache_look(
	struct domain *domain, uint32_t owner, const struct evict_limit *limit);
/* After a search for any owner's: the oldest now, if it was found free. */
uint32_t cache_front(const struct domain *domain);
/* This one, which is cached and not leased. */
void cache_evict(struct domain *domain, uint32_t index, const char *why);
/* The oldest of that owner, found by one search; true if there were any. They
 * are let go of, and the caller collects them. */
bool cache_evict_batch(struct domain *domain, uint32_t owner,
	const struct evict_limit *limit, const char *why);
void cache_evict_idle(struct domain *domain, uint64_t older_than);
/* Its storages count as used until now, since its own notes go with it. */
void cache_note_last(struct client *client);
