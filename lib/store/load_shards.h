/* SPDX-License-Identifier: MIT */
/* tarn_store_load of an index: all its shards. */
#pragma once

#include <tarn/store.h>

/* Is a file made of others? */
static inline bool file_is_index(const tarn_file *file)
{
	return tarn_file_shard(file, 0) != file;
}

/* The storage of shard i in all, borrowed; NULL: all is not from
 * load_shards. */
tarn_storage *load_shards_storage(const tarn_storage *all, uint32_t i);

int store_load_shards(tarn_store *store, tarn_file *file,
	const struct tarn_load_options *options,
	struct tarn_load_info *ret_info, tarn_tensor **ret_all);

/* Compares the bytes of a file, which are in storage, with its checksums; adds
 * its time to *info. -EBADMSG: they differ. */
int load_verify(const tarn_file *file, const tarn_storage *storage,
	struct tarn_load_info *info);

/* Publishes all tensors of a file as PREFIX/TENSOR; storages holds the data
 * ranges of its shards. */
int store_publish_file(tarn_store *store, const tarn_file *file,
	const char *prefix, tarn_storage *const *storages);
