/* SPDX-License-Identifier: MIT */
/*
 * Saving: tensors become a file, whole or not at all.
 *
 * The bytes go to a temporary file in the same folder, which is synced,
 * renamed over the old one, and its folder synced: whoever opens the path, and
 * whatever the machine does meanwhile, finds the old file or the new one. Any
 * view is saved as it is, from wherever it is, without a contiguous copy in
 * memory; but one that lies crosswise in a file, as a Fortran array does in a
 * .npy that becomes safetensors, is brought into memory first, where there is
 * the room, so that the file is read once. Permissions are as the umask says,
 * or those of the file that is replaced, its access control list among them; a
 * symbolic link is followed. The bytes go past the page cache where
 * the disk allows it: who reads the file next reads the disk.
 *
 * Checksums are XXH3 (64 bits) of each tensor's bytes as they lie in the file,
 * kept as metadata: key "xxh3:" and the tensor's name, value 16 hex digits.
 * Readers that do not know of them lose nothing. Pairs of the caller's whose
 * keys begin so are left out: they would be of other bytes.
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
	/* What it is to be in the file: a dtype other than the tensor's and
	 * scale and bias as tarn_copy has them; NULL: as it is. */
	int dtype; /* 0: the tensor's */
	const struct tarn_copy_options *convert;
	/* The checksum that its bytes in the file must have, as
	 * tarn_file_checksum had it where they come from: damage is not copied
	 * on. NULL: whatever they have. Only with options->checksums. */
	const uint64_t *checksum;
};

struct tarn_save_pair {
	const char *key, *value;
};

struct tarn_save_options {
	const char *format; /* "safetensors", "npy" (one item, its name is not
			       kept); NULL: by the path's ending, else the
			       first */
	uint32_t align; /* a power of two that the first tensor's offset in the
			   file is a multiple of; 0: 4096, which lets it be
			   written and read directly, where there are 4 MiB
			   or more, and what the format asks for (8, 64)
			   where there are less */
	bool checksums; /* not for npy */
	bool exclusive; /* -EEXIST if there is something of that name */
	const struct tarn_save_pair *pairs; /* metadata; not for npy */
	size_t n_pairs;
	enum tarn_road road;
	const char *engine;
	/* Called now and then in the calling thread with bytes of all that is
	 * read into memory and written; non-zero cancels: -ECANCELED. */
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/*
 * Saves n tensors as path. Any thread. options and ret_info may be NULL. On
 * failure the old file is untouched and nothing is left behind: -ENOSPC,
 * -EDQUOT, -EFBIG, -EROFS, -EACCES (also of a file without write permission),
 * -EISDIR, -EEXIST, -ECANCELED, -EINVAL (two of one name, a bad name), -ENOTSUP
 * (the format has no such dtype), -E2BIG (a header over 100 MB), -EBADMSG (a
 * tensor has not the checksum that it must have). One failure is
 * different: when the folder cannot be synced the new file is in place already,
 * and the sentence says so.
 */
TARN_PUBLIC int tarn_save(const char *path, const struct tarn_save_item *items,
	size_t n, const struct tarn_save_options *options,
	struct tarn_copy_info *ret_info);

/* ---- verifying ----------------------------------------------------- */

struct tarn_verify_options {
	/* After each tensor that has a checksum, and each that has none:
	 * result is 0, -EBADMSG (it differs) or -ENODATA (there is none).
	 * Non-zero stops with that. */
	int (*tensor)(void *arg, const struct tarn_file_tensor *tensor,
		int result);
	int (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	enum tarn_road road;
	const char *engine;
};

struct tarn_verify_info {
	size_t good, bad, without; /* tensors */
	struct tarn_copy_info read;
};

/*
 * Reads every tensor that has a checksum and compares. 0: none differs.
 * -EBADMSG: one does, and the sentence names the first; *ret_info (may be
 * NULL) is written then too.
 */
TARN_PUBLIC int tarn_file_verify(tarn_file *file,
	const struct tarn_verify_options *options,
	struct tarn_verify_info *ret_info);

/* The checksum that the file has for a tensor. -ENOENT: none; -EBADMSG: it
 * is no 16 hex digits. */
TARN_PUBLIC int tarn_file_checksum(const tarn_file *file, const char *tensor,
	uint64_t *ret);

#ifdef __cplusplus
}
#endif
