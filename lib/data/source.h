/* SPDX-License-Identifier: MIT */
/* A source: tokens in parts, each a file or a tensor, and where their documents
 * are. */
#pragma once

#include <stdatomic.h>

#include <tarn/data.h>

#include "base/cleanup.h"

/* How the documents of a part are known. */
enum data_index_kind {
	DATA_WHOLE,    /* the part is one document */
	DATA_MEGATRON, /* lengths in tokens, I32, and pointers in bytes, I64 */
	DATA_ENDS,     /* where each ends, in tokens */
};

/* Read with pread where it is a file: a few bytes for a document, no mapping
 * that a shrinking file would turn into a signal. Arrays may be unaligned. */
struct data_index {
	enum data_index_kind kind;
	const char *name; /* for sentences */
	tarn_storage *storage;
	uint64_t lengths_at, pointers_at; /* bytes */
	uint64_t ends_at;
	unsigned end_width; /* 4 or 8 bytes */
	bool lead;          /* the first entry is where the first begins */
	uint64_t base;      /* the token that ends count from */
};

struct data_part {
	char *name;
	tarn_storage *storage;
	uint64_t at; /* byte of the first token */
	uint64_t n_tokens, n_documents;
	uint64_t first_token, first_document; /* in the source */
	struct data_index index;
};

struct tarn_data_source {
	atomic_uint refs;
	enum tarn_dtype dtype;
	unsigned width; /* bytes of a token */
	const char *format;
	bool has_documents; /* some part's are known */
	struct data_part *parts;
	size_t n_parts, room;
	uint64_t n_tokens, n_documents;
	tarn_tensor *rows; /* samples are its rows; there are no parts then */
	/* The one part is of its rows, which take the place of tokens. */
	tarn_tensor *ragged;
	/* Samples are records; there are no parts then. */
	struct data_shards *shards;
	struct data_columns *columns;
	struct data_chain *chain;
};

/* Without anything in it; NULL after a failure. */
tarn_data_source *data_source_new(const char *format);

/* The part that has a token, or a document; it is not empty. */
const struct data_part *data_part_of_token(
	const tarn_data_source *source, uint64_t token);
const struct data_part *data_part_of_document(
	const tarn_data_source *source, uint64_t document);

/* Documents of a part, counted from its first, as its index has them. -EBADMSG
 * with the name of the file, and the offset. */
int data_index_lengths(
	const struct data_part *part, uint64_t first, size_t n, uint64_t *ret);
int data_index_document(const struct data_part *part, unsigned width,
	uint64_t document, uint64_t *ret_token, uint64_t *ret_length);
int data_index_find(const struct data_part *part, unsigned width,
	uint64_t token, uint64_t *ret_document);

/* Reads a part's index, whose names and storages are set, and checks what can be
 * checked in constant time. */
int data_megatron_read(struct data_part *part, enum tarn_dtype *ret_dtype);
/* *ret_width: 0 where there are no tokens. */
int data_datatrove_read(struct data_part *part, unsigned *ret_width);
/* Of DATA_ENDS: sets the base; and the token where the last document ends. */
int data_ends_begin(struct data_part *part);
int data_ends_last(const struct data_part *part, uint64_t *ret);

/* What a part may be: bytes of a token of 1 to 8, and the dtype, NONE where three
 * bytes are one. */
struct data_tokens {
	enum tarn_dtype dtype;
	unsigned width; /* 0: there are no tokens that would tell */
};

/* Is it a tar file by its name? */
bool data_is_shard(const char *path);
/* Opens a file as one more part, or as two, by its format; source_open.c. */
int data_open_path(tarn_data_source *source, const char *path,
	const struct data_tokens *raw);
/* Takes over what the part has, also where it fails. */
int data_add_part(tarn_data_source *source, struct data_part *part,
	const struct data_tokens *tokens, const char *format);
int data_tensor_part(const char *name, const tarn_tensor *values,
	const tarn_tensor *offsets, struct data_part *ret,
	struct data_tokens *ret_tokens);
/* Ragged rows: values of so many bytes are the tokens of the part. */
int data_ragged_part(const char *name, const tarn_tensor *values,
	const tarn_tensor *offsets, unsigned width, struct data_part *ret);
void data_part_end(struct data_part *part);

/* The bytes of a token of an integer dtype; 0: it is none. And the dtype of
 * unsigned tokens of so many bytes. */
unsigned data_token_width(enum tarn_dtype dtype);
enum tarn_dtype data_token_dtype(unsigned width);

DEFINE_CLEANUP(tarn_data_source *, tarn_data_source_unref);
#define _cleanup_source_ _cleanup_(tarn_data_source_unrefp)
