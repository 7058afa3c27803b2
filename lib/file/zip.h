/* SPDX-License-Identifier: MIT */
/* The records of a zip archive: where each one's bytes lie in the file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/file/file.h"

struct zip_record {
	const char *name; /* in the arena, with a NUL behind it */
	size_t name_size;
	uint64_t offset; /* of its first byte in the file */
	uint64_t size;   /* bytes there */
	unsigned method; /* of compression; 0: none */
	bool encrypted;
};

struct zip {
	struct zip_record *records; /* in the arena; in the archive's order */
	size_t count;
	struct name_index index;
};

/*
 * Reads the directory of the archive, and the local header of each record.
 * -EBADMSG: it is damaged, or two records have one name, or all together more
 * bytes than the archive. All that is found lies within the file.
 */
int zip_read(struct tarn_file *file, struct zip *ret);

/* 0: its bytes are stored as they are. -ENOTSUP: they are compressed or
 * encrypted. Asked before they are read. */
int zip_stored(const struct zip_record *record);

/* The record of that name; NULL: there is none. */
const struct zip_record *zip_find(
	const struct zip *zip, const char *name, size_t size);
