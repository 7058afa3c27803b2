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
	uint64_t begin;  /* where its local header is in the file */
	uint64_t offset; /* of its first byte in the file */
	uint64_t size;   /* bytes there */
	uint64_t whole;  /* bytes they become: as many where not compressed */
	uint32_t crc;    /* of those */
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
 * -EBADMSG: it is damaged, or two records have one name, or share bytes, as no
 * writer of archives has them do: a small one could become as much as a large one
 * otherwise. All that is found lies within the file.
 */
int zip_read(struct tarn_file *file, struct zip *ret);

/* 0: its bytes are stored as they are, or deflated. -ENOTSUP: they are
 * compressed otherwise, or encrypted. */
int zip_readable(const struct zip_record *record);

/*
 * The same records, stored as they are, as an archive in a sealed memfd of whole
 * pages: the caller's own, or one that file->sharing has. -EBADMSG: one is not what
 * it declares. -ENOMEM: what they declare is more memory than there is.
 */
int zip_inflate(struct tarn_file *file, const struct zip *zip, int *ret_fd);

/* The headers of that archive. Each local one is behind the record before it,
 * and ends where its own record begins. */
#define ZIP_LOCAL_SIZE 30u
#define ZIP_ENTRY_SIZE (46u + 28u)
#define ZIP_END_SIZE (56u + 20u + 22u)
void zip_write_local(
	unsigned char *p, const struct zip_record *record, uint64_t at);
void zip_write_directory(unsigned char *base, const struct zip_record *records,
	size_t count, uint64_t directory);

/* The record of that name; NULL: there is none. */
const struct zip_record *zip_find(
	const struct zip *zip, const char *name, size_t size);
