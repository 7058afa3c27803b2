/* SPDX-License-Identifier: MIT */
/* Datasets, as the verbs below "tarn data" open them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <tarn/data.h>

#include "base/cleanup.h"
#include "cli/options.h"
#include "cli/verbs.h"

DEFINE_CLEANUP(tarn_data *, tarn_data_free);
DEFINE_CLEANUP(tarn_data_record *, tarn_data_record_free);
#define _cleanup_record_ _cleanup_(tarn_data_record_freep)
#define _cleanup_data_ _cleanup_(tarn_data_freep)

/* The verbs of "tarn data". */
extern const struct verb data_verbs[];

int data_bench(int argc, char **argv);
int data_cat(int argc, char **argv);
int data_info(int argc, char **argv);

/* What a line says of a dataset, as it was typed. Begins as zeroes. */
struct data_line {
	const char *dtype, *seq_len, *seed, *windows, *shuffle, *block, *socket;
	bool no_side_car;
};

/* What the arguments stand for: all as one source, or each as one of its own,
 * where an argument is PATH@WEIGHT, or is of rows or in the store. Begins as
 * zeroes. */
struct data_set {
	tarn_data_source **sources;
	double *weights; /* NULL: they are not mixed */
	uint32_t n;
};

void data_set_end(struct data_set *set);
#define _cleanup_data_set_ _cleanup_(data_set_end)

#define OPTION_DTYPE(line)                                                     \
	{                                                                      \
		.name = "dtype", .letter = 'd', .value = "DTYPE",              \
		.ret_text = &(line).dtype,                                     \
		.help = "of files with tokens alone: U16, I32, ..."            \
	}

#define OPTIONS_SOURCE(line)                                                   \
	OPTION_DTYPE(line), OPTION_SOCKET(&(line).socket),                     \
	{                                                                      \
		.name = "no-side-car", .letter = 'C',                          \
		.ret_flag = &(line).no_side_car,                               \
		.help = "keep no index and no table beside files"              \
	}

#define OPTIONS_DATA(line)                                                     \
	OPTIONS_SOURCE(line),                                                  \
		{.name = "seq-len",                                            \
			.letter = 'L',                                         \
			.value = "L",                                          \
			.ret_text = &(line).seq_len,                           \
			.help = "tokens to read; a sample has one more"},      \
		{.name = "seed",                                               \
			.letter = 's',                                         \
			.value = "S",                                          \
			.ret_text = &(line).seed,                              \
			.help = "of the order; 0 if none is given"},           \
		{.name = "windows",                                            \
			.letter = 'W',                                         \
			.value = "KIND",                                       \
			.ret_text = &(line).windows,                           \
			.help = "stream (across documents), padded, dropped, " \
				"packed;\nrows; records"},                     \
		{.name = "shuffle",                                            \
			.letter = 'x',                                         \
			.value = "KIND",                                       \
			.ret_text = &(line).shuffle,                           \
			.help = "all, blocks or none"},                        \
	{                                                                      \
		.name = "block", .letter = 'b', .value = "N",                  \
		.ret_text = &(line).block,                                     \
		.help = "samples of a block; 4096 if none is given"            \
	}

/* Opens what the arguments stand for; and a dataset of it, which delivers I32 or,
 * where tokens have 8 bytes, I64. With bars for what takes long. OPTIONS_DONE, or
 * the exit status after a message. */
int data_set_open(const struct usage *usage, const struct data_line *line,
	char **args, int n, struct data_set *ret);
int data_dataset(const struct usage *usage, const struct data_line *line,
	const struct data_set *set, tarn_data **ret);

/* What records of a source have, as text or, where that is not NULL, in
 * *ret_json. Exit status. */
int data_records_info(const tarn_data_source *source, json_t **ret_json);

/* Parses the value of the option of that name as a number from 0 up; without a
 * text *ret stays. As option_count. */
int data_number(const struct usage *usage, const char *name, const char *text,
	uint64_t *ret);
