/* SPDX-License-Identifier: MIT */
/*
 * An open file, as the readers of the formats fill it in. A reader finds fd,
 * size and path set; it sets format, data range, tensors and pairs, with memory
 * of the arena. Its errors do not name the file: file.c puts the path in front.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include <tarn/file.h>

#include "base/identity.h"
#include "lib/file/arena.h"
#include "lib/file/name_index.h"

/* Of so many bytes before the first tensor there is a digest, which covers any
 * header; the daemon takes no more (LOAD_HEADER_MAX). An archive may have other
 * records there, of any size. */
#define FILE_FRONT_MAX (128u << 20)

/* The longest quote of a file's own text in a sentence, NUL included. */
#define FILE_TEXT_MAX 96

struct file_pair {
	const char *key;
	const char *value;
};

struct file_reading;
struct metadata_index;
struct tarn_file;

/* Fills memory of the size that was asked for; fd is its memfd. */
typedef int file_fill(void *job, int fd, unsigned char *at);

/*
 * Where processes find what one of them has inflated. get returns 0, and a
 * descriptor of a sealed memfd that has what fill has put there, in this process
 * or in another before it; it may set file->inflated. 1: it cannot be shared, the
 * caller inflates it by itself. -errno: what fill has returned.
 */
struct file_sharing {
	int (*get)(void *arg, struct tarn_file *file, uint64_t size,
		file_fill *fill, void *job, int *ret_fd);
	void *arg;
};

struct tarn_file {
	atomic_uint refs;
	int fd;
	uint64_t size; /* when it was opened; reads never go past it */
	struct file_version version;  /* that was parsed */
	struct file_reading *reading; /* while it is parsed */
	const char *path;             /* as the caller gave it */
	const char *format;           /* static */
	bool by_path;     /* path is where it was found, not a name given by
			     * the caller */
	bool part;        /* it is a shard of another */
	bool is_inflated; /* fd is of a memfd, all of which is its data range */
	/* While it is opened; NULL: what is inflated is this process's own. */
	const struct file_sharing *sharing;
	/* That memfd, as a storage of a store; NULL: it is none's. */
	tarn_storage *inflated;
	bool found; /* another process had inflated it */
	uint64_t data_offset;
	uint64_t data_size;
	struct tarn_file_entry *tensors; /* in order of bytes */
	size_t large; /* bytes of huge_alloc() they are; 0: malloc'ed */
	size_t count;
	size_t room; /* tensors that fit */
	struct file_pair *pairs;
	size_t pair_count;
	struct metadata_index *_Atomic by_key; /* NULL: not asked for yet */
	struct name_index index;
	tarn_storage *storage;        /* the data range; all tensors share it */
	tarn_storage *_Atomic mapped; /* the same, mapped; NULL: not asked for
				       * yet */
	struct arena arena;
	struct tarn_file **shards; /* of an index; NULL: it is its only shard */
	size_t shard_count;
};

/* size bytes at offset, which must lie inside the file's size, from front to
 * back, since they enter the digest of the header: no byte is parsed that is
 * not in the digest. -EBADMSG: the file has shrunk since. */
int file_read(struct tarn_file *file, void *buf, size_t size, uint64_t offset);
/* The same anywhere, and not in the digest: for what lies behind the data, where
 * the stamps alone tell whether it changed. */
int file_read_at(
	const struct tarn_file *file, void *buf, size_t size, uint64_t offset);
/* Its first bytes, up to *ret_size of them. They enter the digest only when
 * they are read. */
const char *file_first(const struct tarn_file *file, size_t *ret_size);
/* Called before and after the parsing; sets the header's digest in
 * file->version. */
int file_read_begin(struct tarn_file *file);
int file_read_end(struct tarn_file *file);
void file_read_drop(struct tarn_file *file);

/* The bytes of fd take the place of the file's, of which no digest is wanted any
 * more; reading begins anew. fd is closed on failure. */
int file_replace_consume_fd(struct tarn_file *file, int fd);

/* For fd, which has what was inflated, before others see it: it is as old as the
 * file. -ESTALE: the file changed meanwhile. */
int file_inflated(const struct tarn_file *file, int fd);

/* 0 if the file is the version that was parsed, by its stamps; otherwise
 * -ESTALE. */
int file_check_version(const struct tarn_file *file, const char *when);

/* A file's own text made fit for a sentence: cut, and no control codes. */
const char *file_clean(
	const char *text, size_t size, char buf[static FILE_TEXT_MAX]);

/* Announces how many tensors there may be: if many, reserves memory for all. */
void file_expect(struct tarn_file *file, size_t count);

/* Frees the memory of the tensors. */
void file_tensors_free(struct tarn_file *file);

/* Is it UTF-8 without a NUL? */
bool file_is_text(const char *text, size_t size);

/* Adds a tensor, with a copy of its name and the rest zero; earlier ones move.
 * NULL: out of memory. */
struct tarn_file_entry *file_add_tensor(
	struct tarn_file *file, const char *name, size_t size);

/* The same with the last component of the path for a name, without ".npy" or
 * another extension; bytes that are not UTF-8 become '?'. */
struct tarn_file_entry *file_add_named(struct tarn_file *file);

/* Enters all names, once the tensors are in their order. -EBADMSG: two have
 * the same. */
int file_index(struct tarn_file *file);

/* The tensor of that name. -ENOENT, with a sentence that does not name the
 * file. */
int file_find(const struct tarn_file *file, const char *name,
	const struct tarn_file_entry **ret);

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
/* PyTorch's checkpoints and numpy's .npz. */
int archive_read(struct tarn_file *file);

/* tarn_file_open; sharing may be NULL. */
int file_open_shared(const char *path, const struct file_sharing *sharing,
	struct tarn_file **ret);
/* The same for a shard: an index is none. */
int file_open_shard(const char *path, const struct file_sharing *sharing,
	struct tarn_file **ret);
