/* SPDX-License-Identifier: MIT */
/* The records of a zip archive: where each one's bytes lie in the file. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/file/file.h"

struct zip_record {
	const char *name; /* in the arena, with a NUL behind it */
	size_t name_size;
	uint64_t offset; /* of its first byte in the file */
	uint64_t size;   /* bytes there */
};

struct zip {
	struct zip_record *records; /* in the arena; in the archive's order */
	size_t count;
	struct name_index index;
};

/*
 * Reads the directory of the archive, and the local header of each record. Only
 * records that are stored as they are can be read in place: a compressed one is
 * -ENOTSUP. -EBADMSG: it is damaged, or two records have one name. All
 * that is found lies within the file.
 */
int zip_read(struct tarn_file *file, struct zip *ret);

/* The record of that name; NULL: there is none. */
const struct zip_record *zip_find(
	const struct zip *zip, const char *name, size_t size);
