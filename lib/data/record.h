/* SPDX-License-Identifier: MIT */
/* A record: its fields, and where each is. */
#pragma once

#include "lib/data/shard.h"
#include "lib/data/source.h"

struct data_field {
	struct tarn_data_field shown;
	char *name; /* what shown.name is */
	/* Its source, which the record's has a reference to. Of rows: the row; of
	 * tokens and ragged rows: elements first to first + n - 1. */
	const tarn_data_source *source;
	uint64_t first, n;
	/* Of shards. */
	size_t shard;
	char *key;
	struct shard_member member; /* without its name */
	size_t name_at;             /* where the member's begins in name */
};

struct tarn_data_record {
	tarn_data_source *source;
	char *key;
	struct data_field *fields;
	size_t n, room;
};

/* Columns. */
struct data_column {
	char *name;
	tarn_data_source *source;
};

struct data_columns {
	size_t n;
	uint64_t n_records;
	struct data_column *at;
};

/* Sources one after another: records of number first to that of the next. */
struct data_link {
	tarn_data_source *source;
	uint64_t first;
};

struct data_chain {
	size_t n;
	uint64_t n_records;
	struct data_link *at;
};

struct data_chain *data_chain_free(struct data_chain *chain);
/* The one that has a record. */
const struct data_link *data_chain_find(
	const struct data_chain *chain, uint64_t record);

struct data_columns *data_columns_free(struct data_columns *columns);
static inline bool data_has_records(const tarn_data_source *source)
{
	return source->columns || source->shards || source->chain;
}

/* The samples that a source has as a column: rows, documents or records. */
uint64_t data_source_count(const tarn_data_source *source);
