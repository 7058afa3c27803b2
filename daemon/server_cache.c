/* SPDX-License-Identifier: MIT */
/*
 * The cache of loaded files: found by what file it was. When they go is
 * server_evict.c's.
 *
 * The idea: an entry of the table says which file its bytes are, so the cache
 * is no more than a hash over those entries that are kept, chained through
 * what the server knows of each.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "daemon/server.h"

#define BUCKETS_FIRST 64u

static const struct table_storage *entry_of(
	const struct rule *rule, uint32_t index)
{
	return &rule->table.storages[index];
}

static uint64_t generation_of(const struct rule *rule, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(rule, index)->word, memory_order_relaxed));
}

/* Multiplied and folded: inodes are small numbers in a row. */
static uint32_t bucket_for(
	const struct file_cache *cache, uint64_t dev, uint64_t ino)
{
	uint64_t h =
		(dev * 0x9e3779b97f4a7c15ull ^ ino) * 0xff51afd7ed558ccdull;

	return (uint32_t)(h >> 32) & (cache->n_buckets - 1);
}

/* What matches no identity is nobody's but its loader's. */
static bool has_identity(const struct table_storage *entry)
{
	return entry->file_ino || entry->file_dev;
}

static void chain(struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = entry_of(rule, index);
	uint32_t *head = &rule->cache.buckets[bucket_for(
		&rule->cache, entry->file_dev, entry->file_ino)];

	rule->infos[index].same = *head;
	rule->infos[index].findable = true;
	*head = index + 1;
}

/* One bucket a file, about. Without memory chains get longer. */
static void rehash(struct rule *rule)
{
	struct file_cache *cache = &rule->cache;
	uint32_t n = MAX(cache->n_buckets * 2, BUCKETS_FIRST);
	struct file_cache old = *cache;
	uint32_t *buckets = calloc(n, sizeof(*buckets));

	if (!buckets)
		return;
	cache->buckets = buckets;
	cache->n_buckets = n;
	for (uint32_t b = 0; b < old.n_buckets; b++)
		for (uint32_t i = old.buckets[b], next; i; i = next) {
			next = rule->infos[i - 1].same;
			chain(rule, i - 1);
		}
	free(old.buckets);
}

static void unchain(struct rule *rule, uint32_t index)
{
	const struct table_storage *entry = entry_of(rule, index);
	uint32_t *at;

	if (!rule->infos[index].findable)
		return;
	at = &rule->cache.buckets[bucket_for(
		&rule->cache, entry->file_dev, entry->file_ino)];
	while (*at != index + 1)
		at = &rule->infos[*at - 1].same;
	*at = rule->infos[index].same;
	rule->infos[index].same = 0;
	rule->infos[index].findable = false;
	rule->cache.n--;
}

bool cache_find(const struct rule *rule, const struct msg_identity *id,
	uint64_t file_offset, uint64_t size, uint32_t *ret)
{
	uint32_t i;

	if (!rule->cache.n_buckets)
		return false;
	i = rule->cache.buckets[bucket_for(&rule->cache, id->dev, id->ino)];
	for (; i; i = rule->infos[i - 1].same) {
		const struct table_storage *e = entry_of(rule, i - 1);

		if (e->file_ino == id->ino && e->file_dev == id->dev &&
			e->file_size == id->size &&
			e->file_mtime == id->mtime &&
			e->file_ctime == id->ctime && e->size == size &&
			e->file_offset == file_offset) {
			*ret = i - 1;
			return true;
		}
	}
	return false;
}

void cache_keep(struct rule *rule, uint32_t index)
{
	struct storage_info *info = &rule->infos[index];

	if (info->cached)
		return;
	info->cached = true;
	if (has_identity(entry_of(rule, index))) {
		if (rule->cache.n >= rule->cache.n_buckets)
			rehash(rule);
		/* Not even the first buckets: it is kept, and read again by
		 * who asks for the same file. */
		if (rule->cache.n_buckets) {
			chain(rule, index);
			rule->cache.n++;
		}
	}
	storage_recount(rule, index);
}

bool cache_has(const struct rule *rule, uint32_t index, uint64_t generation)
{
	return index < rule->n_infos && rule->infos[index].cached &&
	       generation_of(rule, index) == generation;
}

void cache_drop(struct rule *rule, uint32_t index)
{
	struct storage_info *info = &rule->infos[index];

	if (!info->cached)
		return;
	unchain(rule, index);
	info->cached = false;
	storage_recount(rule, index);
	storage_release(rule, index);
}

void cache_free(struct rule *rule)
{
	free(rule->cache.buckets);
	rule->cache = (struct file_cache) {0};
}
