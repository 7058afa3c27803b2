/* SPDX-License-Identifier: MIT */
/*
 * An open file, as the readers of the formats fill it. A reader finds fd,
 * size and path set; format, data range, tensors and pairs are its to set, out
 * of the arena. Its errors do not name the file: file.c puts the path in front.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <tarn/file.h>

#include "lib/file/arena.h"
#include "lib/file/name_index.h"

/* As much of a file's own text as a sentence quotes, NUL included. */
#define FILE_TEXT_MAX 96

struct file_pair {
	const char *key;
	const char *value;
};

struct metadata_index;

struct tarn_file {
	atomic_uint refs;
	int fd;
	uint64_t size;	    /* when it was opened; reads never go past it */
	const char *path;   /* as the caller gave it */
	const char *format; /* static */
	bool by_path;	    /* path is where it was found, not what its caller
			       calls it */
	bool part;	    /* it is a shard of another */
	uint64_t data_offset;
	uint64_t data_size;
	struct tarn_file_tensor *tensors; /* in order of bytes */
	size_t large; /* bytes of large_alloc() they are; 0: malloc'ed */
	size_t count;
	size_t room; /* tensors that fit */
	struct file_pair *pairs;
	size_t pair_count;
	struct metadata_index *_Atomic by_key; /* NULL: nobody asked */
	struct name_index index;
	tarn_storage *storage; /* the data range; all tensors share it */
	tarn_storage *_Atomic mapped; /* the same, mapped; NULL: nobody asked */
	struct arena arena;
	struct tarn_file **shards; /* of an index; NULL: it is its own */
	size_t shard_count;
};

/* size bytes at offset, which must lie inside the file's size. -EBADMSG: it
 * has shrunk since. */
int file_read(const struct tarn_file *file, void *buf, size_t size,
	uint64_t offset);

/* A file's own text made fit for a sentence: cut, and no control codes. */
const char *file_clean(const char *text, size_t size,
	char buf[static FILE_TEXT_MAX]);

/* There may be so many tensors: if they are many, there is room for all. */
void file_expect(struct tarn_file *file, size_t count);

/* Gives back what the tensors lie in. */
void file_tensors_free(struct tarn_file *file);

/* One more tensor, with a copy of its name and the rest zero; those that were
 * there move. NULL: no memory. */
struct tarn_file_tensor *file_add_tensor(struct tarn_file *file,
	const char *name, size_t size);

/* Enters all names, once the tensors are in their order. -EBADMSG: two have
 * the same. */
int file_index(struct tarn_file *file);

/* The tensor of that name. -ENOENT, with a sentence that does not name the
 * file. */
int file_find(const struct tarn_file *file, const char *name,
	const struct tarn_file_tensor **ret);

/* The first metadata pair with that key; NULL: none. */
const struct file_pair *file_metadata_find(
	const struct tarn_file *file, const char *key);
/* Takes NULL and returns NULL. */
struct metadata_index *metadata_index_free(struct metadata_index *index);

/* "The header names ... twice". -EBADMSG. */
int file_named_twice(const char *name, size_t size);

/* "No memory for ...", of what is being read. -ENOMEM. */
int file_no_memory(const char *what);

/* Reads size bytes of a tensor of file_map.c into the page cache, and tells of
 * them as tarn_copy does. -ECANCELED. */
int file_map_read(const tarn_tensor *tensor, uint64_t size,
	int (*progress)(void *arg, uint64_t done, uint64_t total), void *arg);

/* The formats. */
int npy_read(struct tarn_file *file);
int safetensors_read(struct tarn_file *file);
int shards_read(struct tarn_file *file);

/* tarn_file_open for a shard: an index is none. */
int file_open_shard(const char *path, struct tarn_file **ret);
