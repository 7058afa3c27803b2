/* SPDX-License-Identifier: MIT */
/* What the parts of the safetensors reader share. */
#pragma once

#include <jansson.h>

#include "lib/file/file.h"
#include "lib/file/json_tally.h"

/* A value of the root: what jansson made of it, and how it was written. */
struct safetensors_value {
	json_t *json;
	struct json_value tally;
	bool reals; /* its integers were read as reals: one has over 63 bits */
};

/* Where a file's header begins, behind its length. */
#define SAFETENSORS_TEXT 8

/* ---- the text (safetensors_text.c) ----------------------------------- */

/* file and size are set by who begins; buf is his to free. */
struct safetensors_text {
	const struct tarn_file *file;
	uint64_t size;       /* of the header */
	char *buf;           /* some of it */
	const char *p, *end; /* what of that is to be read */
	uint64_t at;         /* byte of the header that buf begins with */
};

/* The first window. */
int safetensors_text_begin(struct safetensors_text *text);
/* Does nothing follow behind end? */
bool safetensors_text_all(const struct safetensors_text *text);
/* Moves the window on to p. */
int safetensors_text_more(struct safetensors_text *text);
/* Makes the window all that is left from p on. */
int safetensors_text_rest(struct safetensors_text *text);
/* Bytes of a window; tests make it small. */
extern size_t safetensors_window;

/* ---- entries --------------------------------------------------------- */

/* A value as it is written, for a message. */
static inline const char *safetensors_show(
	struct json_text text, char buf[static FILE_TEXT_MAX])
{
	return file_clean(text.at, (size_t)(text.end - text.at), buf);
}

/*
 * dtype, ndim, shape and nbytes of a tensor from its entry; file_offset counts
 * from the first byte of the data, which the caller knows. All are consistent
 * with each other, not yet with the file.
 */
int safetensors_entry(struct tarn_file *file,
	const struct safetensors_value *value, struct tarn_file_tensor *ret);

/* A plain entry that was read, for those that follow: its text up to the
 * offsets, which stand last, and what that means. */
struct safetensors_like {
	char text[128]; /* that of a tensor of nine dimensions fits */
	size_t size;	/* 0: there is none */
	struct tarn_file_tensor tensor;
};

/*
 * The same for an entry that is as plain as writers make them; returns where
 * it ends, and sets all of *ret. NULL: it is not, or there is no memory, and
 * *ret is as it was. *like is all zeroes at first, and belongs to the file.
 */
const char *safetensors_plain(struct tarn_file *file, struct json_text text,
	struct safetensors_like *like, struct tarn_file_tensor *ret);
extern bool safetensors_plain_on;
