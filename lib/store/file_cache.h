/* SPDX-License-Identifier: MIT */
/*
 * Files that were opened lately, so that many FILE:TENSOR gets of one file
 * parse it once and ask the daemon once.
 *
 * An entry is believed as long as stat says that the path still is the same
 * file. It holds no lease: what was loaded may be evicted meanwhile, which the
 * next lease attempt finds out.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarn/file.h>

/* Picked: a checkpoint's shards or a dataset's splits; each costs a
 * descriptor. */
#define FILE_CACHE_MAX 8

struct file_identity {
	uint64_t dev;
	uint64_t ino;
	uint64_t size;
	uint64_t mtime; /* ns */
	uint64_t ctime; /* ns */
};

/* Of the file that is open, as it is now. */
int file_identity(const tarn_file *file, struct file_identity *ret);

struct cached_shard {
	struct file_identity identity;
	/* The storage that holds its data range; generation 0: not known. */
	uint32_t index;
	uint64_t generation;
};

struct cached_file {
	char *path;
	struct file_identity identity;
	tarn_file *file;
	uint64_t used; /* the tick of its last use; 0: a free entry */
	struct cached_shard *shards;
	size_t n_shards;
};

struct file_cache {
	pthread_mutex_t lock;
	uint64_t tick;
	struct cached_file at[FILE_CACHE_MAX];
};

void file_cache_init(struct file_cache *cache);
/* Forgets all files; it can still be used, and locked. */
void file_cache_clear(struct file_cache *cache);
void file_cache_done(struct file_cache *cache);

/* The parsed file behind a path; one reference. tensor: the one that is
 * wanted, or NULL; of an index only its shard has to be what it was. */
int file_cache_open(struct file_cache *cache, const char *path,
	const char *tensor, tarn_file **ret);

/* The storage that a shard of a file was loaded into, if it is known. */
bool file_cache_storage(struct file_cache *cache, const tarn_file *file,
	uint32_t shard, uint32_t *ret_index, uint64_t *ret_generation);

/* Notes it, for a file that file_cache_open gave. */
void file_cache_note(struct file_cache *cache, const tarn_file *file,
	uint32_t shard, uint32_t index, uint64_t generation);
