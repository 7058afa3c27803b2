/* SPDX-License-Identifier: MIT */
/*
 * The bytes of PREFIX/.fields:
 *
 *	magic, version, fields, notes	four numbers of 32 bits
 *	for each field, in the order of the keys:
 *		bytes of the key, bytes of the value	32 bits each
 *		both texts, each followed by a byte 0
 *	for each note, in the order of the names:
 *		bytes of the name, bytes of the note	32 bits each
 *		the name and a byte 0; the note
 *
 * Numbers are little-endian and need no alignment. Nothing follows the last
 * note. Keys and names are unique, since they ascend.
 */
#pragma once

#include <tarn/set.h>

#include "base/cleanup.h"

struct tarn_set_fields {
	size_t n, n_notes;
	struct tarn_set_field *fields; /* by key */
	struct tarn_set_note *notes;   /* by name */
	unsigned char *bytes;          /* what they point into */
};

/* The form of fields and notes, which may be in any order, as a U8 tensor of
 * this process. -EINVAL, -E2BIG, -ENOMEM. */
int set_form_write(const struct tarn_set_field *fields, size_t n,
	const struct tarn_set_note *notes, size_t n_notes,
	tarn_tensor **ret) _must_check_;

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

/* PREFIX/NAME in memory that the caller frees. -EINVAL: the prefix is empty or
 * ends with '/'; -ENAMETOOLONG; -ENOMEM. */
int set_name(const char *prefix, const char *name, char **ret) _must_check_;

DEFINE_CLEANUP(tarn_set_fields *, tarn_set_fields_free);
#define _cleanup_fields_ _cleanup_(tarn_set_fields_freep)
