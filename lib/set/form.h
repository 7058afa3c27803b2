/* SPDX-License-Identifier: MIT */
/*
 * The bytes of PREFIX/.fields:
 *
 *	magic, version, fields, notes, digests	five numbers of 32 bits
 *	for each field, in the order of the keys:
 *		bytes of the key, bytes of the value	32 bits each
 *		both texts, each followed by a byte 0
 *	for each note, in the order of the names:
 *		bytes of the name, bytes of the note	32 bits each
 *		the name and a byte 0; the note
 *	for each digest, in the order of the names:
 *		bytes of the name			32 bits
 *		the name and a byte 0; both words of the digest, 64 bits each
 *
 * Numbers are little-endian and need no alignment. Nothing follows the last
 * digest. Keys are unique, and so are names of notes and of digests, since they
 * ascend.
 */
#pragma once

#include <tarn/set.h>

#include "base/cleanup.h"

/* Of a tensor, whose name is without the prefix. */
struct set_digest {
	const char *name;
	struct tarn_digest digest;
};

struct tarn_set_fields {
	size_t n, n_notes, n_digests;
	struct tarn_set_field *fields; /* by key */
	struct tarn_set_note *notes;   /* by name */
	struct set_digest *digests;    /* by name */
	unsigned char *bytes;          /* what they point into */
};

/* Writes fields, notes and digests, which may be in any order, to a new U8 tensor of
 * this process. of->bytes is not read. -EINVAL, -E2BIG, -ENOMEM. */
int set_form_write(
	const struct tarn_set_fields *of, tarn_tensor **ret) _must_check_;

/* Checks size bytes, and takes them over on success: they were allocated.
 * -EBADMSG. */
int set_form_read(unsigned char *bytes, size_t size,
	struct tarn_set_fields **ret) _must_check_;

/* Copies the fields, and sorts them by key: the result is malloc'ed. -EINVAL: one
 * is given twice or invalid; -E2BIG. */
int set_fields_sort(const struct tarn_set_field *fields, size_t n,
	struct tarn_set_field **ret) _must_check_;

/* fields: sorted by key. */
const struct tarn_set_field *set_field_find(
	const struct tarn_set_field *fields, size_t n, const char *key);

/* NULL: the tensor of that name has none. */
const struct set_digest *set_digest_find(
	const struct tarn_set_fields *fields, const char *name);

/* PREFIX/NAME in memory that the caller frees. -EINVAL: the prefix is empty or
 * ends with '/'; -ENAMETOOLONG; -ENOMEM. */
int set_name(const char *prefix, const char *name, char **ret) _must_check_;

DEFINE_CLEANUP(tarn_set_fields *, tarn_set_fields_free);
#define _cleanup_fields_ _cleanup_(tarn_set_fields_freep)
