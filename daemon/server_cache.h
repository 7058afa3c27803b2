/* SPDX-License-Identifier: MIT */
/* Loaded files that are kept: how they are found, and which goes first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct client;
struct msg_identity;
struct rule;

/* Loaded files by what file it was: chains of index + 1. */
struct file_cache {
	uint32_t *buckets;
	uint32_t n_buckets; /* a power of two, or 0 */
	uint32_t n;	    /* storages in all chains */
};

/* server_cache.c: loaded files */
/* Keeps a storage until room is needed or time has passed, and finds it for
 * who proves the file that its entry names, if it names one. */
void cache_keep(struct rule *rule, uint32_t index);
/* Keeps it no longer, and releases it. */
void cache_drop(struct rule *rule, uint32_t index);
/* Is it that generation still, and kept? */
bool cache_has(const struct rule *rule, uint32_t index, uint64_t generation);
bool cache_find(const struct rule *rule, const struct msg_identity *id,
	uint64_t file_offset, uint64_t size, uint32_t *ret);
void cache_free(struct rule *rule);

/* server_evict.c: which loaded file goes */
/* The least recently used that nobody holds, of that uid's, or of all;
 * UINT32_MAX: there is none. */
#define OWNER_ANY UINT32_MAX /* nobody's */
uint32_t cache_oldest(struct rule *rule, uint32_t owner);
/* This one, which is cached and not leased. */
void cache_evict(struct rule *rule, uint32_t index, const char *why);
/* The oldest of all: true if there was one. */
bool cache_evict_one(struct rule *rule);
void cache_evict_idle(struct rule *rule, uint64_t older_than);
/* What it holds it has used until now, and what it has noted goes with it. */
void cache_hear_last(struct client *client);
