/* SPDX-License-Identifier: MIT */
/* A file as this rank has it, and the memory that it is to become. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tarn/copy.h>

#include "base/cleanup.h"
#include "base/digest.h"

/* The bytes of one file's tensors. */
struct source_shard {
	tarn_tensor *bytes; /* U8, in the file; NULL: it has no tensors */
	uint64_t begin;     /* of them in the file */
	uint64_t size, at;  /* at: where they go in memory */
};

struct source {
	tarn_file *file;
	struct source_shard *shards;
	size_t n_shards;
	uint64_t memory; /* bytes that all shards need */
	/* What must be the same on all nodes. */
	uint64_t bytes;   /* of the files */
	int64_t mtime_ns; /* the latest */
	struct digest digest;
};

/* Opens a file and looks at what it has. -ENOTSUP: tensors with gaps or in another
 * order; otherwise as tarn_file_open. */
int source_open(const char *path, struct source *ret) _must_check_;
void source_close(struct source *source);

/* Reads the bytes of memory from begin on into a tensor over all of it, of which it
 * takes what it needs, as copies of stream, each with the tag user. *ret_copies is how
 * many these are: 0 where there is nothing to read. *ret_bytes is added to. */
int source_read(const struct source *source, tarn_stream *stream,
	tarn_tensor *memory, uint64_t begin, uint64_t end, uint64_t user,
	int *ret_copies, uint64_t *ret_bytes) _must_check_;

/* Tensor i of the file over memory. */
int source_tensor(const struct source *source, tarn_storage *memory, size_t i,
	tarn_tensor **ret) _must_check_;
