/* SPDX-License-Identifier: MIT */
/*
 * The head of a file to be written: everything in front of its tensors' bytes.
 * It contains the offset of each of them, so it is made first; the writer
 * decides whether it is also written first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/layout.h>

#include "lib/file/file.h"

/* Hex digits of a checksum in the metadata. */
#define HEAD_DIGITS 16

/* With a tensor's name after it, the key of its checksum. */
#define HEAD_CHECKSUM "xxh3:"

struct head_tensor {
	const char *name;
	struct tarn_layout layout; /* its layout in the file: no gaps */
	size_t item;               /* the caller's index: a head may sort */
	/* Set by the function that makes the head. */
	uint64_t offset; /* of its first byte in the file */
	uint64_t nbytes;
	uint64_t digits; /* in the head: where the digits of its checksum go */
};

struct head {
	char *bytes;   /* malloc'ed */
	uint64_t size; /* where the tensors' bytes begin */
	uint64_t file_size;
};

struct head_options {
	uint64_t align; /* of the first tensor's offset, 0 or a power of two */
	bool checksums; /* reserve room for them: zeros, at digits */
	const struct file_pair *pairs; /* checksums among them are left out */
	size_t n_pairs;
};

/*
 * Sorts the tensors into their order in the file: by dtype, those of the
 * largest elements first, then by name, as the reference library does; so each
 * is aligned to its own elements. -EINVAL: a name or the metadata is not UTF-8,
 * or occurs twice; -E2BIG: the header is larger than readers accept; -ENOTSUP:
 * a tensor is not a whole number of bytes; -EOVERFLOW, -ENOMEM.
 */
int safetensors_head(struct head_tensor *tensors, size_t n,
	const struct head_options *options, struct head *ret);

/* -ENOTSUP: numpy has no such dtype; -EINVAL: the alignment needs a longer
 * header than numpy's limit. */
int npy_head(struct head_tensor *tensor, uint64_t align, struct head *ret);
