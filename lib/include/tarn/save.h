/* SPDX-License-Identifier: MIT */
/*
 * Saving: tensors become a file, whole or not at all.
 *
 * The bytes go to a temporary file in the same folder, which is synced, renamed
 * over the old one, and its folder synced: a process that opens the path finds
 * the old file or the new one, even after a crash. Any view is saved as it is,
 * from wherever it is, without a contiguous copy in memory; but a tensor in a
 * file whose order of elements differs much, such as a Fortran array in a .npy
 * that becomes safetensors, is read into memory first, where there is room, so
 * that the file is read once. The bytes go past the page cache where the disk
 * allows it: the next reader of the file reads the disk.
 *
 * Permissions follow the umask, or are those of the file that is replaced, its
 * access control list among them. A symbolic link is followed, and its target
 * replaced. In a sticky folder such as /tmp, links and files of other users are
 * refused (-EACCES), as fs.protected_symlinks=1 and fs.protected_regular=2 do
 * for open(2), whatever the system's settings are: links unless they belong to
 * the folder's owner, where every user may write the folder; files likewise,
 * also where only a group may write it.
 *
 * Checksums are XXH3 (64 bits) of each tensor's bytes as they lie in the file,
 * kept as metadata: key "xxh3:" and the tensor's name, value 16 hex digits.
 * Readers that do not support them ignore them. Metadata pairs of the caller
 * whose keys begin like that are left out: they would be checksums of other
 * bytes.
 */
#pragma once

#include <tarn/copy.h>
#include <tarn/file.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tarn_save_item {
	const char *name; /* UTF-8; not "__metadata__" */
	const tarn_tensor *tensor;
	/* The form in the file: a dtype other than the tensor's, and scale and
	 * bias as in tarn_copy; NULL: as it is. */
	enum tarn_dtype dtype; /* 0: the tensor's */
	const struct tarn_copy_options *convert;
	/* The checksum that its bytes in the file must have, from
	 * tarn_file_checksum of the source: so damage is not copied. NULL: any.
	 * Only with options->checksums. */
	const uint64_t *checksum;
	uint64_t reserved[4]; /* 0 */
};

struct tarn_save_pair {
	const char *key, *value;
	uint64_t reserved[2]; /* 0 */
};

struct tarn_save_options {
	const char *format; /* "safetensors", "npy" (one item, its name is not
			     * kept); NULL: by the path's extension, otherwise
			     * safetensors */
	uint32_t align; /* a power of two that the first tensor's offset in the
			 * file is a multiple of; 0: 4096, which permits direct
			 * I/O, for 4 MiB of tensors or more, and the format's
			 * own alignment (8, 64) for less */
	bool checksums; /* not for npy */
	bool exclusive; /* -EEXIST if the path exists */
	const struct tarn_save_pair *pairs; /* metadata; not for npy */
	size_t n_pairs;
	enum tarn_io_mode io_mode;
	const char *engine;
	/* Called now and then in the calling thread with the number of bytes
	 * read into memory and written; non-zero cancels: -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Saves n tensors as path. Any thread. options and ret_info may be NULL. On
 * failure the old file is untouched and nothing is left behind: -ENOSPC,
 * -EDQUOT, -EFBIG, -EROFS, -EACCES (also for a file without write permission,
 * and for a file or link of another user in a sticky folder), -EISDIR, -EEXIST,
 * -ECANCELED, -EINVAL (two of one name, a bad name), -ENOTSUP (the format has
 * no such dtype), -E2BIG (a header over 100 MB), -EBADMSG (a tensor does not
 * have the checksum that it must have). One failure is different: when the
 * folder cannot be synced the new file is in place already, and the sentence
 * says so.
 */
TARN_PUBLIC int tarn_save(const char *path, const struct tarn_save_item *items,
	size_t n, const struct tarn_save_options *options,
	struct tarn_copy_info *ret_info) TARN_NONNULL(1) TARN_MUST_CHECK;

/* ---- verifying ----------------------------------------------------- */

struct tarn_verify_options {
	enum tarn_io_mode io_mode;
	const char *engine;
	/* Called for each tensor, also for those without a checksum: result is
	 * 0, -EBADMSG (it differs) or -ENODATA (there is none). Non-zero stops
	 * the verification with that result. */
	int (*tensor)(void *arg, const struct tarn_file_entry *tensor,
		int result);
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t reserved[8]; /* 0 */
};

struct tarn_verify_info {
	size_t good, bad, unchecked; /* tensors; the last have no checksum */
	struct tarn_copy_info read;
	uint64_t reserved[8]; /* 0 */
};

/*
 * Reads every tensor that has a checksum and compares. 0: all match. -EBADMSG:
 * one differs, and the sentence names the first; *ret_info (may be NULL) is
 * written then too.
 */
TARN_PUBLIC int tarn_file_verify(tarn_file *file,
	const struct tarn_verify_options *options,
	struct tarn_verify_info *ret_info) TARN_NONNULL(1) TARN_MUST_CHECK;

/* The checksum that the file's metadata has for a tensor. -ENOENT: it has none;
 * -EBADMSG: it is not 16 hex digits. */
TARN_PUBLIC int tarn_file_checksum(const tarn_file *file, const char *tensor,
	uint64_t *ret) TARN_NONNULL(1, 2, 3) TARN_MUST_CHECK;

#ifdef __cplusplus
}
#endif
