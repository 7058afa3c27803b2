/* SPDX-License-Identifier: MIT */
/*
 * A handful of parsed files by path and identity, least recently used out.
 *
 * The idea: one stat tells whether what we know is still so. A file whose
 * stamps are younger than two seconds is not kept, since it could change
 * again without them changing.
 */
#include "lib/store/file_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fail.h"

/* The coarsest stamps of file systems in use (FAT) step by two seconds. */
#define YOUNG_NS 2000000000ull

void file_cache_init(struct file_cache *cache)
{
	*cache = (struct file_cache) {0};
	pthread_mutex_init(&cache->lock, NULL);
}

static void forget(struct cached_file *entry)
{
	free(entry->path);
	tarn_file_unref(entry->file);
	*entry = (struct cached_file) {0};
}

void file_cache_clear(struct file_cache *cache)
{
	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < FILE_CACHE_MAX; i++)
		forget(&cache->at[i]);
	pthread_mutex_unlock(&cache->lock);
}

void file_cache_done(struct file_cache *cache)
{
	file_cache_clear(cache);
	pthread_mutex_destroy(&cache->lock);
}

static uint64_t ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static struct file_identity identity_of(const struct stat *st)
{
	return (struct file_identity) {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.size = (uint64_t)st->st_size,
		.mtime = ns(st->st_mtim),
		.ctime = ns(st->st_ctim),
	};
}

int file_identity(const tarn_file *file, struct file_identity *ret)
{
	struct stat st;

	if (fstat(tarn_file_fd(file), &st) < 0)
		return tarn_fail(errno, "fstat: %s", tarn_errno_text(errno));
	*ret = identity_of(&st);
	return 0;
}

static bool same(const struct file_identity *a, const struct file_identity *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime == b->mtime && a->ctime == b->ctime;
}

static bool is_young(const struct file_identity *identity)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ns(now) < identity->mtime + YOUNG_NS ||
	       ns(now) < identity->ctime + YOUNG_NS;
}

/* With the lock held. An entry of that path with other stamps is of no more
 * use, and goes. */
static tarn_file *find(struct file_cache *cache, const char *path,
	const struct file_identity *identity)
{
	for (int i = 0; i < FILE_CACHE_MAX; i++) {
		struct cached_file *entry = &cache->at[i];

		if (!entry->used || strcmp(entry->path, path) != 0)
			continue;
		if (!same(&entry->identity, identity)) {
			forget(entry);
			continue;
		}
		entry->used = ++cache->tick;
		return tarn_file_ref(entry->file);
	}
	return NULL;
}

/* With the lock held. Without memory for it, it is just not kept. */
static void keep(struct file_cache *cache, const char *path,
	const struct file_identity *identity, tarn_file *file)
{
	struct cached_file *oldest = &cache->at[0];
	char *copy = strdup(path);

	if (!copy)
		return;
	for (int i = 1; i < FILE_CACHE_MAX; i++)
		if (cache->at[i].used < oldest->used)
			oldest = &cache->at[i];
	forget(oldest);
	*oldest = (struct cached_file) {
		.path = copy,
		.identity = *identity,
		.file = tarn_file_ref(file),
		.used = ++cache->tick,
	};
}

int file_cache_open(struct file_cache *cache, const char *path, tarn_file **ret)
{
	struct file_identity identity;
	tarn_file *file = NULL;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return tarn_fail(errno, "%s: %s", path, tarn_errno_text(errno));
	identity = identity_of(&st);
	pthread_mutex_lock(&cache->lock);
	file = find(cache, path, &identity);
	pthread_mutex_unlock(&cache->lock);
	if (file) {
		*ret = file;
		return 0;
	}
	r = tarn_file_open(path, &file);
	if (r < 0)
		return r;
	/* What was opened may not be what was looked at. */
	if (fstat(tarn_file_fd(file), &st) == 0 && !is_young(&identity)) {
		struct file_identity opened = identity_of(&st);

		pthread_mutex_lock(&cache->lock);
		if (same(&opened, &identity))
			keep(cache, path, &identity, file);
		pthread_mutex_unlock(&cache->lock);
	}
	*ret = file;
	return 0;
}

bool file_cache_storage(struct file_cache *cache, const tarn_file *file,
	uint32_t *ret_index, uint64_t *ret_generation)
{
	bool found = false;

	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < FILE_CACHE_MAX && !found; i++) {
		struct cached_file *entry = &cache->at[i];

		if (!entry->used || entry->file != file || !entry->generation)
			continue;
		*ret_index = entry->index;
		*ret_generation = entry->generation;
		found = true;
	}
	pthread_mutex_unlock(&cache->lock);
	return found;
}

void file_cache_note(struct file_cache *cache, const tarn_file *file,
	uint32_t index, uint64_t generation)
{
	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < FILE_CACHE_MAX; i++) {
		if (!cache->at[i].used || cache->at[i].file != file)
			continue;
		cache->at[i].index = index;
		cache->at[i].generation = generation;
	}
	pthread_mutex_unlock(&cache->lock);
}
