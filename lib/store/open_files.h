/* SPDX-License-Identifier: MIT */
/*
 * Recently opened files, so that many FILE:TENSOR gets of one file parse it
 * once and ask the daemon once.
 *
 * An entry is used as long as its path is the version that was parsed. Only
 * files whose stamps reveal every change are kept (base/identity.h), and the
 * storage of a load only if the daemon keeps it. An entry holds no lease: the
 * storage may be evicted meanwhile, and then the next attempt to lease it
 * fails.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tarn/file.h>

#include "base/identity.h"

/* Picked: a checkpoint's shards or a dataset's splits; each costs a
 * descriptor. */
#define OPEN_FILES_MAX 8

struct file_sharing;

struct cached_shard {
	/* The storage that holds its data range; generation 0: unknown. */
	uint32_t index;
	uint64_t generation;
};

struct cached_file {
	char *path;
	tarn_file *file;
	uint64_t used; /* the tick of its last use; 0: a free entry */
	struct cached_shard *shards;
	size_t n_shards;
};

struct open_files {
	pthread_mutex_t lock;
	uint64_t tick;
	struct cached_file at[OPEN_FILES_MAX];
};

void open_files_init(struct open_files *cache);
/* Forgets all files; the cache can still be used, and locked. */
void open_files_clear(struct open_files *cache);
void open_files_done(struct open_files *cache);

/* The parsed file at a path; one reference. tensor: the one that is wanted, or
 * NULL; of an index only its shard must be unchanged. sharing: as
 * file_open_shared has it. */
int open_files_open(struct open_files *cache, const char *path,
	const char *tensor, const struct file_sharing *sharing,
	tarn_file **ret);

/* The storage that a shard of a file was loaded into, if it is known. */
bool open_files_storage(struct open_files *cache, const tarn_file *file,
	uint32_t shard, uint32_t *ret_index, uint64_t *ret_generation);

/* Forgets a file that turned out to have changed, or is to be read again. */
void open_files_forget(struct open_files *cache, const tarn_file *file);

/* Notes that storage, for a file that open_files_open returned. */
void open_files_note(struct open_files *cache, const tarn_file *file,
	uint32_t shard, uint32_t index, uint64_t generation);
