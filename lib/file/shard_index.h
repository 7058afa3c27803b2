/* SPDX-License-Identifier: MIT */
/*
 * The index of a sharded checkpoint as text: the file of each tensor.
 *
 *	{"metadata": {"total_size": 24}, "weight_map": {"a": "1.safetensors"}}
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tarn_file;

struct shard_entry {
	const char *tensor;
	size_t size; /* of the name */
	uint32_t shard;
};

/* All of its memory is in the file's arena. */
struct shard_index {
	struct shard_entry *entries;
	size_t count;
	const char **shards; /* names below the index's folder, sorted */
	size_t shard_count;
};

/* Is that the beginning of JSON, and not of a safetensors file? */
int shard_index_begins(const char *head, size_t size);

/* Reads it; sets the file's pairs from its metadata. Names of shards have been
 * checked, and stay inside of the folder. -EBADMSG. */
int shard_index_read(struct tarn_file *file, struct shard_index *ret);
