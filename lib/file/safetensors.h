/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the safetensors reader, and by its writer. */
#pragma once

#include <jansson.h>

#include "lib/file/file.h"
#include "lib/file/json_tally.h"

/* A value of the root: jansson's result, and its original text. */
struct safetensors_value {
	json_t *json;
	struct json_value tally;
	bool reals; /* its integers were read as reals: one has over 63 bits */
};

/* The bytes of a header: the reference's limit, for readers and writers. */
#define SAFETENSORS_HEADER_MAX 100000000

/* Where a file's header begins, after its length. */
#define SAFETENSORS_TEXT 8

/* ---- the text (safetensors_text.c) ----------------------------------- */

/* The caller of safetensors_text_begin sets file and size, and frees buf. */
struct safetensors_text {
	struct tarn_file *file;
	uint64_t size;       /* of the header */
	char *buf;           /* some of it */
	const char *p, *end; /* the part of it that is still to be read */
	uint64_t at;         /* offset in the header of the first byte of buf */
};

/* Reads the first window. */
int safetensors_text_begin(struct safetensors_text *text);
/* Does end reach the end of the header? */
bool safetensors_text_all(const struct safetensors_text *text);
/* Moves the window on to p. */
int safetensors_text_more(struct safetensors_text *text);
/* Makes the window everything from p on. */
int safetensors_text_rest(struct safetensors_text *text);
/* The size of a window; tests make it small. */
extern size_t safetensors_window;

/* ---- entries --------------------------------------------------------- */

/* A value's original text, for a message. */
static inline const char *safetensors_show(
	struct json_text text, char buf[static FILE_TEXT_MAX])
{
	return file_clean(text.at, (size_t)(text.end - text.at), buf);
}

/*
 * dtype, ndim, shape and nbytes of a tensor from its entry; file_offset counts
 * from the first byte of the data, which the caller knows. They are consistent
 * with each other, but not yet checked against the file.
 */
int safetensors_entry(struct tarn_file *file,
	const struct safetensors_value *value, struct tarn_file_entry *ret);

/* The last plain entry, for comparison with the next ones: its text up to the
 * offsets, which come last, and its meaning. */
struct safetensors_like {
	char text[128]; /* room for a tensor of nine dimensions */
	size_t size;    /* 0: there is none */
	struct tarn_file_entry tensor;
};

/*
 * The same for an entry in the plain form that writers produce; returns where
 * it ends, and sets all of *ret. NULL: it has another form, or there is no
 * memory, and *ret is unchanged. *like is all zeroes at first, and belongs to
 * the file.
 */
const char *safetensors_plain(struct tarn_file *file, struct json_text text,
	struct safetensors_like *like, struct tarn_file_entry *ret);
extern bool safetensors_plain_on;
