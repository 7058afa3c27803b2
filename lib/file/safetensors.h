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

/* A value as it is written, for a message. */
static inline const char *safetensors_show(struct json_text text,
	char buf[static FILE_TEXT_MAX])
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

/*
 * The same for an entry that is as plain as writers make them; returns where
 * it ends. NULL: it is not, or there is no memory, and *ret is as it was.
 */
const char *safetensors_plain(struct tarn_file *file, struct json_text text,
	struct tarn_file_tensor *ret);
extern bool safetensors_plain_on;
