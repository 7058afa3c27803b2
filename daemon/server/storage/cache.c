/* SPDX-License-Identifier: MIT */
/*
 * The cache of loaded files, found by the identity of the file.
 * storage/cache_evict.c decides when they are dropped.
 *
 * An entry of the table contains the identity of its file, so the cache is only
 * a hash over the entries that are kept, chained through the server's record of
 * each.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "daemon/loop/log.h"
#include "daemon/server/server.h"

#define BUCKETS_FIRST 64u
/* Parts of one file that are kept, each of other bytes: a chain is a list, and
 * a client chooses the parts. Most files have one. Picked. */
#define PARTS_MAX 64u

static const struct table_storage *entry_of(
	const struct domain *domain, uint32_t index)
{
	return &domain->table.storages[index];
}

static uint64_t generation_of(const struct domain *domain, uint32_t index)
{
	return storage_word_generation(atomic_load_explicit(
		&entry_of(domain, index)->word, memory_order_relaxed));
}

/* Multiplied and folded: inodes are small numbers in a row. */
static uint32_t bucket_for(
	const struct file_cache *cache, uint64_t dev, uint64_t ino)
{
	uint64_t h =
		(dev * 0x9e3779b97f4a7c15ull ^ ino) * 0xff51afd7ed558ccdull;

	return (uint32_t)(h >> 32) & (cache->n_buckets - 1);
}

static bool is_findable(const struct table_storage *entry)
{
	return entry->flags & STORAGE_KEPT;
}

static bool same_file(
	const struct table_storage *a, const struct table_storage *b)
{
	return a->file.ino == b->file.ino && a->file.dev == b->file.dev &&
	       a->file.fs == b->file.fs && a->file.fsid == b->file.fsid;
}

static bool same_place(
	const struct table_storage *a, const struct table_storage *b)
{
	return a->file_offset == b->file_offset && a->size == b->size;
}

static bool same_header(
	const struct table_storage *a, const struct table_storage *b)
{
	return a->header_size == b->header_size &&
	       digest_same(&a->header, &b->header);
}

static void chain(struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = entry_of(domain, index);
	uint32_t *head = &domain->cache.buckets[bucket_for(
		&domain->cache, entry->file.dev, entry->file.ino)];

	domain->storages.infos[index].same = *head;
	domain->storages.infos[index].findable = true;
	*head = index + 1;
}

/* The same chain from its other end; i, and what it returns: index + 1. */
static uint32_t turned(struct domain *domain, uint32_t i)
{
	uint32_t behind = 0;

	while (i) {
		uint32_t next = domain->storages.infos[i - 1].same;

		domain->storages.infos[i - 1].same = behind;
		behind = i;
		i = next;
	}
	return behind;
}

/* One bucket a file, about. Without memory chains get longer. What was chained
 * first stays last. */
static void rehash(struct domain *domain)
{
	struct file_cache *cache = &domain->cache;
	uint32_t n = MAX(cache->n_buckets * 2, BUCKETS_FIRST);
	struct file_cache old = *cache;
	uint32_t *buckets = calloc(n, sizeof(*buckets));

	if (!buckets)
		return;
	cache->buckets = buckets;
	cache->n_buckets = n;
	for (uint32_t b = 0; b < old.n_buckets; b++)
		for (uint32_t i = turned(domain, old.buckets[b]), next; i;
			i = next) {
			next = domain->storages.infos[i - 1].same;
			chain(domain, i - 1);
		}
	free(old.buckets);
}

static void unchain(struct domain *domain, uint32_t index)
{
	const struct table_storage *entry = entry_of(domain, index);
	uint32_t *at;

	if (!domain->storages.infos[index].findable)
		return;
	at = &domain->cache.buckets[bucket_for(
		&domain->cache, entry->file.dev, entry->file.ino)];
	while (*at != index + 1)
		at = &domain->storages.infos[*at - 1].same;
	*at = domain->storages.infos[index].same;
	domain->storages.infos[index].same = 0;
	domain->storages.infos[index].findable = false;
	domain->cache.n--;
}

/* Of the chain that has it, if any does: index + 1. */
static uint32_t first_of(
	const struct domain *domain, const struct table_storage *like)
{
	if (!domain->cache.n_buckets)
		return 0;
	return domain->cache.buckets[bucket_for(
		&domain->cache, like->file.dev, like->file.ino)];
}

bool cache_find(const struct domain *domain, const struct table_storage *like,
	uint32_t *ret)
{
	uint32_t i = first_of(domain, like);

	for (; i; i = domain->storages.infos[i - 1].same) {
		const struct table_storage *e = entry_of(domain, i - 1);

		if (identity_same(&e->file, &like->file) &&
			same_place(e, like) && same_header(e, like)) {
			*ret = i - 1;
			return true;
		}
	}
	return false;
}

static void supersede(struct domain *domain, uint32_t index)
{
	if (quota_may_log(domain))
		log_info("superseded", log_u64("storage", index),
			log_u64("bytes", entry_of(domain, index)->size));
	cache_drop(domain, index);
}

void cache_drop_versions(
	struct domain *domain, const struct file_identity *file)
{
	const struct table_storage now = {.file = *file};
	uint32_t i, next;

	for (i = first_of(domain, &now); i; i = next) {
		const struct table_storage *e = entry_of(domain, i - 1);

		next = domain->storages.infos[i - 1].same;
		if (same_file(e, &now) && !identity_same(&e->file, file))
			supersede(domain, i - 1);
	}
}

/* Headers are not compared. Between two looks at the stamps the loader has read
 * the one that the file has now (loader/header.c), with these bytes. An entry
 * with another header is older, or comes from a client that knows of no header
 * or of another part: the next load of that client reads the file again. */
void cache_replace(struct domain *domain, uint32_t by)
{
	const struct table_storage *new = entry_of(domain, by);
	uint32_t i, next;

	for (i = first_of(domain, new); i; i = next) {
		const struct table_storage *e = entry_of(domain, i - 1);

		next = domain->storages.infos[i - 1].same;
		if (i - 1 != by && same_file(e, new) && same_place(e, new))
			supersede(domain, i - 1);
	}
}

/* One part more is kept than may be: the one that was chained first goes. */
static void limit_parts(struct domain *domain, uint32_t index)
{
	const struct table_storage *new = entry_of(domain, index);
	uint32_t i = first_of(domain, new), n = 0, last = 0;

	for (; i; i = domain->storages.infos[i - 1].same)
		if (same_file(entry_of(domain, i - 1), new)) {
			n++;
			last = i;
		}
	if (n > PARTS_MAX && last != index + 1)
		supersede(domain, last - 1);
}

void cache_keep(struct domain *domain, uint32_t index)
{
	struct storage_info *info = &domain->storages.infos[index];

	if (info->cached)
		return;
	info->cached = true;
	if (is_findable(entry_of(domain, index))) {
		if (domain->cache.n >= domain->cache.n_buckets)
			rehash(domain);
		/* Not even the first buckets: it is kept, and the next load of
		 * the same file reads it again. */
		if (domain->cache.n_buckets) {
			chain(domain, index);
			domain->cache.n++;
			limit_parts(domain, index);
		}
	}
	storage_recount(domain, index);
}

bool cache_has(const struct domain *domain, uint32_t index, uint64_t generation)
{
	return index < domain->storages.n_infos &&
	       domain->storages.infos[index].cached &&
	       generation_of(domain, index) == generation;
}

void cache_drop(struct domain *domain, uint32_t index)
{
	struct storage_info *info = &domain->storages.infos[index];

	if (!info->cached)
		return;
	unchain(domain, index);
	info->cached = false;
	/* For a server that comes after: it is kept no more. */
	domain->table.storages[index].flags &= ~STORAGE_KEPT;
	storage_recount(domain, index);
	storage_release(domain, index);
}

void cache_free(struct domain *domain)
{
	free(domain->cache.buckets);
	domain->cache = (struct file_cache) {0};
}
