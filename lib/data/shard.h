/* SPDX-License-Identifier: MIT */
/*
 * Tar shards: their indexes, and where a record's members are.
 *
 * An index is U8 of one dimension: a head, an entry for each record and one more,
 * an entry for each field, and text with keys and names. It is read where it is,
 * a few bytes for a record, and each entry is checked when it is read.
 */
#pragma once

#include <tarn/data.h>

#include "base/identity.h"
#include "lib/data/fork_lock.h"

#define SHARD_INDEX_MAGIC 0x31786469726174b5u

struct shard_index_head {
	uint64_t magic;
	uint64_t shard_size, shard_mtime; /* of the shard that it is of */
	uint64_t n_records, n_fields, text_size;
	uint64_t zero[2];
};

struct shard_index_record {
	uint64_t field; /* its first; its last is before the next's */
	uint32_t key;   /* byte of the text */
	uint32_t key_size;
};

struct shard_index_field {
	uint64_t at;   /* byte of the member's first head */
	uint64_t size; /* of its data */
	uint32_t name; /* byte of the text */
	uint16_t name_size;
	uint16_t heads; /* blocks of 512 bytes before its data */
};

/* What is open of a shard; NULL: not now. */
struct data_shard {
	char *path;
	struct file_identity seen; /* when it was opened first */
	bool is_seen;
	struct shard_index_head head;
	tarn_storage *storage;
	tarn_tensor *index;
	bool index_kept; /* it is in memory or was given, and stays */
	uint64_t used;   /* when, for the one that was used longest ago */
	uint64_t first;  /* record, in the source */
};

struct data_shards {
	size_t n;
	struct data_shard *at;
	uint64_t n_records;
	struct fork_lock lock; /* of what is open */
	size_t open, open_max;
	uint64_t uses;
};

/* Looks through a shard and makes its index, in memory. step is called now and
 * then with the byte that has been reached; what it returns below 0 ends it. */
int shard_index_make(const tarn_storage *storage,
	const struct file_identity *shard, int (*step)(void *arg, uint64_t at),
	void *arg, tarn_tensor **ret);
/* The head of an index, if it is one, and of this shard: -EMEDIUMTYPE; -EBADMSG:
 * it is none. */
int shard_index_check(const tarn_tensor *index,
	const struct file_identity *shard, struct shard_index_head *ret);

/* A member, as an index has it. */
struct shard_member {
	uint64_t at, data, size;
	char *name; /* the field's, for free */
};

/* Record i's key, and its fields; *ret_key and all names are the caller's. The
 * sentence does not name the file. */
int shard_index_record(const tarn_tensor *index,
	const struct shard_index_head *head, uint64_t i, char **ret_key,
	struct shard_member **ret, size_t *ret_n);
/* Is a member of key and field where an index says it is? */
int shard_check_member(const tarn_storage *storage, const char *key,
	const struct shard_member *member);

/* One of them: its file, which must be as it was seen; its index beside it, if it
 * is this shard's. */
int data_shard_open_file(const struct data_shard *shard, tarn_storage **ret,
	struct file_identity *ret_seen);
int data_shard_open_index(
	struct data_shard *shard, struct shard_index_head *head);
int data_shard_index_path(const struct data_shard *shard, char **ret);
void data_shard_close(struct data_shard *shard);

/* Opens all shards, by several threads; source_open's options. *ret goes to
 * data_shards_free. */
int data_shards_open(const char *const *paths, size_t n,
	const struct tarn_data_source_options *options,
	struct data_shards **ret);
/* Takes NULL and returns NULL. */
struct data_shards *data_shards_free(struct data_shards *shards);
/* The shard of a record. */
size_t data_shards_find(const struct data_shards *shards, uint64_t record);
/* What is open of shard i, or is opened again if it is the same: references for
 * the caller. ret_index may be NULL. -ESTALE. */
int data_shards_use(struct data_shards *shards, size_t i,
	tarn_storage **ret_storage, tarn_tensor **ret_index);
/* Sizes and some bytes of the indexes. */
int data_shards_mark(struct data_shards *shards, uint64_t hash[2]);
