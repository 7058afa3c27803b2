/* SPDX-License-Identifier: MIT */
/*
 * A handful of parsed files by path and version, least recently used out.
 *
 * One stat shows whether the parsed version is still current. Each entry holds
 * its file open, so that no other file system gets the device number. Changes
 * that stamps do not reveal, such as stores through an old mapping, are found
 * by the daemon: it compares the header.
 */
#include "lib/store/open_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "lib/file/file.h"

void open_files_init(struct open_files *cache)
{
	*cache = (struct open_files) {0};
	pthread_mutex_init(&cache->lock, NULL);
}

static void forget(struct cached_file *entry)
{
	free(entry->path);
	free(entry->shards);
	tarn_file_unref(entry->file);
	*entry = (struct cached_file) {0};
}

void open_files_clear(struct open_files *cache)
{
	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < OPEN_FILES_MAX; i++)
		forget(&cache->at[i]);
	pthread_mutex_unlock(&cache->lock);
}

void open_files_done(struct open_files *cache)
{
	open_files_clear(cache);
	pthread_mutex_destroy(&cache->lock);
}

/* What was inflated is found in the store, and holds a reference to it. */
static bool is_kept(const tarn_file *file)
{
	return !file->is_inflated &&
	       identity_worth(&file->version.identity) == IDENTITY_LASTS;
}

static bool is_at_its_path(const tarn_file *file)
{
	return identity_is_at(&file->version.identity, tarn_file_path(file));
}

/* With the lock held. */
static tarn_file *find(struct open_files *cache, const char *path)
{
	for (int i = 0; i < OPEN_FILES_MAX; i++) {
		struct cached_file *entry = &cache->at[i];

		if (!entry->used || strcmp(entry->path, path) != 0)
			continue;
		entry->used = ++cache->tick;
		return tarn_file_ref(entry->file);
	}
	return NULL;
}

/* The stamps of an index do not cover its shards. */
static bool is_same(const tarn_file *file, const char *tensor)
{
	const struct tarn_file_entry *t =
		tensor ? tarn_file_find(file, tensor) : NULL;
	const tarn_file *shard = t ? tarn_file_shard(file, t->shard) : file;

	return is_at_its_path(file) && (shard == file || is_at_its_path(shard));
}

void open_files_forget(struct open_files *cache, const tarn_file *file)
{
	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < OPEN_FILES_MAX; i++)
		if (cache->at[i].used && cache->at[i].file == file)
			forget(&cache->at[i]);
	pthread_mutex_unlock(&cache->lock);
}

/* The stats are made without the lock: they may block. */
static tarn_file *look_up(
	struct open_files *cache, const char *path, const char *tensor)
{
	tarn_file *file;

	pthread_mutex_lock(&cache->lock);
	file = find(cache, path);
	pthread_mutex_unlock(&cache->lock);
	if (!file || is_same(file, tensor))
		return file;
	open_files_forget(cache, file);
	return tarn_file_unref(file);
}

static bool may_keep(const tarn_file *file)
{
	bool may = is_kept(file);

	for (size_t i = 0; may && i < tarn_file_shard_count(file); i++)
		may = is_kept(tarn_file_shard(file, i));
	return may;
}

/* With the lock held: the entry of that path, else a free one, else the least
 * recently used. Two threads that open one path at once both come here, and an
 * entry for each would push out other files. */
static struct cached_file *place_for(struct open_files *cache, const char *path)
{
	struct cached_file *oldest = &cache->at[0];

	for (int i = 0; i < OPEN_FILES_MAX; i++) {
		struct cached_file *entry = &cache->at[i];

		if (entry->used && strcmp(entry->path, path) == 0)
			return entry;
		if (entry->used < oldest->used)
			oldest = entry;
	}
	return oldest;
}

/* Without memory for it, it is not cached. */
static void keep(struct open_files *cache, const char *path, tarn_file *file)
{
	size_t n = tarn_file_shard_count(file);
	struct cached_shard *shards = calloc(n + !n, sizeof(*shards));
	struct cached_file *entry;
	char *copy = shards ? strdup(path) : NULL;

	if (!copy) {
		free(shards);
		return;
	}
	pthread_mutex_lock(&cache->lock);
	entry = place_for(cache, path);
	forget(entry);
	*entry = (struct cached_file) {
		.path = copy,
		.file = tarn_file_ref(file),
		.used = ++cache->tick,
		.shards = shards,
		.n_shards = n,
	};
	pthread_mutex_unlock(&cache->lock);
}

int open_files_open(struct open_files *cache, const char *path,
	const char *tensor, const struct file_sharing *sharing, tarn_file **ret)
{
	tarn_file *file = look_up(cache, path, tensor);
	int r = 0;

	if (!file) {
		r = file_open_shared(path, sharing, &file);
		if (r >= 0 && may_keep(file))
			keep(cache, path, file);
	}
	if (r >= 0)
		*ret = file;
	return r;
}

/* With the lock held. */
static struct cached_shard *find_shard(
	struct open_files *cache, const tarn_file *file, uint32_t shard)
{
	for (int i = 0; i < OPEN_FILES_MAX; i++) {
		struct cached_file *entry = &cache->at[i];

		if (entry->used && entry->file == file &&
			shard < entry->n_shards)
			return &entry->shards[shard];
	}
	return NULL;
}

bool open_files_storage(struct open_files *cache, const tarn_file *file,
	uint32_t shard, uint32_t *ret_index, uint64_t *ret_generation)
{
	const struct cached_shard *known;
	bool found = false;

	pthread_mutex_lock(&cache->lock);
	known = find_shard(cache, file, shard);
	if (known && known->generation) {
		*ret_index = known->index;
		*ret_generation = known->generation;
		found = true;
	}
	pthread_mutex_unlock(&cache->lock);
	return found;
}

void open_files_note(struct open_files *cache, const tarn_file *file,
	uint32_t shard, uint32_t index, uint64_t generation)
{
	struct cached_shard *known;

	pthread_mutex_lock(&cache->lock);
	known = find_shard(cache, file, shard);
	if (known) {
		known->index = index;
		known->generation = generation;
	}
	pthread_mutex_unlock(&cache->lock);
}
