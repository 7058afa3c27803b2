/* SPDX-License-Identifier: MIT */
/*
 * Files: a tensor file, opened and its header parsed. Its tensors are views of
 * a file storage: they have a layout and no address; reading one reads only its
 * bytes.
 *
 * Formats: safetensors (0.8), .npy (1.0, 2.0, 3.0; little-endian; C and Fortran
 * order), .npz, PyTorch's checkpoints (.pt, .pth, .bin: the zip archives that
 * torch.save writes since 1.6), and the index of a sharded checkpoint
 * (model.safetensors.index.json), which is all tensors of all its shards. The
 * format is told by content, not by name. A file is hostile until checked: sizes, offsets, overlaps and names are
 * all verified here, and an error is one sentence with the value in it.
 *
 * Differences from the reference reader of safetensors: a header that names a
 * tensor twice is refused (the format's text forbids it), and so is one with
 * \u0000 in a string, since names are C strings here; a tensor of more than
 * TARN_NDIM_MAX dimensions is listed but cannot be viewed.
 *
 * Differences from numpy: a header of more than 10,000 bytes is always refused,
 * as numpy does unless told otherwise; so is text that literal_eval accepts but
 * no numpy ever wrote (True or 0x10 as a size, a key twice).
 *
 * A checkpoint: its tensors are named after the keys and indices that lead to
 * them, with dots in between (optimizer.state.0.exp_avg); one alone is named
 * after the file. Views of one storage share its bytes. Numbers, texts and truth
 * values become metadata. Its pickle is data here: nothing is executed, and one
 * that needs another class than tensors and containers is refused, by the name
 * of that. .npz and checkpoints are read where their records lie, and zip's
 * checksums are not verified. If a record is deflated, opening the file inflates
 * all of it into memory of this process, which other processes do not share
 * (tarn_store_open_file makes them), and verifies the checksums of what it
 * inflates; -ENOMEM: there is no room for it.
 *
 * An index: its shards are in its folder or below, in the order of their names.
 * Its weight_map decides which tensors there are: a tensor that is not in the
 * shard given there is an error, and other tensors of a shard are not listed
 * (the shard, opened by itself, lists them). Its metadata that are strings,
 * numbers or booleans become pairs, as they are written. Each open shard needs
 * a descriptor.
 *
 * A tarn_file stands for one version of its file: the one whose header was
 * parsed. Reading from it (element access, copies, tarn_file_load) fails with
 * -ESTALE when size or mtime of the file have changed since: open it again. A
 * mapping shows the current bytes of the file.
 *
 * A tarn_file may be used by many threads at once.
 */
#pragma once

#include <tarn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tarn_file tarn_file;

struct tarn_file_entry {
	const char *name;      /* UTF-8; owned by the file */
	size_t name_size;      /* bytes, without the NUL at the end */
	uint64_t file_offset;  /* first byte in the file */
	uint64_t nbytes;
	enum tarn_dtype dtype;
	int ndim;	       /* may be larger than TARN_NDIM_MAX */
	const uint64_t *shape; /* ndim sizes; owned by the file */
	bool fortran_order;
	uint32_t shard; /* see tarn_file_shard; otherwise 0 */
	/* ndim steps in elements; owned by the file. NULL: one after the other,
	 * in C or Fortran order. nbytes reaches from the first byte to the last,
	 * with what lies between; other tensors may share them. */
	const int64_t *stride;
};

/* Opens a file by its path. *ret is the caller's reference. -EBADMSG: damaged,
 * or a format that tarn does not read (a fifo too); -ENOENT: the file or one of
 * its shards is missing; -EISDIR; -ENOTSUP: a valid file with data that tarn
 * does not read (big-endian, objects), named in the message; -ESTALE: it was
 * written again and again while its header was read; and the errors of open(2)
 * and read(2). */
TARN_PUBLIC int tarn_file_open(const char *path, tarn_file **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* Opens a file from a readable descriptor of a regular file, which is
 * duplicated; name is used for messages and for the tensor of a .npy file, and
 * may be NULL.
 * -ENOTSUP: an index, whose shards are found by its path. */
TARN_PUBLIC int tarn_file_open_fd(int fd, const char *name, tarn_file **ret)
	TARN_NONNULL(3) TARN_MUST_CHECK;

/* One more reference, for the caller. Takes NULL, returns its argument. */
TARN_PUBLIC tarn_file *tarn_file_ref(tarn_file *file);

/* Drops a reference. Takes NULL and returns NULL. */
TARN_PUBLIC tarn_file *tarn_file_unref(tarn_file *file);

/* The path, as it was given. Borrowed: valid as long as the file is. */
TARN_PUBLIC const char *tarn_file_path(const tarn_file *file)
	TARN_NONNULL(1) TARN_NOT_NULL;

/* "safetensors", "npy", "npz", "pytorch" or "safetensors index". Static. */
TARN_PUBLIC const char *tarn_file_format(const tarn_file *file)
	TARN_NONNULL(1) TARN_NOT_NULL;

/*
 * The files that it consists of: only itself, except for an index, whose shards
 * are opened with it (the error names missing ones). Offsets of a tensor count
 * in its shard. Borrowed: valid as long as the file is. NULL: there is no shard
 * i.
 */
TARN_PUBLIC size_t tarn_file_shard_count(const tarn_file *file)
	TARN_NONNULL(1);
TARN_PUBLIC tarn_file *tarn_file_shard(const tarn_file *file, size_t i)
	TARN_NONNULL(1);

/* Where the tensors' bytes lie: one range that holds them all. For an index,
 * which has no bytes itself, 0 and the sum of its shards' sizes. */
TARN_PUBLIC void tarn_file_data_range(const tarn_file *file,
	uint64_t *ret_offset, uint64_t *ret_size)
	TARN_NONNULL(1, 2, 3);

/*
 * Those bytes as one tensor of U8, whose storage is that of all tensors of the file;
 * nothing is read. The caller owns *ret, which keeps the file open. -ENOTSUP: it
 * is an index, whose shards have the bytes; -ENOMEM. Any thread.
 */
TARN_PUBLIC int tarn_file_bytes(const tarn_file *file, tarn_tensor **ret)
	TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The descriptor, for fstat and reads; owned by the file. That of an index has
 * no tensor bytes: use its shards'. It cannot fail. */
TARN_PUBLIC int tarn_file_fd(const tarn_file *file)
	TARN_NONNULL(1);

/* Tensors in the order of their bytes in the file: their number, and the i-th,
 * borrowed from the file; NULL: there is no tensor i. */
TARN_PUBLIC size_t tarn_file_count(const tarn_file *file)
	TARN_NONNULL(1);
TARN_PUBLIC const struct tarn_file_entry *tarn_file_at(const tarn_file *file,
	size_t i)
	TARN_NONNULL(1);

/* Finds a tensor by name; NULL when there is none of that name. Constant
 * time. */
TARN_PUBLIC const struct tarn_file_entry *tarn_file_find(
	const tarn_file *file, const char *name)
	TARN_NONNULL(1, 2);

/* Metadata pairs: values of safetensors' __metadata__, none for .npy. Their
 * number, and the i-th, borrowed from the file. -ERANGE: there is no pair i. */
TARN_PUBLIC size_t tarn_file_metadata_count(const tarn_file *file)
	TARN_NONNULL(1);
TARN_PUBLIC int tarn_file_metadata_at(const tarn_file *file, size_t i,
	const char **ret_key, const char **ret_value)
	TARN_NONNULL(1, 3, 4) TARN_MUST_CHECK;

/* The layout of a tensor, counted from its own first byte (file_offset).
 * -ENOTSUP: it has more than TARN_NDIM_MAX dimensions, or sizes past int64. */
TARN_PUBLIC int tarn_file_entry_layout(const struct tarn_file_entry *tensor,
	struct tarn_layout *ret) TARN_NONNULL(1, 2) TARN_MUST_CHECK;

/* The tensor of that name as a view of file storage: it has no address, and its
 * bytes are read when needed. *ret is the caller's reference, and keeps the
 * file's descriptor. -ENOENT; -ENOTSUP as tarn_file_entry_layout. */
TARN_PUBLIC int tarn_file_tensor(tarn_file *file, const char *name,
	tarn_tensor **ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

#define TARN_MAP_POPULATE 1u   /* read all of it now */
#define TARN_MAP_SEQUENTIAL 2u /* read ahead a lot */
#define TARN_MAP_RANDOM 4u     /* do not read ahead */

/*
 * The tensor as a view of the file mapped into memory, read-only and shared
 * with all processes that map or read it: it has an address, and no copy is
 * made. The price: if the file shrinks, a process that touches its pages at
 * that address gets SIGBUS. The library itself reads the file with pread, and
 * returns -ENODATA then. name NULL: a U8 tensor over the whole data range (not
 * of an index, -ENOTSUP: its shards have one each). A file is mapped once,
 * however often this is called; flags (0, or a sum of TARN_MAP_*) are advice for
 * this tensor's bytes. -EINVAL: unknown flags, or SEQUENTIAL and RANDOM both;
 * -ENODEV, -ENOMEM.
 */
TARN_PUBLIC int tarn_file_map(tarn_file *file, const char *name, unsigned flags,
	tarn_tensor **ret) TARN_NONNULL(1, 4) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
