/* SPDX-License-Identifier: MIT */
/*
 * Files: a tensor file, opened and its header parsed. Its tensors are views
 * of a file storage: they have a layout and no address; reading one reads only
 * its bytes.
 *
 * Formats: safetensors (0.8), .npy (1.0, 2.0, 3.0; little-endian; C and
 * Fortran order), and the index of a sharded checkpoint
 * (model.safetensors.index.json), which is all tensors of all its shards. The
 * format is told by content, not by name. A file is
 * hostile until checked: sizes, offsets, overlaps and names are all verified
 * here, and a mistake is one sentence with the value in it.
 *
 * Differences from the reference reader of safetensors: a header that names
 * a tensor twice is refused (the format's text forbids it), and so is one with
 * \u0000 in a string, since names are C strings here; a tensor of more than
 * TARN_MAX_NDIM dimensions is listed but cannot be viewed.
 *
 * Differences from numpy: a header of more than 10,000 bytes is always
 * refused, as numpy does unless told otherwise; so is what literal_eval would
 * take but no numpy ever wrote (True or 0x10 as a size, a key twice).
 *
 * Of an index: its shards lie in its folder or below, in the order of their
 * names. Its weight_map decides what there is: a tensor that is not where it
 * says is an error, and what a shard has besides is not listed (the shard,
 * opened by itself, lists it). Its metadata that are text, numbers or truth
 * values are pairs, as they are written. Each shard takes a descriptor.
 *
 * A tarn_file may be used by many threads at once.
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_file tarn_file;

struct tarn_file_tensor {
	const char *name;      /* UTF-8; owned by the file */
	size_t name_size;      /* bytes, without the NUL at the end */
	uint64_t file_offset;  /* first byte in the file */
	uint64_t nbytes;
	int dtype;	       /* enum tarn_dtype */
	int ndim;	       /* may be larger than TARN_MAX_NDIM */
	const uint64_t *shape; /* ndim sizes; owned by the file */
	bool fortran_order;
	uint32_t shard; /* see tarn_file_shard; 0 */
};

/* -EBADMSG: not a file that we read (a fifo, another format), or a damaged
 * one; -ENOENT: it, or a shard, is not there; -EISDIR: a directory; -ENOTSUP: a valid file that holds what we do not
 * take (big-endian, objects), by name; and what open(2) and read(2) return. */
TARN_PUBLIC int tarn_file_open(const char *path, tarn_file **ret);

/* The same from a readable descriptor of a regular file, which is duplicated;
 * name is used for messages and for the tensor of a .npy file. -ENOTSUP: an
 * index, whose shards are found by its path. */
TARN_PUBLIC int tarn_file_open_fd(int fd, const char *name, tarn_file **ret);

TARN_PUBLIC tarn_file *tarn_file_ref(tarn_file *file);
TARN_PUBLIC tarn_file *tarn_file_unref(tarn_file *file);

TARN_PUBLIC const char *tarn_file_path(const tarn_file *file);
TARN_PUBLIC const char *tarn_file_format(const tarn_file *file);

/*
 * The files that it is made of: itself alone, but for an index, whose shards
 * are opened with it (those that are missing are named in the error). Offsets
 * of a tensor count in its shard. Borrowed: valid as long as the file is. NULL:
 * there is no shard i.
 */
TARN_PUBLIC size_t tarn_file_shard_count(const tarn_file *file);
TARN_PUBLIC tarn_file *tarn_file_shard(const tarn_file *file, size_t i);

/* Where the tensors' bytes lie: one range that holds them all. Of an index,
 * which has no bytes itself, 0 and the sum of its shards'. */
TARN_PUBLIC void tarn_file_data_range(const tarn_file *file,
	uint64_t *ret_offset, uint64_t *ret_size);

/* The descriptor, for fstat and reads; owned by the file. An index's own has
 * no tensor bytes: ask its shards. */
TARN_PUBLIC int tarn_file_fd(const tarn_file *file);

/* Tensors in the order of their bytes in the file. */
TARN_PUBLIC size_t tarn_file_count(const tarn_file *file);
TARN_PUBLIC const struct tarn_file_tensor *tarn_file_at(const tarn_file *file,
	size_t i);

/* By name; NULL when there is none of that name. Constant time. */
TARN_PUBLIC const struct tarn_file_tensor *tarn_file_find(
	const tarn_file *file, const char *name);

/* Metadata pairs; values of safetensors' __metadata__, none for .npy. */
TARN_PUBLIC size_t tarn_file_metadata_count(const tarn_file *file);
TARN_PUBLIC int tarn_file_metadata_at(const tarn_file *file, size_t i,
	const char **ret_key, const char **ret_value);

/* The layout of a tensor, counted from its own first byte (file_offset).
 * -ENOTSUP: it has more than TARN_MAX_NDIM dimensions, or sizes past int64. */
TARN_PUBLIC int tarn_file_layout(const struct tarn_file_tensor *tensor,
	struct tarn_layout *ret);

/* The tensor as a view of file storage. */
TARN_PUBLIC int tarn_file_tensor(tarn_file *file, const char *name,
	tarn_tensor **ret);

enum tarn_map {
	TARN_MAP_POPULATE = 1,	 /* read all of it now */
	TARN_MAP_SEQUENTIAL = 2, /* read ahead much */
	TARN_MAP_RANDOM = 4,	 /* read ahead nothing */
};

/*
 * The tensor as a view of the file mapped into memory, read-only and shared
 * with all who map or read it: it has an address, and no copy is made. The
 * price: if the file shrinks, who touches its pages by that address gets
 * SIGBUS. What the library itself reads, it reads with pread, and says
 * -ENODATA. name NULL: a U8 tensor over the whole data range (not of an index, -ENOTSUP:
 * its shards have one each). A file is mapped
 * once, however often this is called; flags (enum tarn_map, or 0) are advice
 * for this tensor's bytes. -ENODEV, -ENOMEM.
 */
TARN_PUBLIC int tarn_file_map(tarn_file *file, const char *name, unsigned flags,
	tarn_tensor **ret);

#ifdef __cplusplus
}
#endif
