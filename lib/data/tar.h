/* SPDX-License-Identifier: MIT */
/* The members of a tar file, one after another: ustar, pax, GNU's long names and
 * sizes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tarn/tensor.h>

#define TAR_BLOCK 512u
/* Linux's PATH_MAX: no writer had a file of a longer name. */
#define TAR_NAME_MAX 4096u
/* Heads that are of one member, its own among them. Writers have three: a global
 * one, one of pax, and its own. Picked. */
#define TAR_HEADS_MAX 16u
/* Bytes of pax records or of a long name. Picked: beyond what writers make, and
 * little enough to be read at once. */
#define TAR_EXTRA_MAX (1u << 20)

struct tar_member {
	uint64_t at;      /* byte of its first head */
	uint64_t data;    /* byte behind its last one */
	uint64_t size;    /* bytes of data */
	bool file;        /* a regular one; what is not has no data here */
	const char *name; /* until the next call; it ends with NUL */
	size_t name_size;
};

/* What heads before a member's own say of it. */
struct tar_extra {
	bool has_name, has_size;
	char name[TAR_NAME_MAX + 1];
	size_t name_size;
	uint64_t size;
};

struct tar_scan {
	const tarn_storage *storage;
	uint64_t size; /* bytes of the file */
	uint64_t at;   /* of the next head */
	/* Bytes that have been read ahead. */
	unsigned char *buf;
	size_t buf_room, buf_n;
	uint64_t buf_at;
	size_t ahead; /* bytes to read at least; 0: as many as seem useful */
	struct tar_extra extra;
	char name[TAR_NAME_MAX + 1];
};

/* From a head on: the file's first, or that of a member. Needs tar_scan_end, also
 * after an error. The storage is the caller's. */
void tar_scan_begin(
	struct tar_scan *scan, const tarn_storage *storage, uint64_t at);
void tar_scan_end(struct tar_scan *scan);

/* 1: the next member; 0: there is none. -EBADMSG: the file is none, or is cut off;
 * -ENOTSUP: a member has holes; the sentence has the byte and not the file.
 * -ENOMEM, and the errors of reading. */
int tar_next(struct tar_scan *scan, struct tar_member *ret);

/* ---- parts (tar_head.c) ------------------------------------------------------ */

/* A number of a head: octal digits, or 256 as the base. False: it is neither, or
 * more than 2^63. */
bool tar_number(const unsigned char *field, size_t size, uint64_t *ret);
/* Does the sum of a head's bytes agree with the one in it? */
bool tar_sum_is_right(const unsigned char head[TAR_BLOCK]);
/* The name in a head, with ustar's prefix; at most 256 bytes and NUL. */
size_t tar_head_name(const unsigned char head[TAR_BLOCK], char *ret);
/* pax records: what they say of a member, unless an earlier head has said it.
 * global: they are for all members that follow, of which only that of no effect
 * here is accepted. at: their byte, for the sentence. */
int tar_pax(const unsigned char *records, size_t size, uint64_t at, bool global,
	struct tar_extra *extra);

/* The key and the field of a member's name, as WebDataset has them: the name up to
 * the first dot of its last part, and what follows. False: it has none. */
bool tar_key(const char *name, size_t size, size_t *ret_key_size);
