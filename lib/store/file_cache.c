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
	free(entry->shards);
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

/* What an index and its file were does not tell what its shards are. Without
 * the lock: a stat may take its time. */
static bool shard_is_same(const tarn_file *file, const char *tensor,
	const struct file_identity *identity)
{
	const struct tarn_file_tensor *t = tarn_file_find(file, tensor);
	const tarn_file *shard = t ? tarn_file_shard(file, t->shard) : file;
	struct file_identity now;
	struct stat st;

	if (shard == file)
		return true;
	if (stat(tarn_file_path(shard), &st) < 0)
		return false;
	now = identity_of(&st);
	return same(&now, identity);
}

/* With the lock held: what the entry knows of the tensor's shard. */
static struct file_identity identity_known(const struct file_cache *cache,
	const tarn_file *file, const char *tensor)
{
	const struct tarn_file_tensor *t = tarn_file_find(file, tensor);

	for (int i = 0; t && i < FILE_CACHE_MAX; i++)
		if (cache->at[i].used && cache->at[i].file == file)
			return cache->at[i].shards[t->shard].identity;
	return (struct file_identity) {0};
}

static void forget_file(struct file_cache *cache, const tarn_file *file)
{
	pthread_mutex_lock(&cache->lock);
	for (int i = 0; i < FILE_CACHE_MAX; i++)
		if (cache->at[i].used && cache->at[i].file == file)
			forget(&cache->at[i]);
	pthread_mutex_unlock(&cache->lock);
}

static tarn_file *look_up(struct file_cache *cache, const char *path,
	const struct file_identity *identity, const char *tensor)
{
	struct file_identity shard = {0};
	tarn_file *file;

	pthread_mutex_lock(&cache->lock);
	file = find(cache, path, identity);
	if (file && tensor)
		shard = identity_known(cache, file, tensor);
	pthread_mutex_unlock(&cache->lock);
	if (!file || !tensor || shard_is_same(file, tensor, &shard))
		return file;
	forget_file(cache, file);
	return tarn_file_unref(file);
}

/* The shards of a file as they are now; NULL: one of them cannot be kept, or
 * there is no memory. */
static struct cached_shard *look_at_shards(const tarn_file *file)
{
	size_t n = tarn_file_shard_count(file);
	struct cached_shard *shards = calloc(n + !n, sizeof(*shards));

	for (size_t i = 0; shards && i < n; i++)
		if (file_identity(tarn_file_shard(file, i),
			    &shards[i].identity) < 0 ||
			is_young(&shards[i].identity)) {
			free(shards);
			return NULL;
		}
	return shards;
}

/* Without memory for it, it is just not kept. */
static void keep(struct file_cache *cache, const char *path,
	const struct file_identity *identity, tarn_file *file)
{
	struct cached_shard *shards = look_at_shards(file);
	struct cached_file *oldest = &cache->at[0];
	char *copy = shards ? strdup(path) : NULL;

	if (!copy) {
		free(shards);
		return;
	}
	pthread_mutex_lock(&cache->lock);
	for (int i = 1; i < FILE_CACHE_MAX; i++)
		if (cache->at[i].used < oldest->used)
			oldest = &cache->at[i];
	forget(oldest);
	*oldest = (struct cached_file) {
		.path = copy,
		.identity = *identity,
		.file = tarn_file_ref(file),
		.used = ++cache->tick,
		.shards = shards,
		.n_shards = tarn_file_shard_count(file),
	};
	pthread_mutex_unlock(&cache->lock);
}

int file_cache_open(struct file_cache *cache, const char *path,
	const char *tensor, tarn_file **ret)
{
	struct file_identity identity, opened;
	tarn_file *file = NULL;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return tarn_fail(errno, "%s: %s", path, tarn_errno_text(errno));
	identity = identity_of(&st);
	file = look_up(cache, path, &identity, tensor);
	if (file) {
		*ret = file;
		return 0;
	}
	r = tarn_file_open(path, &file);
	if (r < 0)
		return r;
	/* What was opened may not be what was looked at. */
	if (file_identity(file, &opened) >= 0 && same(&opened, &identity) &&
		!is_young(&identity))
		keep(cache, path, &identity, file);
	*ret = file;
	return 0;
}

/* With the lock held. */
static struct cached_shard *find_shard(
	struct file_cache *cache, const tarn_file *file, uint32_t shard)
{
	for (int i = 0; i < FILE_CACHE_MAX; i++) {
		struct cached_file *entry = &cache->at[i];

		if (entry->used && entry->file == file &&
			shard < entry->n_shards)
			return &entry->shards[shard];
	}
	return NULL;
}

bool file_cache_storage(struct file_cache *cache, const tarn_file *file,
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

void file_cache_note(struct file_cache *cache, const tarn_file *file,
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
